//! `rope`: rotary position embedding.
//!
//! Channel pair i of q and k is turned by the angle `m inv_freq_i`, `inv_freq_i = base^(-2i/r)`,
//! i = 0..r/2-1: `(a, b) -> (a cos - b sin, a sin + b cos)`, so that `q_m . k_n` depends on m - n alone
//! (Su et al. 2021, arXiv:2104.09864, equations 15 and 34). Acts in every layer; no parameters.
//!
//! `r = fraction head_dim` channels are rotated, the rest pass unchanged (GPT-NeoX's `rotary_pct`);
//! the frequencies are those of the rotated dimension. `layout = "half"` pairs channels (i, i + r/2)
//! (GPT-NeoX, Llama in transformers), `"interleaved"` pairs (2i, 2i + 1) (the paper, GPT-J): the same
//! function after a permutation of weights, so trained models differ only in what they can load.
//!
//! Two variants leave the slowest bands unrotated (frequency 0), so that they carry content alone:
//! `p` keeps the fastest floor(p r/2) bands (p-RoPE, Barbero et al. 2024, arXiv:2410.06205); `hope` those
//! that complete a turn within the training length, `inv_freq_i >= 2 pi / L` (Chen et al. 2024,
//! arXiv:2410.21216). Extensions leave an unrotated band unrotated.
//!
//! Three keys say the frequencies in another way:
//!
//! - `base = "L"`, or another multiple of the training length (`FMRoPE`, Oka et al., "Frequency Bands in `RoPE`", ICLR 2026, section 6.1). It reads
//!   texts of L' tokens with the base L' (`su_ntk_old`).
//! - `slowest_turns = t`: of the bands that turn, the slowest turns t times in L tokens and the fastest by `fastest` radians a token, the others
//!   between them in a geometric progression: `base = (L / (2 pi t))^(r/(r-2))` where all turn and `fastest = 1`. With `p = 0.5` these are the
//!   frequencies of RoPE-ID (Wertheimer et al. 2026, arXiv:2603.18017, `fastest` 2 pi / 32 and `slowest_turns` 2 at L = 4,096), which reads longer texts
//!   with `YaRN`'s factor on the logits.
//! - `spacing = "cosh"`: more bands at the fast end, `inv_freq_k = base^(-phi_k)`, `phi_k = 1 - asinh((1 - u_k) sinh tau) / tau`, `u_k = (2k + 1) / r`
//!   (EVQ-Cosh, 2026), `tau` or `"auto"`, which is `r / sqrt(L)`.
//!
//! `learned = "layer"` or `"head"` trains the frequencies, see `rope::learned`.
//!
//! `resonance = true` rounds the wavelength of every band to whole tokens, `inv_freq_i <- 2 pi / round(2 pi / inv_freq_i)`
//! (Resonance `RoPE`, Wang et al. 2024, arXiv:2403.00071): a band that turns within the training length then
//! meets no new angle at any whole distance. Rounding comes last: an extension scales the frequencies before it. With it `fastest` is
//! at most 4 pi / 3, so that every wavelength rounds to 2 tokens or more.

mod learned;
mod schedule;

pub use learned::Shared;
pub use schedule::{Spacing, Tau};

use crate::frequency::share_of_bands;
use crate::prelude::*;
use std::f64::consts::TAU;

keys! {
    /// Keys of `kind = "rope"`.
    pub struct Config {
        /// The base of the geometric progression of frequencies: a number, or a length.
        pub base: f64 = BASE,
        /// How often the slowest band that turns does so within the training length, in place of `base`.
        pub slowest_turns: Option<f64> = None,
        /// `slowest_turns`: the fastest band, in radians a token; with `resonance` at most 4 pi / 3. Default: 1.
        pub fastest: Option<f64> = None,
        /// How the frequencies lie between 1 and 1 / base.
        #[serde(skip_serializing_if = "Spacing::is_geometric")]
        pub spacing: Spacing = Spacing::Geometric,
        /// `spacing = "cosh"`: how far bands move to the fast end, at least 0. Default: `"auto"`, the rotated channels over the root of the
        /// training length.
        pub tau: Option<Tau> = None,
        /// Which channels make a pair.
        pub layout: Layout = Layout::Half,
        /// Share of each head's channels that is rotated, above 0 and at most 1.
        pub fraction: f64 = 1.0,
        /// Share of the bands that is rotated, fastest first, from 0 (no rotation) to 1 (p-RoPE).
        pub p: f64 = 1.0,
        /// Rotate only the bands that complete a turn within the training length (`HoPE`).
        pub hope: bool = false,
        /// Learn the frequencies: a table for each layer, or for each key head of each layer (GRAPE-M). They start as the other keys say.
        pub learned: Option<Shared> = None,
        /// Round every wavelength to whole tokens (Resonance `RoPE`).
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub resonance: bool = false,
    }
}

/// The base unless another is given.
const BASE: f64 = 10_000.0;

/// The rotation of every layer.
#[derive(Module, Debug)]
pub struct Rope {
    /// Learned frequencies, see `rope::learned`: `[layers, 1 or kv_heads, bands]`.
    pub log_frequencies: Option<Param<Tensor<3>>>,
    #[module(skip)]
    rotation: Rotation,
    /// Whether each band is rotated.
    #[module(skip)]
    turns: Vec<bool>,
}

impl Config {
    /// Channels that are rotated.
    fn rotated(&self, head_dim: usize) -> f64 {
        self.fraction * head_dim as f64
    }
}

impl Configure for Config {
    type Encoding = Rope;
    const KIND: &'static str = "rope";
    const DESCRIPTION: &'static str = "rotates q and k by angles that grow with the position (RoPE)";
    const SOURCE: &'static str = "arXiv:2104.09864";
    const FORMULA: &'static str = "a_{mn} = Σ_i (R(m θ_i) q_{m,i}) · (R(n θ_i) k_{n,i}) / √d, q_{m,i} channels i and i + d/2 of q_m\n\
        R(φ)(u, w) = (u cos φ − w sin φ, u sin φ + w cos φ)\n\
        θ_i = b^{−2i/d}, b = 10000";
    const PYTORCH: Option<&'static str> = Some(include_str!("rope/rope.py"));
    const EXTRAPOLATION: Extrapolation =
        Extrapolation::Supported("defined: angles that training never showed");
    const LENGTHS: &'static [&'static str] = &["base"];
    const VARIANTS: &'static [&'static str] = &[
        "layout = 'interleaved'\nfraction = 0.5",
        "hope = true",
        "p = 0.5",
        "resonance = true",
        "slowest_turns = 0.25\nfastest = 0.9",
        "spacing = 'cosh'",
        "learned = 'head'",
    ];

    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        check_base(section, self.base)?;
        if !(self.fraction > 0.0 && self.fraction <= 1.0) {
            return Err(Error::value(
                &format!("{section}.fraction"),
                self.fraction,
                "it must be above 0 and at most 1",
            ));
        }
        if !(0.0..=1.0).contains(&self.p) {
            return Err(Error::value(&format!("{section}.p"), self.p, "it must be between 0 and 1")
                .hint("1 rotates every band, 0.75 leaves the slowest quarter unrotated"));
        }
        let rotated = self.rotated(dimensions.head_dim);
        if (rotated - rotated.round()).abs() > 1e-6 || rotated.round() as usize % 2 == 1 || rotated < 1.5 {
            return Err(Error::usage(format!(
                "`rope` turns pairs of channels, so `{section}.fraction = {}` of the head dimension {} must be an even \
                 number, not {rotated}",
                self.fraction, dimensions.head_dim
            ))
            .hint(
                "the head dimension is `model.width / model.heads`: change those, give `model.head_dim`, or change \
                 the fraction",
            ));
        }
        let turning = share_of_bands(self.p, rotated.round() as usize / 2);
        self.check_schedule(section, turning, dimensions.train_length)?;
        self.check_learned(section)
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Rope {
        let rotated = self.rotated(dimensions.head_dim).round() as usize;
        let kept = share_of_bands(self.p, rotated / 2);
        let frequencies = self.frequencies(rotated, kept, dimensions.train_length);
        let frequencies = Frequencies { resonance: self.resonance, ..frequencies };
        // A band that turns once may do so but for rounding.
        let slowest = if self.hope { TAU / dimensions.train_length as f64 * (1.0 - 1e-12) } else { 0.0 };
        let turns =
            frequencies.inv_freq.iter().enumerate().map(|(band, &f)| band < kept && f >= slowest).collect();
        let log_frequencies =
            self.learned.map(|shared| shared.parameter(&frequencies.inv_freq, dimensions, init));
        let rotation = Rotation::new(frequencies.clone(), self.layout);
        let mut rope = Rope { log_frequencies, rotation, turns };
        rope.set_frequencies(frequencies);
        rope
    }
}

impl Position for Rope {
    fn parameters(&self) -> Vec<ParameterSpec> {
        let learned = self.log_frequencies.iter();
        learned.map(|_| ParameterSpec::undecayed("log_frequencies", &["layers", "tables", "bands"])).collect()
    }

    fn capabilities(&self) -> Capabilities {
        let head_use = if self.log_frequencies.is_some() { HeadUse::Reads } else { HeadUse::None };
        Capabilities {
            position_use: PositionUse::Distances,
            head_use,
            is_relative_qk: true,
            ..Capabilities::default()
        }
    }

    fn rotation(&self, _layer: usize) -> Option<Rotation> {
        self.log_frequencies.is_none().then(|| self.rotation.clone())
    }

    fn map_heads(&self, [q, k]: [Tensor<4>; 2], [queries, keys]: [Rows<'_>; 2]) -> [Tensor<4>; 2] {
        [self.turned(q, queries), self.turned(k, keys)]
    }

    /// None where they are learned: every layer has its own.
    fn frequencies(&self) -> Option<&Frequencies> {
        self.log_frequencies.is_none().then_some(&self.rotation.frequencies)
    }

    fn set_frequencies(&mut self, mut frequencies: Frequencies) {
        for (frequency, &turns) in frequencies.inv_freq.iter_mut().zip(&self.turns) {
            if !turns {
                *frequency = 0.0;
            }
        }
        self.rotation.frequencies = frequencies;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn dimensions(head_dim: usize) -> Dimensions {
        Dimensions {
            layers: 1,
            width: 2 * head_dim,
            heads: 2,
            kv_heads: 2,
            head_dim,
            train_length: 8,
            vocab_size: 16,
        }
    }

    fn rope(config: &Config, head_dim: usize) -> Rope {
        config.validate("position", &dimensions(head_dim)).unwrap();
        config.build(&dimensions(head_dim), &Init::new(0, &Device::flex()))
    }

    #[test]
    fn slow_bands_stay_unrotated() {
        let share = Config { p: 0.5, ..Config::default() };
        assert_eq!(rope(&share, 8).frequencies().unwrap().inv_freq, [1.0, 0.1, 0.0, 0.0]);
        // Of 1, 0.1, .. only 1 completes a turn in 8 tokens: 2 pi / 8 = 0.785.
        let mut hope = rope(&Config { hope: true, ..Config::default() }, 8);
        assert_eq!(hope.frequencies().unwrap().inv_freq, [1.0, 0.0, 0.0, 0.0]);
        hope.set_frequencies(Frequencies::geometric(500.0, 8));
        assert!(hope.frequencies().unwrap().inv_freq[1..].iter().all(|&f| f == 0.0));
        assert!(Config { p: 1.5, ..Config::default() }.validate("position", &dimensions(8)).is_err());
    }

    #[test]
    fn rounding_comes_after_scaling_and_leaves_unrotated_bands_alone() {
        let config = Config { resonance: true, p: 0.75, ..Config::default() };
        let mut rope = rope(&config, 8);
        let wavelengths = |rope: &Rope| {
            rope.frequencies().unwrap().as_read().iter().map(|f| (TAU / f).round()).collect::<Vec<_>>()
        };
        assert_eq!(wavelengths(&rope), [6.0, 63.0, 628.0, f64::INFINITY]);
        rope.set_frequencies(rope.frequencies().unwrap().map(|_, f| f / 2.5));
        assert_eq!(wavelengths(&rope), [16.0, 157.0, 1571.0, f64::INFINITY]);
    }

    #[test]
    fn an_odd_dimension_is_refused_with_a_hint() {
        let error = Config::default().validate("position", &dimensions(5)).unwrap_err();
        assert!(error.message().contains("must be an even number, not 5"), "{error}");
        assert!(error.hint_text().is_some());
        let config = Config { fraction: 0.25, ..Config::default() };
        assert!(config.validate("position", &dimensions(12)).is_err());
        assert!(Config { fraction: 0.0, ..Config::default() }.validate("position", &dimensions(8)).is_err());
        assert!(Config { base: 1.0, ..Config::default() }.validate("position", &dimensions(8)).is_err());
    }
}
