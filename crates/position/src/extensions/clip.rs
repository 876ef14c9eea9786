//! `clip`: the slowest bands turn less and less, down to a band that stands still.
//!
//! Of `d/2` bands the n slowest, `i = d/2 - n + k`, `k = 0..n-1`, are multiplied by `(1 + cos(pi k / (n - 1))) / 2`: the first of them is
//! unchanged and the slowest stands still (Clipped `RoPE`, Li et al. 2026, arXiv:2602.05258, `modeling_cope.py` of hrlics/CoPE). One band alone
//! (n = 1) is left as it is, as in the published code. `soft = false` stops all n (its `HardClip`). The paper clips in training, n = 20 of 64
//! bands; here n is by default that of the model: the bands that complete no turn in L tokens, `2 pi / inv_freq_i > L` (pull request 1387 of
//! ml-explore/mlx-lm). Frequencies are those of the model as it was last trained, its scaling included: clipping comes last.

use crate::auto::Auto;
use crate::extension::FrequencyRule;
use crate::prelude::*;
use std::f64::consts::{PI, TAU};

keys! {
    /// Keys of `clip`.
    pub struct Clip {
        /// n: the slowest bands, which are clipped; `"auto"` takes those that complete no turn within the training length.
        pub bands: Count = Count::Word(Auto::Auto),
        /// Whether the bands slow down by and by; false stops all of them.
        pub soft: bool = true,
    }
}

/// A number of bands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "it must be \"auto\" or a number of bands")]
pub enum Count {
    /// Those that complete no turn within the training length.
    Word(Auto),
    /// So many.
    Given(usize),
}

impl Clip {
    /// How many of the slowest bands are clipped.
    pub fn clipped(&self, frequencies: &Frequencies, train_length: usize) -> usize {
        match self.bands {
            Count::Given(bands) => bands.min(frequencies.inv_freq.len()),
            Count::Word(Auto::Auto) => {
                frequencies.inv_freq.iter().filter(|f| TAU / **f > train_length as f64).count()
            }
        }
    }

    /// The factor of the k-th of n clipped bands.
    fn weight(&self, k: usize, n: usize) -> f64 {
        match (self.soft, n) {
            (false, _) => 0.0,
            (true, 1) => 1.0,
            // Exactly 0, where the cosine is -1 but for rounding.
            (true, _) if k + 1 == n => 0.0,
            (true, _) => f64::midpoint(1.0, (PI * k as f64 / (n - 1) as f64).cos()),
        }
    }
}

impl FrequencyRule for Clip {
    const KIND: &'static str = "clip";
    const DESCRIPTION: &'static str =
        "slows the bands that never turned in training down to a stop (Clipped RoPE)";
    const SOURCE: &'static str = "arXiv:2602.05258 and hrlics/CoPE";
    const FORMULA: &'static str = "θ'_i = θ_i (1 + cos(π (i − c) / (d/2 − 1 − c))) / 2, for i ≥ c\n\
        c the first band with 2π / θ_i > L";

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        let slowed = |keys| Example::new(keys).changes_short_texts().bands(Band::Same, Band::More);
        vec![slowed(""), slowed("bands = 2, soft = false")]
    }

    fn frequencies(&self, old: &Frequencies, _scale: f64, lengths: Lengths) -> Result<Frequencies> {
        let (bands, clipped) = (old.inv_freq.len(), self.clipped(old, lengths.train));
        let first = bands - clipped;
        Ok(old.map(|band, f| if band < first { f } else { f * self.weight(band - first, clipped) }))
    }
}
