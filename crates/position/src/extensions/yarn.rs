//! `yarn`: NTK by parts, with a temperature on the logits.
//!
//! Frequencies as `ntk_by_parts`; cos and sin of q and k are multiplied by `0.1 mscale ln s + 1` where s > 1,
//! so q.k by its square (Peng et al. 2023, arXiv:2309.00071, section 3.4). With waves that are added (`sinusoidal`)
//! q.k is scaled. `temperature = t` takes the place of the formula at every scale: it divides the logits by t, in the
//! layers whose frequencies change, which for q.k of rotated channels alone is a factor `1 / sqrt(t)` on cos and sin.

use super::common::check_temperature;
use super::ramp::{Parts, Ramp, yarn_factor};
use crate::extension::{Band, Example, Extend, Lengths, Scale, change_frequencies};
use crate::frequency::Frequencies;
use crate::reading::Reading;
use longwave_core::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys of `yarn`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Yarn {
    /// s: how much longer the text is than those of the training.
    pub scale: Scale,
    /// How the ramp rises.
    pub ramp: Ramp,
    /// Bands that make at most this many turns in L tokens are interpolated.
    pub alpha: f64,
    /// Bands that make at least this many turns in L tokens are kept.
    pub beta: f64,
    /// `ramp = "code"`: rounds the ends of the ramp outwards to whole bands.
    pub truncate: bool,
    /// Factor on the logarithm in `0.1 mscale ln s + 1`.
    pub mscale: f64,
    /// Divides the logits, in place of the formula.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
}

impl Default for Yarn {
    fn default() -> Self {
        Self {
            scale: Scale::Auto,
            ramp: Ramp::Code,
            alpha: 1.0,
            beta: 32.0,
            truncate: true,
            mscale: 1.0,
            temperature: None,
        }
    }
}

impl Yarn {
    fn parts(&self) -> Parts {
        Parts { ramp: self.ramp, alpha: self.alpha, beta: self.beta, truncate: self.truncate }
    }
}

impl Extend for Yarn {
    const KIND: &'static str = "yarn";
    const DESCRIPTION: &'static str = "ntk_by_parts with sharper attention (YaRN)";
    const SOURCE: &'static str = "arXiv:2309.00071 and its repository";
    const OWN_TEMPERATURE: bool = true;

    fn validate(&self, section: &str) -> Result<()> {
        if !(self.mscale.is_finite() && self.mscale >= 0.0) {
            return Err(Error::value(
                &format!("{section}.mscale"),
                self.mscale,
                "it must be a number of at least 0",
            )
            .hint("0 leaves the logits as they are, 1 is the published scaling"));
        }
        if let Some(temperature) = self.temperature {
            check_temperature(section, temperature)?;
        }
        self.parts().validate(section)?;
        self.scale.validate(section)
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![
            Example::new("").bands(Band::Same, Band::ByScale),
            Example::new("ramp = 'paper'").bands(Band::Between, Band::ByScale),
            Example::new("resonance = true").changes_short_texts().bands(Band::Same, Band::ByScale),
        ]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        let scale = self.scale.at(lengths);
        let factor = if self.temperature.is_some() { 1.0 } else { yarn_factor(self.mscale, scale) };
        change_frequencies(Self::KIND, reading, |frequencies| {
            let attention_factor = frequencies.attention_factor * factor;
            let parts = self.parts().interpolated(Self::KIND, frequencies, scale, lengths)?;
            Ok(Frequencies { attention_factor, ..parts })
        })?;
        let changed: Vec<bool> =
            reading.encodings().iter().map(|encoding| encoding.frequencies().is_some()).collect();
        for layer in reading.layers_mut() {
            if layer.encodings.iter().any(|place| changed[place.encoding]) {
                layer.temperature *= self.temperature.unwrap_or(1.0);
            }
        }
        Ok(())
    }
}
