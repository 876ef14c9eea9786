//! `su_ntk_fixed`: Su's corrected base conversion.
//!
//! `inv_freq'_i = inv_freq_i s^(-2(i+1)/d)` (Su 2023, kexue.fm/archives/9706:
//! `1 / (lambda^m beta^(m-1))`, `lambda = s^(2/d)`, `beta = base^(2/d)`, m = i + 1). The slowest band is exactly
//! interpolated (`inv_freq / s`); the fastest is already slowed by lambda.

use crate::extension::FrequencyRule;
use crate::prelude::*;

keys! {
    /// Keys of `su_ntk_fixed`.
    pub struct SuNtkFixed {
        /// s: how much longer the text is than those of the training.
        pub scale: Scale = Scale::Auto,
    }
}

impl FrequencyRule for SuNtkFixed {
    const KIND: &'static str = "su_ntk_fixed";
    const DESCRIPTION: &'static str =
        "Su's corrected base conversion: the slowest band is exactly interpolated";
    const SOURCE: &'static str = "kexue.fm/archives/9706";
    const FORMULA: &'static str = "θ'_i = θ_i s^{−2(i+1)/d}";

    fn scale(&self) -> Scale {
        self.scale
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![Example::new("").bands(Band::Between, Band::ByScale)]
    }

    fn frequencies(&self, old: &Frequencies, scale: f64, _lengths: Lengths) -> Result<Frequencies> {
        let d = old.dim() as f64;
        Ok(old.map(|i, f| f * scale.powf(-2.0 * (i as f64 + 1.0) / d)))
    }
}
