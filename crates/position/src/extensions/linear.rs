//! `linear`: position interpolation (PI).
//!
//! Every position is divided by the scale s, so that a text of length s L is read at positions the
//! training knows, closer together: `inv_freq'_i = inv_freq_i / s` for waves and rotations (Chen et
//! al. 2023, arXiv:2306.15595, equation 4). A learned table is read between its rows.

use crate::extension::{Band, Example, Extend, Lengths, Scale, Shifts, not_applicable};
use crate::reading::Reading;
use longwave_core::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys of `linear`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Linear {
    /// s: positions are divided by it.
    pub scale: Scale,
}

impl Linear {
    /// Reads every position divided by `scale`; `false` where no encoding has such a reading.
    pub(super) fn interpolate(reading: &mut Reading, scale: f64) -> bool {
        // Not `any`: every encoding that can be interpolated must be.
        let interpolated = reading
            .encodings_mut()
            .iter_mut()
            .filter_map(|encoding| encoding.interpolate(scale).then_some(()))
            .count();
        interpolated > 0
    }
}

impl Extend for Linear {
    const KIND: &'static str = "linear";
    const DESCRIPTION: &'static str = "divides every position by the scale (position interpolation, PI)";
    const SOURCE: &'static str = "arXiv:2306.15595";
    const FORMULA: &'static str = "m' = m / s\n\
        θ'_i = θ_i / s, the same for waves and rotations";

    fn validate(&self, section: &str) -> Result<()> {
        self.scale.validate(section)
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![
            Example::new("").bands(Band::ByScale, Band::ByScale),
            Example::new("log_n = true, temperature = 0.8").bands(Band::ByScale, Band::ByScale).changes_short_texts().shifts(Shifts::None),
        ]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        if Self::interpolate(reading, self.scale.at(lengths)) {
            return Ok(());
        }
        Err(not_applicable(Self::KIND, "an encoding that is defined between whole positions", reading))
    }
}
