//! `wall`: every channel of a key fades on its own, as the text decides.
//!
//! `logit_ij = sum_c q_ic k_jc exp(G_ic - G_jc) / sqrt(head_dim)`, G the inclusive running sum of `ln sigmoid(x_t w_g + b_g)`, a gate for
//! each query head and channel, x the layer's normalised input (Wall attention, Tilde Research 2026; fla-org's
//! flash-linear-attention, `layers/wall_attn.py`). Gates of 1 are plain attention. Where all channels of a head share a gate the logit
//! shrinks to 0; that of `fox` falls without end. `w_g [layers, width, heads head_dim]` from N(0, 0.02), `b_g` starts at 8, so that almost
//! nothing fades at first. With `scalar_gate = true` the logit also gets `S_i - S_j`, the gates of `fox` with a bias of 8, after the scale.
//!
//! Positions do not enter, only the order of the rows, and there are no frequencies. Scores are computed from q and k as they are: no
//! other encoding of the layer may rotate them or compute scores; biases go with it. The published model has no other encoding.
//! G is a running sum in f32. Past 256 rows its rounding is corrected (`crate::running_sum`): of equal gates, it is right to 6e-8 of itself
//! at 10,000 rows and to 3e-7 at 65,536; a difference has the errors of both.
//!
//! [`fading_scores`] computes the scores of a block of queries; no exponent above 0 is taken.

use crate::per_layer::map_rows;
use crate::prelude::*;
use crate::running_sum::running_sum;
use burn::tensor::activation::relu;
use longwave_kernels::fading_scores;

keys! {
    /// Keys of `kind = "wall"`.
    pub struct Config {
        /// One more gate for each head, which lowers the logit as that of `fox` does.
        pub scalar_gate: bool = false,
    }
}

/// The gates.
#[derive(Module, Debug)]
pub struct Wall {
    /// `[layers, width, heads head_dim]`.
    pub w_g: Param<Tensor<3>>,
    /// `[layers, heads head_dim]`.
    pub b_g: Param<Tensor<2>>,
    /// `[layers, width, heads]`.
    pub w_s: Option<Param<Tensor<3>>>,
    /// `[layers, heads]`.
    pub b_s: Option<Param<Tensor<2>>>,
    #[module(skip)]
    heads: usize,
}

impl Configure for Config {
    type Encoding = Wall;
    const KIND: &'static str = "wall";
    const DESCRIPTION: &'static str = "learned gates fade every channel of earlier keys (Wall attention)";
    const SOURCE: &'static str = "Tilde Research 2026, github.com/fla-org/flash-linear-attention";
    const FORMULA: &'static str = "a_{mn} = Σ_j q_{m,j} g_{mn,j} k_{n,j} / √d, j a channel of the head\n\
        g_{mn,j} = Π_{t=n+1}^{m} σ(x_t · w_{h,j} + c_{h,j}), x_t normalised, w and c learned\n\
        σ(u) = 1 / (1 + exp(−u))";
    const PYTORCH: Option<&'static str> = Some(include_str!("wall.py"));
    const EXTRAPOLATION: Extrapolation = Extrapolation::Supported("defined: channels go on fading");
    const VARIANTS: &'static [&'static str] = &["scalar_gate = true"];

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Wall {
        let Dimensions { layers, width, heads, head_dim, .. } = *dimensions;
        let normal = |name: &str, outputs| {
            init.normal(&format!("position.wall.{name}"), [layers, width, outputs], 0.02)
        };
        Wall {
            w_g: normal("w_g", heads * head_dim),
            b_g: init.constant([layers, heads * head_dim], 8.0),
            w_s: self.scalar_gate.then(|| normal("w_s", heads)),
            b_s: self.scalar_gate.then(|| init.constant([layers, heads], 8.0)),
            heads,
        }
    }
}

/// The running sums of the logs of gates, `[batch, length, gates]`, of an input `[batch, length, width]`.
fn log_gates(input: &Tensor<3>, w: &Param<Tensor<3>>, b: &Param<Tensor<2>>, layer: usize) -> Tensor<3> {
    running_sum(log_sigmoid(map_rows(input, w, Some(b), layer)), 1)
}

/// `ln sigmoid(x)`, whose slope `1 - sigmoid(x)` has all its digits where a gate begins open: at 8, a difference of 1 and nearly 1 is off by
/// 2e-4 of itself.
fn log_sigmoid(x: Tensor<3>) -> Tensor<3> {
    relu(x.clone().neg()).neg() - x.abs().neg().exp().log1p()
}

impl Wall {
    /// G of every row of an input `[batch, length, width]`: `[batch, heads, length, head_dim]`.
    pub fn channel_gates(&self, input: &Tensor<3>, layer: usize) -> Tensor<4> {
        let gates = log_gates(input, &self.w_g, &self.b_g, layer);
        let [batch, length, channels] = gates.dims();
        gates.reshape([batch, length, self.heads, channels / self.heads]).swap_dims(1, 2)
    }

    /// S of every row, `[batch, heads, length]`, where there is such a gate.
    pub fn scalar_gates(&self, input: &Tensor<3>, layer: usize) -> Option<Tensor<3>> {
        let (w, b) = (self.w_s.as_ref()?, self.b_s.as_ref()?);
        Some(log_gates(input, w, b, layer).swap_dims(1, 2))
    }
}

impl Position for Wall {
    fn parameters(&self) -> Vec<ParameterSpec> {
        let mut listed = vec![
            ParameterSpec::decayed("w_g", &["layers", "width", "channels"]),
            ParameterSpec::undecayed("b_g", &["layers", "channels"]),
        ];
        if self.w_s.is_some() {
            listed.push(ParameterSpec::decayed("w_s", &["layers", "width", "heads"]));
            listed.push(ParameterSpec::undecayed("b_s", &["layers", "heads"]));
        }
        listed
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            position_use: PositionUse::Order,
            head_use: HeadUse::Reads,
            bias_use: self.w_s.is_some().into(),
            reads_input: true,
            score_use: ScoreUse::Computes,
            ..Capabilities::default()
        }
    }

    fn bias(&self, block: QueryBlock<'_>) -> Bias {
        match self.scalar_gates(block.input, block.rows.layer) {
            Some(key) => Bias::Pair { query: key.clone().slice_dim(2, block.queries.clone()), key },
            None => Bias::None,
        }
    }

    fn needs_scores(&self, _positions: &Positions) -> bool {
        true
    }

    fn scores(&self, _scores: Tensor<4>, heads: Heads<'_>, block: QueryBlock<'_>) -> Tensor<4> {
        let Heads { q, k, scale } = heads;
        let gates = self.channel_gates(block.input, block.rows.layer);
        fading_scores(q.clone().mul_scalar(scale), k.clone(), gates, block.queries.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Inputs, attend, build, dimensions};

    #[test]
    fn equal_gates_add_up_without_drift() {
        let (device, length) = (Device::flex(), 10_000);
        let input = Tensor::<3>::zeros([1, length, dimensions().width], &device);
        let built = build("kind = 'wall'\nscalar_gate = true", &device);
        let wall = built.get::<Wall>().unwrap();
        let of_channel = wall.channel_gates(&input, 0).slice_dim(3, 0..1).squeeze_dim::<3>(3);
        for gates in [of_channel, wall.scalar_gates(&input, 0).unwrap()] {
            let sums: Vec<f32> = gates.into_data().try_to_vec().unwrap(); // [1, heads, length]
            let exact = f64::from(sums[0]) * length as f64;
            assert!((f64::from(sums[length - 1]) / exact - 1.0).abs() < 1e-7);
        }
    }

    #[test]
    fn it_starts_almost_as_plain_attention() {
        let device = Device::flex();
        let (positions, inputs) = (Positions::range(0..9), Inputs::random("", 9, &device));
        let out = |text: &str| attend(&*build(text, &device), 0, &positions, &inputs).1;
        let off = (out("kind = 'wall'\nscalar_gate = true") - out("kind = 'none'")).abs().max();
        assert!(off.into_scalar::<f32>() < 0.02);
    }
}
