//! `ntk_by_parts`: interpolates slow bands and keeps fast ones.
//!
//! `inv_freq'_i = inv_freq_i ((1 - g_i) / s + g_i)`: bands of at least `beta` turns in L tokens are kept
//! (g = 1), those of at most `alpha` are interpolated (g = 0) (Peng et al. 2023, arXiv:2309.00071,
//! section 3.2). Between them `ramp = "paper"` rises with the turns, `ramp = "code"` with the band's index, from
//! `max(floor c(beta), 0)` to `min(ceil c(alpha), d - 1)`, `c(turns) = d ln(L / (2 pi turns)) / (2 ln base)`, as
//! the published programs do. At L below 201 no band makes 32 turns: the paper's ramp then slows even the
//! fastest band, the code's keeps it.

use super::ramp::{Parts, Ramp};
use crate::extension::FrequencyRule;
use crate::prelude::*;

keys! {
    /// Keys of `ntk_by_parts`.
    pub struct NtkByParts {
        /// s: how much longer the text is than those of the training.
        pub scale: Scale = Scale::Auto,
        /// How the ramp rises.
        pub ramp: Ramp = Ramp::Code,
        /// Bands that make at most this many turns in L tokens are interpolated.
        pub alpha: f64 = 1.0,
        /// Bands that make at least this many turns in L tokens are kept.
        pub beta: f64 = 32.0,
        /// `ramp = "code"`: rounds the ends of the ramp outwards to whole bands.
        pub truncate: bool = true,
    }
}

impl NtkByParts {
    fn parts(&self) -> Parts {
        Parts { ramp: self.ramp, alpha: self.alpha, beta: self.beta, truncate: self.truncate }
    }
}

impl FrequencyRule for NtkByParts {
    const KIND: &'static str = "ntk_by_parts";
    const DESCRIPTION: &'static str =
        "interpolates bands that never completed a turn in training, keeps those that often did";
    const SOURCE: &'static str = "arXiv:2309.00071, section 3.2, and its repository";
    const FORMULA: &'static str = "θ'_i = θ_i (g_i + (1 − g_i) / s), g_i = 1 − clip((i − lo) / (hi − lo), 0, 1)\n\
        lo = max(0, ⌊c(32)⌋), hi = min(d − 1, ⌈c(1)⌉), c(r) = d ln(L / (2π r)) / (2 ln b)";

    fn scale(&self) -> Scale {
        self.scale
    }

    fn validate(&self, section: &str) -> Result<()> {
        self.parts().validate(section)
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![
            Example::new("").bands(Band::Same, Band::ByScale),
            Example::new("ramp = 'paper'").bands(Band::Between, Band::ByScale),
        ]
    }

    fn frequencies(&self, old: &Frequencies, scale: f64, lengths: Lengths) -> Result<Frequencies> {
        self.parts().interpolated(Self::KIND, old, scale, lengths)
    }
}
