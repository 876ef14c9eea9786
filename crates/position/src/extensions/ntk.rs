//! `ntk`: NTK-aware base conversion.
//!
//! `base' = base s^(d / (d - 2))`, `inv_freq'_i = base'^(-2i/d)` (Peng et al. 2023, arXiv:2309.00071,
//! definition 1): the fastest band keeps its frequency, the slowest is exactly interpolated
//! (`inv_freq / s`), and the others lie between. Nothing is trained.

use crate::encoding::Position;
use crate::extension::{Extend, Lengths, Scale, not_applicable};
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
///
/// # Errors
/// There is a single band (d = 2): d / (d - 2) has no value.
pub fn converted(frequencies: &Frequencies, scale: f64) -> Result<Frequencies> {
    let dim = frequencies.dim();
    if dim <= 2 {
        return Err(Error::usage(format!("`ntk` needs at least two frequencies, and a rotated dimension of {dim} has one"))
            .hint("use wider heads, or `linear`"));
    }
    let d = dim as f64;
    let base = frequencies.base * scale.powf(d / (d - 2.0));
    Ok(Frequencies { attention_factor: frequencies.attention_factor, ..Frequencies::geometric(base, dim) })
}

impl Extend for Ntk {
    const KIND: &'static str = "ntk";
    const SUMMARY: &'static str = "NTK-aware base conversion: the base grows to b s^(d/(d-2))";
    const SOURCE: &'static str = "arXiv:2309.00071, definition 1";

    fn validate(&self, section: &str) -> Result<()> {
        self.scale.validate(section)
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        let scale = self.scale.at(lengths);
        let mut converted_any = false;
        for encoding in reading.encodings_mut() {
            if let Some(frequencies) = encoding.frequencies() {
                let frequencies = converted(frequencies, scale)?;
                encoding.set_frequencies(frequencies);
                converted_any = true;
            }
        }
        if converted_any { Ok(()) } else { Err(not_applicable(Self::KIND, "frequencies with a base", reading)) }
    }
}
