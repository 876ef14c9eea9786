//! `su_ntk_mixed`: Su's mixed-radix base conversion.
//!
//! `inv_freq'_i = inv_freq_i exp(-a m^e)`, `a = ln s / (d/2)^e`, m = i + 1 (Su 2023, kexue.fm/archives/9706; `e` is
//! `b` there). The slowest band is exactly interpolated for every exponent; 0 is `linear`, 1 is
//! `su_ntk_fixed`, and 0.625 was best in that post. The published program uses 0.75.

use crate::extension::{Band, Example, Extend, Lengths, Scale, change_frequencies};
use crate::reading::Reading;
use longwave_core::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys of `su_ntk_mixed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SuNtkMixed {
    /// s: how much longer the text is than those of the training.
    pub scale: Scale,
    /// e: from 0 (every band alike) to 1 (geometric); at least 0.
    pub exponent: f64,
}

impl Default for SuNtkMixed {
    fn default() -> Self {
        Self { scale: Scale::Auto, exponent: 0.625 }
    }
}

impl Extend for SuNtkMixed {
    const KIND: &'static str = "su_ntk_mixed";
    const DESCRIPTION: &'static str = "Su's mixed-radix base conversion, between interpolation and su_ntk_fixed";
    const SOURCE: &'static str = "kexue.fm/archives/9706";
    const FORMULA: &'static str = "θ'_i = θ_i s^{−c_i}, c_i = (2(i + 1) / d)^{0.625}";

    fn validate(&self, section: &str) -> Result<()> {
        if !(self.exponent.is_finite() && self.exponent >= 0.0) {
            return Err(Error::value(
                &format!("{section}.exponent"),
                self.exponent,
                "it must be a number of at least 0",
            )
            .hint("0 is `linear`, 1 is `su_ntk_fixed`, 0.625 was published as best"));
        }
        self.scale.validate(section)
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![
            Example::new("").bands(Band::Between, Band::ByScale),
        ]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        let scale = self.scale.at(lengths);
        change_frequencies(Self::KIND, reading, |frequencies| {
            let bands = frequencies.inv_freq.len() as f64;
            let share = |i: usize| ((i as f64 + 1.0) / bands).powf(self.exponent);
            Ok(frequencies.map(|i, f| f * (-scale.ln() * share(i)).exp()))
        })
    }
}
