//! `selective_rope`: rotations whose angles the text decides.
//!
//! q and k of row t are turned by the same angles, `angle_t = tau_b sum_{r = 0..t} psi_r`, so that a score sees the sum
//! over the rows between query and key, `tau_b = base^(-2b/d)` (Movahedi et al. 2025, arXiv:2511.17388, and
//! timurcarstensen/selective-rope). With u the layer's normalised input, cut into a slice per head whose norms are 1:
//!
//! - `phi = u W_down W_up`, `W_down [width, rank]`, `W_up [rank, heads head_dim/2]`;
//! - `psi_t = sum_tap conv[tap] phi_{t - tap}`, a causal convolution of each channel over `kernel` rows;
//! - `bias = true`: `psi + exp(log_bias)`, `log_bias [heads, head_dim/2]`, so that angles also grow with the position;
//! - `gate = true`: `psi` of a head times `sigmoid(u W_gate + b_gate)`.
//!
//! Matrices and taps start as N(0, 0.02), so that training begins with next to no rotation; `log_bias` and `b_gate` at 0.
//! Where several query heads share a key head, "head" means the key head: queries turn as their keys do. Pairs are halves: channels b and `b + head_dim/2`. Positions do not enter, only the order of the rows. Angles are
//! running sums in f32. Past 256 rows their rounding is corrected (`crate::running_sum`): a sum of equal steps is right to 6e-8 of itself at
//! 10,000 rows, so that 10,000 radians are right to 1e-3, and to 3e-7 at 65,536.
//!
//! There are no frequencies of positions to interpolate: extensions of frequencies and geometries do not apply.

use crate::convolution::causal;
use crate::frequency::turn_halves;
use crate::per_layer::map_rows;
use crate::prelude::*;
use crate::running_sum::running_sum;
use burn::tensor::activation::sigmoid;
use longwave_kernels::repeat_heads;

/// The most taps and ranks: far above the 4 and 32 of the published models.
const MOST: usize = 1 << 14;

keys! {
    /// Keys of `kind = "selective_rope"`.
    pub struct Config {
        /// The base of the geometric progression of the bands' factors.
        pub base: f64 = 500_000.0,
        /// The factor of the fastest band.
        pub fastest: f64 = 1.0,
        /// Inner width of the map from the input to angles.
        pub rank: usize = 32,
        /// Rows that the convolution reads: a row and those before it.
        pub kernel: usize = 4,
        /// A gate per head, from the input.
        pub gate: bool = false,
        /// A learned step per band that every row adds.
        pub bias: bool = false,
        /// Added to the sum of squares that the input is normalised by.
        pub eps: f64 = 1e-6,
    }
}

/// The maps from the input to angles.
#[derive(Module, Debug)]
pub struct SelectiveRope {
    /// `[layers, width, rank]`.
    pub w_down: Param<Tensor<3>>,
    /// `[layers, rank, kv_heads head_dim/2]`.
    pub w_up: Param<Tensor<3>>,
    /// `[layers, kernel, kv_heads head_dim/2]`: tap 0 is the row's own.
    pub conv: Param<Tensor<3>>,
    /// `[layers, width, kv_heads]`.
    pub w_gate: Option<Param<Tensor<3>>>,
    /// `[layers, kv_heads]`.
    pub b_gate: Option<Param<Tensor<2>>>,
    /// `[layers, kv_heads, head_dim/2]`.
    pub log_bias: Option<Param<Tensor<3>>>,
    /// The factor of each band.
    #[module(skip)]
    factors: Vec<f32>,
    #[module(skip)]
    eps: f64,
}

impl Configure for Config {
    type Encoding = SelectiveRope;
    const KIND: &'static str = "selective_rope";
    const DESCRIPTION: &'static str = "rotates q and k by angles that the text decides (Selective RoPE)";
    const SOURCE: &'static str = "arXiv:2511.17388";
    const FORMULA: &'static str = "a_{mn} = Σ_i (R(φ_{m,i}) q_{m,i}) · (R(φ_{n,i}) k_{n,i}) / √d, q_{m,i} channels i and i + d/2\n\
        R(φ)(u, w) = (u cos φ − w sin φ, u sin φ + w cos φ)\n\
        φ_{m,i} = b^{−2i/d} Σ_{t=0}^{m} Σ_{j=0}^{3} c_{j,i} (y_{t−j} A B)_i, b = 500000, A, B and c learned\n\
        y_t = x_t / √(|x_t|^2 + 10^{−6}), in the slice of each head, x_t normalised";
    const PYTORCH: Option<&'static str> = Some(include_str!("selective_rope.py"));
    const EXTRAPOLATION: Extrapolation =
        Extrapolation::Supported("defined: sums of angles that training never showed");
    const VARIANTS: &'static [&'static str] = &["gate = true\nbias = true\nkernel = 2"];

    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        check_base(section, self.base)?;
        check_positive(section, "fastest", self.fastest)?;
        check_positive(section, "eps", self.eps)?;
        for (key, value) in [("rank", self.rank), ("kernel", self.kernel)] {
            check_at_least(section, key, value, 1)?;
            check_at_most(section, key, value, MOST)?;
        }
        let Dimensions { width, kv_heads, head_dim, .. } = *dimensions;
        let needs = |what: String, hint: &str| {
            Err(Error::usage(format!("`selective_rope` in `{section}` {what}")).hint(hint))
        };
        if head_dim % 2 == 1 {
            return needs(
                format!("turns pairs of channels, and the head dimension is {head_dim}"),
                "give the model an even `model.head_dim`",
            );
        }
        if width % kv_heads != 0 {
            return needs(
                format!("cuts the width {width} into a slice for each of {kv_heads} key heads"),
                "give a `model.width` that the number of key heads divides",
            );
        }
        Ok(())
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> SelectiveRope {
        let Dimensions { layers, width, kv_heads, head_dim, .. } = *dimensions;
        let bands = head_dim / 2;
        let normal = |name: &str, shape| init.normal(&format!("position.selective_rope.{name}"), shape, 0.02);
        let factor = |band: usize| self.fastest * self.base.powf(-2.0 * band as f64 / head_dim as f64);
        SelectiveRope {
            w_down: normal("w_down", [layers, width, self.rank]),
            w_up: normal("w_up", [layers, self.rank, kv_heads * bands]),
            conv: normal("conv", [layers, self.kernel, kv_heads * bands]),
            w_gate: self.gate.then(|| normal("w_gate", [layers, width, kv_heads])),
            b_gate: self.gate.then(|| init.constant([layers, kv_heads], 0.0)),
            log_bias: self.bias.then(|| init.constant([layers, kv_heads, bands], 0.0)),
            factors: (0..bands).map(|band| factor(band) as f32).collect(),
            eps: self.eps,
        }
    }
}

impl SelectiveRope {
    /// The angles of every row of an input `[batch, length, width]`: `[batch, kv_heads, length, head_dim/2]`.
    pub fn angles(&self, input: &Tensor<3>, layer: usize) -> Tensor<4> {
        let [batch, length, width] = input.dims();
        let bands = self.factors.len();
        let heads = self.w_up.dims()[2] / bands;
        let slices = input.clone().reshape([batch, length, heads, width / heads]);
        let norms = slices.clone().square().sum_dim(3).add_scalar(self.eps).sqrt(); // [batch, length, heads, 1]
        let u = (slices / norms).reshape([batch, length, width]);
        let phi = map_rows(&map_rows(&u, &self.w_down, None, layer), &self.w_up, None, layer);
        let mut psi = causal(&phi, &at_layer(&self.conv, layer)).reshape([batch, length, heads, bands]);
        if let Some(log_bias) = &self.log_bias {
            psi = psi + at_layer::<3, 2>(log_bias, layer).exp().unsqueeze::<4>();
        }
        if let Some(w_gate) = &self.w_gate {
            let gate = map_rows(&u, w_gate, self.b_gate.as_ref(), layer);
            psi = psi * sigmoid(gate).unsqueeze_dim(3);
        }
        let factors = TensorData::new(self.factors.clone(), [1, 1, 1, bands]);
        let factors: Tensor<4> = constant(factors, &input.device());
        (running_sum(psi, 1) * factors).swap_dims(1, 2) // [batch, kv_heads, length, head_dim/2]
    }
}

impl Position for SelectiveRope {
    fn parameters(&self) -> Vec<ParameterSpec> {
        let mut listed = vec![
            ParameterSpec::decayed("w_down", &["layers", "width", "rank"]),
            ParameterSpec::decayed("w_up", &["layers", "rank", "bands"]),
            ParameterSpec::decayed("conv", &["layers", "taps", "bands"]),
        ];
        if self.w_gate.is_some() {
            listed.push(ParameterSpec::decayed("w_gate", &["layers", "width", "kv_heads"]));
            listed.push(ParameterSpec::undecayed("b_gate", &["layers", "kv_heads"]));
        }
        if self.log_bias.is_some() {
            listed.push(ParameterSpec::undecayed("log_bias", &["layers", "kv_heads", "bands"]));
        }
        listed
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            position_use: PositionUse::Order,
            head_use: HeadUse::Reads,
            reads_input: true,
            ..Capabilities::default()
        }
    }

    /// The waves of all rows are computed once for both: they and their gradients are most of what the encoding costs.
    fn map_heads(&self, [q, k]: [Tensor<4>; 2], rows: [Rows<'_>; 2]) -> [Tensor<4>; 2] {
        let layer = rows[1].layer;
        let [queries, keys] = rows.map(|rows| rows.input.expect("hooks on q and k are given the input"));
        let angles = self.angles(keys.all, layer);
        let waves = [angles.clone().cos(), angles.sin()]; // [batch, kv_heads, length, head_dim/2]
        let turned = |x: Tensor<4>, first: usize| {
            let [_, heads, count, _] = x.dims();
            let [cos, sin] = waves.each_ref().map(|waves| {
                let groups = heads / waves.dims()[1];
                repeat_heads(waves.clone().slice_dim(2, first..first + count), groups)
            });
            turn_halves(x, cos, sin)
        };
        [turned(q, queries.first), turned(k, keys.first)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build, dimensions, message_of};

    #[test]
    fn a_bias_starts_as_the_steps_of_rope() {
        let built = build("kind = 'selective_rope'\nbias = true", &Device::flex());
        let log_bias = built.get::<SelectiveRope>().unwrap().log_bias.as_ref().unwrap().val();
        assert!(log_bias.abs().max().into_scalar::<f32>() == 0.0, "exp(0) a row");
    }

    #[test]
    fn equal_steps_add_up_without_drift() {
        let (device, length) = (Device::flex(), 10_000);
        let built = build("kind = 'selective_rope'\nbias = true", &device);
        let mut rope = built.get::<SelectiveRope>().unwrap().clone();
        let fresh = rope.log_bias.take().unwrap().val();
        rope.log_bias = Some(Param::from_tensor(fresh.add_scalar(0.0037)));
        let angles = rope.angles(&Tensor::zeros([1, length, dimensions().width], &device), 0);
        // Of the first band, whose factor is 1.
        let found: Vec<f32> = angles.slice_dim(3, 0..1).into_data().try_to_vec().unwrap();
        let exact = f64::from(found[0]) * length as f64;
        assert!((f64::from(found[length - 1]) / exact - 1.0).abs() < 1e-7);
    }

    #[test]
    fn a_wrong_value_names_its_key() {
        assert!(message_of("kind = 'selective_rope'\nrank = 0").contains("position.rank"));
        assert!(message_of("kind = 'selective_rope'\nkernel = 99999").contains("position.kernel"));
        assert!(message_of("kind = 'selective_rope'\nfastest = -1.0").contains("position.fastest"));
    }
}
