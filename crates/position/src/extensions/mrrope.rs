//! `mrrope`: mixed-radix conversion between the bands that are kept and those that are interpolated.
//!
//! `inv_freq'_i = inv_freq_i s^(-e_i)`, `t_i = clip(i - lo, 0, N)`, `N = max(hi - lo, 1)`, where lo is the last band of
//! more than `beta` turns in L tokens (0 where there is none: the fastest band is always kept) and hi the
//! first of fewer than `alpha` (d/2 where there is none). `variant = "uni"`: `e = t / N`, the radix grows
//! evenly; `"pro"`: `e = t (t + 1) / (N (N + 1))`, progressively (arXiv:2601.22181). Cos and sin are scaled
//! as in `yarn`.

use super::ramp::{Parts, Ramp, yarn_factor};
use crate::extension::FrequencyRule;
use crate::prelude::*;
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

keys! {
    /// Keys of `mrrope`.
    pub struct MrRope {
        /// s: how much longer the text is than those of the training.
        pub scale: Scale = Scale::Auto,
        /// How the exponent of s grows over the bands.
        pub variant: Variant = Variant::Pro,
        /// Bands of fewer turns in L tokens are interpolated.
        pub alpha: f64 = 1.0,
        /// Bands of more turns in L tokens are kept.
        pub beta: f64 = 32.0,
    }
}

impl FrequencyRule for MrRope {
    const KIND: &'static str = "mrrope";
    const DESCRIPTION: &'static str =
        "mixed-radix conversion of the middle bands (MrRoPE), with YaRN's scaling";
    const SOURCE: &'static str = "arXiv:2601.22181";
    const FORMULA: &'static str = "θ'_i = θ_i s^{−j(j+1)/(N(N+1))}, j = clip(i − lo, 0, N), N = max(1, hi − lo)\n\
        lo = last i with L θ_i / 2π > 32, or 0\n\
        hi = first i with L θ_i / 2π < 1, or d/2\n\
        a'_{mn} = (0.1 ln s + 1)^2 q'_m · k'_n / √d";

    fn scale(&self) -> Scale {
        self.scale
    }

    fn validate(&self, section: &str) -> Result<()> {
        Parts { ramp: Ramp::Code, alpha: self.alpha, beta: self.beta, truncate: true }.validate(section)
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        ["", "variant = 'uni'"].map(|keys| Example::new(keys).bands(Band::Same, Band::ByScale)).into()
    }

    fn frequencies(&self, old: &Frequencies, scale: f64, lengths: Lengths) -> Result<Frequencies> {
        let turns: Vec<f64> = old.inv_freq.iter().map(|f| lengths.train as f64 * f / TAU).collect();
        let low = turns.iter().rposition(|&turns| turns > self.beta).unwrap_or(0);
        let high = turns.iter().position(|&turns| turns < self.alpha).unwrap_or(turns.len());
        let n = high.saturating_sub(low).max(1) as f64;
        let converted = old.map(|i, f| {
            let t = (i as f64 - low as f64).clamp(0.0, n);
            let exponent = match self.variant {
                Variant::Uni => t / n,
                Variant::Pro => t * (t + 1.0) / (n * (n + 1.0)),
            };
            f * scale.powf(-exponent)
        });
        Ok(converted.amplified(yarn_factor(1.0, scale)))
    }
}
