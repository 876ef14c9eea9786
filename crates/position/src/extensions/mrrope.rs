//! `mrrope`: mixed-radix conversion between the bands that are kept and those that are interpolated.
//!
//! `inv_freq'_i = inv_freq_i s^(-e_i)`, `t_i = clip(i - lo, 0, N)`, `N = max(hi - lo, 1)`, where lo is the last band of
//! more than `beta` turns in L tokens (0 where there is none: the fastest band is always kept) and hi the
//! first of fewer than `alpha` (d/2 where there is none). `variant = "uni"`: `e = t / N`, the radix grows
//! evenly; `"pro"`: `e = t (t + 1) / (N (N + 1))`, progressively (arXiv:2601.22181). Cos and sin are scaled
//! as in `yarn`.

use super::ramp::{Parts, Ramp, yarn_factor};
use crate::extension::{Band, Example, Extend, Lengths, Scale, change_frequencies};
use crate::frequency::Frequencies;
use crate::reading::Reading;
use longwave_core::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// How the exponent of s grows over the bands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// Evenly.
    Uni,
    /// Progressively: slowly among the fast bands.
    #[default]
    Pro,
}

/// Keys of `mrrope`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MrRope {
    /// s: how much longer the text is than those of the training.
    pub scale: Scale,
    /// How the exponent of s grows over the bands.
    pub variant: Variant,
    /// Bands of fewer turns in L tokens are interpolated.
    pub alpha: f64,
    /// Bands of more turns in L tokens are kept.
    pub beta: f64,
}

impl Default for MrRope {
    fn default() -> Self {
        Self { scale: Scale::Auto, variant: Variant::Pro, alpha: 1.0, beta: 32.0 }
    }
}

impl MrRope {
    fn converted(&self, frequencies: &Frequencies, scale: f64, lengths: Lengths) -> Frequencies {
        let turns: Vec<f64> = frequencies.inv_freq.iter().map(|f| lengths.train as f64 * f / TAU).collect();
        let low = turns.iter().rposition(|&turns| turns > self.beta).unwrap_or(0);
        let high = turns.iter().position(|&turns| turns < self.alpha).unwrap_or(turns.len());
        let n = high.saturating_sub(low).max(1) as f64;
        let converted = frequencies.map(|i, f| {
            let t = (i as f64 - low as f64).clamp(0.0, n);
            let exponent = match self.variant {
                Variant::Uni => t / n,
                Variant::Pro => t * (t + 1.0) / (n * (n + 1.0)),
            };
            f * scale.powf(-exponent)
        });
        Frequencies { attention_factor: frequencies.attention_factor * yarn_factor(1.0, scale), ..converted }
    }
}

impl Extend for MrRope {
    const KIND: &'static str = "mrrope";
    const DESCRIPTION: &'static str = "mixed-radix conversion of the middle bands (MrRoPE), with YaRN's scaling";
    const SOURCE: &'static str = "arXiv:2601.22181";
    const FORMULA: &'static str = "θ'_i = θ_i s^{−j(j+1)/(N(N+1))}, j = clip(i − lo, 0, N), N = max(1, hi − lo)\n\
        lo = last i with L θ_i / 2π > 32, or 0\n\
        hi = first i with L θ_i / 2π < 1, or d/2\n\
        a'_{mn} = (0.1 ln s + 1)^2 q'_m · k'_n / √d";

    fn validate(&self, section: &str) -> Result<()> {
        Parts { ramp: Ramp::Code, alpha: self.alpha, beta: self.beta, truncate: true }.validate(section)?;
        self.scale.validate(section)
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![
            Example::new("").bands(Band::Same, Band::ByScale),
            Example::new("variant = 'uni'").bands(Band::Same, Band::ByScale),
        ]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        let scale = self.scale.at(lengths);
        change_frequencies(Self::KIND, reading, |frequencies| Ok(self.converted(frequencies, scale, lengths)))
    }
}
