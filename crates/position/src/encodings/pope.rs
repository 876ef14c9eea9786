//! `pope`: polar coordinate position embedding.
//!
//! Each channel c of q and k becomes a vector in the plane: its length is `softplus` of the channel, its
//! angle the position alone, `theta_c = base^(-c/d)`, c = 0..d-1. `q' = [sp(q) cos(m theta) | sp(q) sin(m
//! theta)]`, `k' = [sp(k) cos(n theta + delta) | sp(k) sin(n theta + delta)]`, so that
//! `q'.k' = sum_c sp(q_c) sp(k_c) cos((n - m) theta_c + delta_c)` (Gopalakrishnan et al. 2025,
//! arXiv:2509.10534, section 3; the sign of delta as in the published code). delta
//! `[layers, kv_heads, head_dim]` is learned, starts at 0 and stays within [-2 pi, 0]: training projects it back after
//! each update, and a value set outside is clamped where it is used. q and k end twice as wide as v; the scores keep `1/sqrt(head_dim)`.
//!
//! Angles of positions are computed in f64; delta is turned in by the sum formulas of cos and sin.

use crate::prelude::*;
use longwave_kernels::polar;
use std::f64::consts::TAU;

keys! {
    /// Keys of `kind = "pope"`.
    pub struct Config {
        /// The base of the geometric progression of frequencies.
        pub base: f64 = 10_000.0,
    }
}

/// The angles and their phases.
#[derive(Module, Debug)]
pub struct Pope {
    /// `[layers, kv_heads, head_dim]`.
    pub delta: Param<Tensor<3>>,
    #[module(skip)]
    frequencies: Frequencies,
}

impl Configure for Config {
    type Encoding = Pope;
    const KIND: &'static str = "pope";
    const DESCRIPTION: &'static str =
        "the content sets the lengths of the channels, the position their angles (PoPE)";
    const SOURCE: &'static str = "arXiv:2509.10534";
    const FORMULA: &'static str = "a_{mn} = Σ_i softplus(q_{m,i}) softplus(k_{n,i}) cos((n − m) θ_i + δ_i) / √d, q_{m,i} channel i\n\
        θ_i = b^{−i/d}, b = 10000, −2π ≤ δ_i ≤ 0 learned, for i < d";
    const PYTORCH: Option<&'static str> = Some(include_str!("pope.py"));
    const EXTRAPOLATION: Extrapolation =
        Extrapolation::Supported("defined: angles that training never showed");

    fn validate(&self, section: &str, _dimensions: &Dimensions) -> Result<()> {
        check_base(section, self.base)
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Pope {
        let shape = [dimensions.layers, dimensions.kv_heads, dimensions.head_dim];
        Pope {
            delta: init.constant(shape, 0.0),
            // A band for each channel, not for each pair.
            frequencies: Frequencies::geometric(self.base, 2 * dimensions.head_dim),
        }
    }
}

impl Position for Pope {
    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![ParameterSpec::undecayed("delta", &["layers", "kv_heads", "head_dim"]).bounded(-TAU, 0.0)]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            position_use: PositionUse::Distances,
            head_use: HeadUse::Widens,
            is_relative_qk: true,
            ..Capabilities::default()
        }
    }

    fn map_heads(&self, [q, k]: [Tensor<4>; 2], [queries, keys]: [Rows<'_>; 2]) -> [Tensor<4>; 2] {
        let waves = |rows: Rows<'_>| {
            let waves = self.frequencies.waves(rows.positions, &q.device());
            waves.map(|wave| wave.mul_scalar(self.frequencies.attention_factor))
        };
        let ([q_cos, q_sin], [cos, sin]) = (waves(queries), waves(keys));
        let [_, heads, _, dim] = k.dims();
        let delta = at_layer::<3, 2>(&self.delta, keys.layer).clamp(-TAU, 0.0).reshape([1, heads, 1, dim]);
        let [delta_cos, delta_sin] = [delta.clone().cos(), delta.sin()];
        let turned_cos = cos.clone() * delta_cos.clone() - sin.clone() * delta_sin.clone();
        let turned_sin = sin * delta_cos + cos * delta_sin;
        [polar(q, q_cos, q_sin), polar(k, turned_cos, turned_sin)]
    }

    fn frequencies(&self) -> Option<&Frequencies> {
        Some(&self.frequencies)
    }

    fn set_frequencies(&mut self, frequencies: Frequencies) {
        self.frequencies = frequencies;
    }
}
