//! `ntk`: NTK-aware base conversion.
//!
//! `base' = base s^(d / (d - 2))`, `inv_freq'_i = base'^(-2i/d) = inv_freq_i s^(-2i/(d-2))`
//! (Peng et al. 2023, arXiv:2309.00071, definition 1): the fastest band keeps its frequency, the slowest
//! is exactly interpolated (`inv_freq / s`), and the others lie between. Nothing is trained.

use crate::extension::{Band, Example, Extend, Lengths, Scale, Shifts, change_frequencies};
use crate::frequency::Frequencies;
use crate::reading::Reading;
use longwave_core::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys of `ntk`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ntk {
    /// s: how much longer the text is than those of the training.
    pub scale: Scale,
}

/// The frequencies of the converted base.
pub fn converted(kind: &str, frequencies: &Frequencies, scale: f64) -> Result<Frequencies> {
    let dim = frequencies.dim();
    if dim <= 2 {
        return Err(Error::usage(format!(
            "`{kind}` needs at least two frequencies, and a rotated dimension of {dim} has one"
        ))
        .hint("use wider heads, or `linear`"));
    }
    let d = dim as f64;
    let base = frequencies.base * scale.powf(d / (d - 2.0));
    // Band by band, so that frequencies which are no powers of the base (zeros, say) stay what they are.
    Ok(Frequencies { base, ..frequencies.map(|i, f| f * scale.powf(-2.0 * i as f64 / (d - 2.0))) })
}

impl Extend for Ntk {
    const KIND: &'static str = "ntk";
    const DESCRIPTION: &'static str = "NTK-aware base conversion: the base grows to b s^(d/(d-2))";
    const SOURCE: &'static str = "arXiv:2309.00071, definition 1";
    const FORMULA: &'static str = "b' = b s^{d/(d−2)}\n\
        θ'_i = b'^{−2i/d} = θ_i s^{−2i/(d−2)}";

    fn validate(&self, section: &str) -> Result<()> {
        self.scale.validate(section)
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![
            Example::new("").bands(Band::Same, Band::ByScale),
            Example::new("log_n = true").bands(Band::Same, Band::ByScale).shifts(Shifts::None),
        ]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        let scale = self.scale.at(lengths);
        change_frequencies(Self::KIND, reading, |frequencies| converted(Self::KIND, frequencies, scale))
    }
}
