//! `su_ntk_mixed`: Su's mixed-radix base conversion.
//!
//! `inv_freq'_i = inv_freq_i exp(-a m^e)`, `a = ln s / (d/2)^e`, m = i + 1 (Su 2023, kexue.fm/archives/9706; `e` is
//! `b` there). The slowest band is exactly interpolated for every exponent; 0 is `linear`, 1 is
//! `su_ntk_fixed`, and 0.625 was best in that post. The published program uses 0.75.

use crate::extension::FrequencyRule;
use crate::prelude::*;

keys! {
    /// Keys of `su_ntk_mixed`.
    pub struct SuNtkMixed {
        /// s: how much longer the text is than those of the training.
        pub scale: Scale = Scale::Auto,
        /// e: from 0 (every band alike) to 1 (geometric); at least 0.
        pub exponent: f64 = 0.625,
    }
}

impl FrequencyRule for SuNtkMixed {
    const KIND: &'static str = "su_ntk_mixed";
    const DESCRIPTION: &'static str =
        "Su's mixed-radix base conversion, between interpolation and su_ntk_fixed";
    const SOURCE: &'static str = "kexue.fm/archives/9706";
    const FORMULA: &'static str = "θ'_i = θ_i s^{−c_i}, c_i = (2(i + 1) / d)^{0.625}";

    fn scale(&self) -> Scale {
        self.scale
    }

    fn validate(&self, section: &str) -> Result<()> {
        check_not_below(section, "exponent", self.exponent, 0.0)
            .map_err(|error| error.hint("0 is `linear`, 1 is `su_ntk_fixed`, 0.625 was published as best"))
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![Example::new("").bands(Band::Between, Band::ByScale)]
    }

    fn frequencies(&self, old: &Frequencies, scale: f64, _lengths: Lengths) -> Result<Frequencies> {
        let bands = old.inv_freq.len() as f64;
        let share = |i: usize| ((i as f64 + 1.0) / bands).powf(self.exponent);
        Ok(old.map(|i, f| f * (-scale.ln() * share(i)).exp()))
    }
}
