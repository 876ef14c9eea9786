//! `fope`: Fourier position embedding.
//!
//! Of the frequencies `theta_i = base^(-2i/d)` those that complete a turn within the training length are kept,
//! `theta_i >= 2 pi / L`: F of them. Each of O = min(F, floor(d/4)) pairs of channels reads a sum of all their waves
//! instead of one: `C_o(m) = sum_f cos(m theta_f) cos_coef_fo`, `S_o(m) = sum_f sin(m theta_f) sin_coef_fo`, and the pair
//! (a, b) of channels (o, o + d/2) of q and k at position m becomes `(a C - b S, b C + a S)` (Hua et al. 2024,
//! arXiv:2412.17739, section 4; the authors' `FourierEmbedding`). The other pairs have C = S = 1 at every position, as
//! published: `(a - b, a + b)`, their part of q.k counts twice.
//!
//! The coefficients `[layers, kv_heads, F, O]` are the identity, where F = O, plus normal numbers of deviation
//! `gain sqrt(2 / (O (F + kv_heads)))` (torch's Xavier for such a tensor); where F > O the output o is the band
//! `o ceil(F / O)`. They are drawn once with the seed of the run, and trained only with `learned`, which no published config
//! does. Query heads use those of their key head.
//!
//! This is no rotation: lengths change, and scores depend on both positions. Extensions change the frequencies that are
//! kept; how many they are and the coefficients stay.

use crate::frequency::turn_halves;
use crate::prelude::*;
use longwave_kernels::repeat_heads;
use std::f64::consts::TAU;

keys! {
    /// Keys of `kind = "fope"`.
    pub struct Config {
        /// The base of the geometric progression of frequencies.
        pub base: f64 = 10_000.0,
        /// How large the random coefficients are beside the identity: 0.3 to 0.6 in the published models, the larger ones
        /// with more.
        pub gain: f64 = 0.3,
        /// Train the coefficients.
        pub learned: bool = false,
    }
}

/// The frequencies and the coefficients of every layer.
#[derive(Module, Debug)]
pub struct Fope {
    /// `[layers, kv_heads, F, O]`, where they are learned.
    pub cos_coef: Option<Param<Tensor<4>>>,
    /// `[layers, kv_heads, F, O]`, where they are learned.
    pub sin_coef: Option<Param<Tensor<4>>>,
    /// The same row-major, where they are not.
    #[module(skip)]
    fixed: [Vec<f32>; 2],
    /// Those of all bands; 0 for those that are not kept.
    #[module(skip)]
    frequencies: Frequencies,
    /// F and O.
    #[module(skip)]
    sizes: [usize; 2],
    #[module(skip)]
    kv_heads: usize,
}

impl Config {
    /// The frequencies of all bands, and how many complete a turn within the training length.
    fn kept(&self, dimensions: &Dimensions) -> (Frequencies, usize) {
        let all = Frequencies::geometric(self.base, dimensions.head_dim);
        let slowest = TAU / dimensions.train_length as f64;
        let kept = all.inv_freq.iter().filter(|&&frequency| frequency >= slowest).count();
        (all, kept)
    }
}

impl Configure for Config {
    type Encoding = Fope;
    const KIND: &'static str = "fope";
    const DESCRIPTION: &'static str = "pairs of q and k read sums of the waves that turn within L (FoPE)";
    const SOURCE: &'static str = "arXiv:2412.17739";
    const FORMULA: &'static str = "a_{mn} = q'_m · k'_n / √d, (u', w') = (u C_j − w S_j, w C_j + u S_j) for channels j and j + d/2\n\
        C_j(m) = Σ_i A_{ij} cos(m θ_i), S_j(m) = Σ_i B_{ij} sin(m θ_i), for j < O = min(F, ⌊d/4⌋)\n\
        θ_i = b^{−2i/d} ≥ 2π/L, b = 10000, F of them; C_j = S_j = 1, for j ≥ O\n\
        A_{ij} and B_{ij} = [i = j ⌈F/O⌉] + noise of deviation 0.3 √(2 / (O (F + H))), not learned";
    const PYTORCH: Option<&'static str> = Some(include_str!("fope.py"));
    const EXTRAPOLATION: Extrapolation =
        Extrapolation::Supported("defined: every wave has completed a turn in training");
    const VARIANTS: &'static [&'static str] = &["learned = true", "base = 3.0\ngain = 0.6"];

    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        check_base(section, self.base)?;
        if !(self.gain.is_finite() && self.gain >= 0.0) {
            return Err(Error::value(
                &format!("{section}.gain"),
                self.gain,
                "it must be a number of at least 0",
            )
            .hint("0 leaves each pair one wave; published models have 0.3 to 0.6"));
        }
        if dimensions.head_dim % 2 == 1 || dimensions.head_dim < 4 {
            return Err(Error::usage(format!(
                "`fope` maps pairs of channels, half of them by waves, so the head dimension must be even and at least \
                 4, not {}",
                dimensions.head_dim
            ))
            .hint(
                "the head dimension is `model.width / model.heads`: change those, or give `model.head_dim`",
            ));
        }
        if self.kept(dimensions).1 == 0 {
            return Err(Error::usage(format!(
                "`fope` keeps the waves that complete a turn within `train.length = {}`, and none does: the fastest takes \
                 2 pi tokens",
                dimensions.train_length
            ))
            .hint("train on pieces of at least 7 tokens"));
        }
        Ok(())
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Fope {
        let (all, kept) = self.kept(dimensions);
        let outputs = kept.min(dimensions.head_dim / 4);
        let Dimensions { layers, kv_heads, .. } = *dimensions;
        let deviation = self.gain * (2.0 / (outputs * (kept + kv_heads)) as f64).sqrt();
        let step = kept.div_ceil(outputs);
        let identity = |index: usize| {
            let (band, output) = (index / outputs % kept, index % outputs);
            if band == output * step { 1.0 } else { 0.0 }
        };
        let shape = [layers, kv_heads, kept, outputs];
        let drawn = ["cos_coef", "sin_coef"].map(|name| {
            init.normal_around_each(&format!("position.fope.{name}"), shape, identity, deviation)
        });
        let mut fope = Fope {
            cos_coef: None,
            sin_coef: None,
            fixed: [Vec::new(), Vec::new()],
            frequencies: all.clone(),
            sizes: [kept, outputs],
            kv_heads,
        };
        fope.set_frequencies(all);
        if self.learned {
            let [cos, sin] = drawn;
            (fope.cos_coef, fope.sin_coef) = (Some(cos), Some(sin));
        } else if init.counted().is_none() {
            fope.fixed = drawn.map(|drawn| drawn.val().into_data().try_to_vec().unwrap_or_default());
        }
        fope
    }
}

impl Fope {
    /// The coefficients of cos and sin of a layer, each `[1, kv_heads, F, O]`.
    pub fn coefficients(&self, layer: usize, device: &Device) -> [Tensor<4>; 2] {
        let [kept, outputs] = self.sizes;
        let size = self.kv_heads * kept * outputs;
        let fixed = |wave: usize| {
            let own = self.fixed[wave][layer * size..(layer + 1) * size].to_vec();
            constant(TensorData::new(own, [1, self.kv_heads, kept, outputs]), device)
        };
        let learned = [&self.cos_coef, &self.sin_coef];
        [0, 1].map(|wave| {
            let learned = learned[wave].as_ref();
            learned.map_or_else(|| fixed(wave), |learned| at_layer::<4, 3>(learned, layer).unsqueeze())
        })
    }

    /// q or k `[batch, heads, length, head_dim]` at the positions of the rows.
    fn mapped(&self, x: Tensor<4>, rows: Rows<'_>) -> Tensor<4> {
        let device = x.device();
        let [_, heads, length, dim] = x.dims();
        let half = dim / 2;
        let constant = Tensor::ones([rows.positions.rows(), heads, length, half - self.sizes[1]], &device);
        let coefficients = self.coefficients(rows.layer, &device);
        let waves = self.frequencies.waves(rows.positions, &device).into_iter().zip(coefficients);
        let waves = waves.map(|(waves, by)| {
            let kept = waves.slice_dim(3, 0..self.sizes[0]); // [rows, 1, length, F]
            let sums = kept.matmul(repeat_heads(by, heads / self.kv_heads)); // [rows, heads, length, O]
            let all = Tensor::cat(vec![sums, constant.clone()], 3); // [rows, heads, length, head_dim / 2]
            all.mul_scalar(self.frequencies.attention_factor)
        });
        let [cos, sin]: [Tensor<4>; 2] =
            waves.collect::<Vec<_>>().try_into().unwrap_or_else(|_| unreachable!());
        turn_halves(x, cos, sin)
    }
}

impl Position for Fope {
    fn parameters(&self) -> Vec<ParameterSpec> {
        // They start at the identity.
        let axes = &["layers", "kv_heads", "bands", "outputs"];
        let names = ["cos_coef", "sin_coef"].into_iter().filter(|_| self.cos_coef.is_some());
        names.map(|name| ParameterSpec::undecayed(name, axes)).collect()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            position_use: PositionUse::Positions,
            head_use: HeadUse::Reads,
            ..Capabilities::default()
        }
    }

    fn map_heads(&self, [q, k]: [Tensor<4>; 2], [queries, keys]: [Rows<'_>; 2]) -> [Tensor<4>; 2] {
        [self.mapped(q, queries), self.mapped(k, keys)]
    }

    fn frequencies(&self) -> Option<&Frequencies> {
        Some(&self.frequencies)
    }

    fn set_frequencies(&mut self, frequencies: Frequencies) {
        let kept = self.sizes[0];
        self.frequencies = frequencies.map(|band, f| if band < kept { f } else { 0.0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{message_of, random};

    fn sizes(head_dim: usize, train_length: usize) -> Dimensions {
        Dimensions {
            layers: 2,
            width: 4 * head_dim,
            heads: 4,
            kv_heads: 2,
            head_dim,
            train_length,
            vocab_size: 16,
        }
    }

    fn fope(config: &Config, sizes: &Dimensions) -> Fope {
        config.validate("position", sizes).unwrap();
        config.build(sizes, &Init::new(0, &Device::flex()))
    }

    fn mapped(fope: &Fope, x: &Tensor<4>, at: &Positions) -> Vec<f32> {
        let tokens = Tensor::<2, Int>::zeros([1, at.length()], &Device::flex());
        fope.mapped(x.clone(), Rows::new(1, &tokens, at)).into_data().try_to_vec().unwrap()
    }

    #[test]
    fn learned_coefficients_start_at_those_that_are_drawn() {
        let sizes = sizes(16, 512);
        let x = random::<4>("x", [1, 4, 3, 16], &Device::flex());
        let at = Positions::range(70..73);
        let of = |learned| mapped(&fope(&Config { learned, ..Config::default() }, &sizes), &x, &at);
        assert_eq!(of(true), of(false));
        // Query heads of one key head are mapped alike.
        let alike = x.clone().slice_dim(1, 0..1).repeat_dim(1, 4);
        let heads: Vec<_> =
            mapped(&fope(&Config::default(), &sizes), &alike, &at).chunks(48).map(<[f32]>::to_vec).collect();
        assert_eq!(heads[0], heads[1]);
        assert_ne!(heads[1], heads[2]);
    }

    #[test]
    fn more_bands_than_outputs_take_every_second_one() {
        let sizes = sizes(16, 1 << 20);
        let fope = fope(&Config { gain: 0.0, ..Config::default() }, &sizes);
        assert_eq!(fope.sizes, [8, 4]);
        let ones = [0, 9, 18, 27]; // bands 0, 2, 4 and 6
        let expected: Vec<f32> = (0..32).map(|at| if ones.contains(&at) { 1.0 } else { 0.0 }).collect();
        for fixed in &fope.fixed {
            assert_eq!(fixed[..32], expected);
        }
    }

    #[test]
    fn what_cannot_be_is_rejected() {
        assert!(message_of("kind = \"fope\"\ngain = -0.1").starts_with("`position.gain = -0.1`"));
        let short = Config::default().validate("position", &sizes(8, 6)).unwrap_err().to_string();
        assert!(short.contains("`train.length = 6`") && short.contains("hint:"), "{short}");
        let odd = Config::default().validate("position", &sizes(2, 64)).unwrap_err().to_string();
        assert!(odd.contains("at least 4, not 2"), "{odd}");
    }
}
