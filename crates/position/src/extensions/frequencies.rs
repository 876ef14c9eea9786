//! `frequencies`: any frequencies at all.
//!
//! `inv_freq'_i` are given in radians per position, one for each band, fastest first; `attention_factor`
//! multiplies cos and sin of q and k, so logits by its square. For methods that are not on the list, and for
//! frequencies found elsewhere. They are used at every length.

use crate::extension::FrequencyRule;
use crate::prelude::*;

/// Keys of `frequencies`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomFrequencies {
    /// Radians per position, one for each band, fastest first.
    pub inv_freq: Vec<f64>,
    /// Multiplies cos and sin.
    #[serde(default = "one")]
    pub attention_factor: f64,
}

fn one() -> f64 {
    1.0
}

impl FrequencyRule for CustomFrequencies {
    const KIND: &'static str = "frequencies";
    const DESCRIPTION: &'static str = "the frequencies given in `inv_freq`";
    const SOURCE: &'static str = "given by the user";
    const FORMULA: &'static str = "θ'_i = c_i, c given in the config, one number for each band";

    fn validate(&self, section: &str) -> Result<()> {
        for (band, &f) in self.inv_freq.iter().enumerate() {
            check_not_below(section, &format!("inv_freq[{band}]"), f, 0.0).map_err(|error| {
                error.hint("frequencies are radians per position; 0 takes the position out of a band")
            })?;
        }
        check_attention_factor(section, self.attention_factor)
    }

    fn examples(bands: usize, _lengths: Lengths) -> Vec<Example> {
        let mut inv_freq: Vec<f64> = (0..bands as i32).map(|band| 0.5f64.powi(band)).collect();
        if let [_, .., slowest] = inv_freq.as_mut_slice() {
            *slowest = 0.0;
        }
        let keys = format!("inv_freq = {inv_freq:?}");
        vec![Example::new(keys).changes_short_texts().bands(Band::Same, Band::More)]
    }

    fn frequencies(&self, old: &Frequencies, _scale: f64, _lengths: Lengths) -> Result<Frequencies> {
        let (given, bands) = (self.inv_freq.len(), old.inv_freq.len());
        if given != bands {
            return Err(Error::usage(format!(
                "`inv_freq` has {given} frequencies, but the encoding has {bands} bands"
            ))
            .hint("give one for each band: half the rotated dimension"));
        }
        let (inv_freq, attention_factor) = (self.inv_freq.clone(), self.attention_factor);
        Ok(Frequencies { inv_freq, attention_factor, start: None, ..*old })
    }
}
