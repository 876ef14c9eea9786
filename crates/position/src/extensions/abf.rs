//! `abf`: another base (adjusted base frequency).
//!
//! `inv_freq'_i = inv_freq_i (new_base / base)^(-2i/d)`, that is `new_base^(-2i/d)` (Xiong et al. 2023, arXiv:2309.16039,
//! with 500,000). It is meant for continued training: read without any, it changes a model at every length,
//! the training length included.

use super::su_ntk_old::times;
use crate::extension::FrequencyRule;
use crate::prelude::*;

keys! {
    /// Keys of `abf`.
    pub struct Abf {
        /// The base to read with.
        pub new_base: f64 = 500_000.0,
    }
}

impl FrequencyRule for Abf {
    const KIND: &'static str = "abf";
    const DESCRIPTION: &'static str =
        "another base at every length (adjusted base frequency), for continued training";
    const SOURCE: &'static str = "arXiv:2309.16039";
    const FORMULA: &'static str = "b' = 500000\n\
        θ'_i = b'^{−2i/d} = θ_i (b'/b)^{−2i/d}";

    fn validate(&self, section: &str) -> Result<()> {
        check_above(section, "new_base", self.new_base, 1.0)
            .map_err(|error| error.hint("the published one is 500000.0"))
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![Example::new("").changes_short_texts().bands(Band::Same, Band::More)]
    }

    fn frequencies(&self, old: &Frequencies, _scale: f64, _lengths: Lengths) -> Result<Frequencies> {
        Ok(times(old, self.new_base / old.base))
    }
}
