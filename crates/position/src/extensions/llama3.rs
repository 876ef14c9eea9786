//! `llama3`: the frequency scaling of Llama 3.1.
//!
//! With turns `t_i = L inv_freq_i / 2 pi`: bands of fewer than `low_freq_factor` turns are interpolated
//! (`inv_freq / s`), those of more than `high_freq_factor` kept, and between them
//! `inv_freq'_i = (1 - m) inv_freq_i / s + m inv_freq_i`, `m = (t_i - low) / (high - low)` (Llama Team 2024,
//! arXiv:2407.21783; `"llama3"` in transformers): the ramp of `ntk_by_parts` in the paper's form with other
//! ends, and no temperature.

use super::ramp::{Parts, Ramp};
use crate::extension::FrequencyRule;
use crate::prelude::*;

keys! {
    /// Keys of `llama3`.
    pub struct Llama3 {
        /// s: how much longer the text is than those of the training.
        pub scale: Scale = Scale::Auto,
        /// Bands of fewer turns in L tokens are interpolated.
        pub low_freq_factor: f64 = 1.0,
        /// Bands of more turns in L tokens are kept.
        pub high_freq_factor: f64 = 4.0,
    }
}

impl FrequencyRule for Llama3 {
    const KIND: &'static str = "llama3";
    const DESCRIPTION: &'static str = "the frequency scaling of Llama 3.1: a short ramp over turns";
    const SOURCE: &'static str = "\"llama3\" in transformers; arXiv:2407.21783";
    const FORMULA: &'static str =
        "θ'_i = θ_i (g_i + (1 − g_i) / s), g_i = clip((L θ_i / 2π − 1) / (4 − 1), 0, 1)";

    fn scale(&self) -> Scale {
        self.scale
    }

    fn validate(&self, section: &str) -> Result<()> {
        let (low, high) = (self.low_freq_factor, self.high_freq_factor);
        check_positive(section, "low_freq_factor", low)
            .map_err(|error| error.hint("the published one is 1.0"))?;
        if high.is_finite() && high > low {
            return Ok(());
        }
        let allowed = format!("it must be a number above `{section}.low_freq_factor = {low}`");
        Err(Error::value(&format!("{section}.high_freq_factor"), high, allowed)
            .hint("the published one is 4.0"))
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![Example::new("").bands(Band::Same, Band::ByScale)]
    }

    fn frequencies(&self, old: &Frequencies, scale: f64, lengths: Lengths) -> Result<Frequencies> {
        let (alpha, beta) = (self.low_freq_factor, self.high_freq_factor);
        let parts = Parts { ramp: Ramp::Paper, alpha, beta, truncate: false };
        parts.interpolated(Self::KIND, old, scale, lengths)
    }
}
