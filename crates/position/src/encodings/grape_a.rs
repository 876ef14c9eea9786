//! `grape_a`: `ALiBi` whose slope the key, the query, or both decide.
//!
//! `logit_ij += -n softplus(omega_h) slope_h g`, n = i - j, slope that of `alibi` (Zhang et al. 2025, arXiv:2512.07805;
//! model-architectures/GRAPE, `llama-mha-grape-a-keygated.py` and its two siblings). The gate g is `softplus(u_h . k_j / sqrt(d))` of the
//! key, `softplus(w_h . q_i / sqrt(d))` of the query, or their sum; u and w have norm 1 where they are used, and q and k are those of the
//! logits: normalised, rotated and scaled by log-n where the layer does so. `u, w [layers, heads, head_dim]` from N(0, 1/d),
//! `softplus(omega)` starts at 1. Interpolated by s, every distance is divided by s.
//!
//! The published models have no rotation beside it.

use super::alibi::slopes;
use crate::prelude::*;
use burn::tensor::activation::softplus;
use longwave_kernels::SlopeGates;
use std::sync::Arc;

/// What decides the slope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// The key.
    #[default]
    Key,
    /// The query.
    Query,
    /// The sum of both gates.
    Both,
}

keys! {
    /// Keys of `kind = "grape_a"`.
    pub struct Config {
        /// What decides the slope.
        pub gate: Gate = Gate::Key,
        /// The least norm that u and w are divided by.
        pub eps: f64 = 1e-6,
    }
}

/// The gates.
#[derive(Module, Debug)]
pub struct GrapeA {
    /// `[layers, heads]`.
    pub omega: Param<Tensor<2>>,
    /// `[layers, heads, head_dim]`, where keys decide.
    pub u: Option<Param<Tensor<3>>>,
    /// `[layers, heads, head_dim]`, where queries decide.
    pub w: Option<Param<Tensor<3>>>,
    #[module(skip)]
    slopes: Vec<f64>,
    #[module(skip)]
    eps: f64,
}

impl Configure for Config {
    type Encoding = GrapeA;
    const KIND: &'static str = "grape_a";
    const DESCRIPTION: &'static str = "a linear penalty whose slope keys or queries decide (GRAPE-A)";
    const SOURCE: &'static str = "arXiv:2512.07805";
    const FORMULA: &'static str = "a_{mn} = q_m · k_n / √d − softplus(g_h) c_h softplus(u_h · k_n / (|u_h| √d)) (m − n), g and u learned\n\
        c_h = 2^{−8(h+1)/P}, for h < P = 2^{⌊log_2 H⌋}\n\
        c_h = 2^{−4(2(h−P)+1)/P}, for h ≥ P";
    const PYTORCH: Option<&'static str> = Some(include_str!("grape_a.py"));
    const EXTRAPOLATION: Extrapolation = Extrapolation::Supported("defined: the penalty goes on growing");
    const VARIANTS: &'static [&'static str] = &["gate = 'query'", "gate = 'both'"];

    fn validate(&self, section: &str, _dimensions: &Dimensions) -> Result<()> {
        check_positive(section, "eps", self.eps)
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> GrapeA {
        let Dimensions { layers, heads, head_dim, .. } = *dimensions;
        let vector = |name: &str| {
            let deviation = 1.0 / (head_dim as f64).sqrt();
            init.normal(&format!("position.grape_a.{name}"), [layers, heads, head_dim], deviation)
        };
        GrapeA {
            // softplus(ln(e - 1)) = 1.
            omega: init.constant([layers, heads], 1f64.exp_m1().ln()),
            u: (self.gate != Gate::Query).then(|| vector("u")),
            w: (self.gate != Gate::Key).then(|| vector("w")),
            slopes: slopes(heads),
            eps: self.eps,
        }
    }
}

impl GrapeA {
    /// The gates of q and k, for distances that are divided by `scale`.
    fn slope_gates(&self, layer: usize, scale: f64, device: &Device) -> SlopeGates {
        // A learned vector of norm 1, over the root of the width: [heads, head_dim].
        let unit = |vector: &Param<Tensor<3>>| {
            let vector = at_layer::<3, 2>(vector, layer);
            let norm = vector.clone().square().sum_dim(1).sqrt().clamp_min(self.eps);
            let root = (vector.dims()[1] as f64).sqrt();
            (vector / norm).div_scalar(root)
        };
        let slopes = softplus(at_layer::<2, 1>(&self.omega, layer), 1.0) * upload(&self.slopes, device);
        SlopeGates {
            slopes: slopes.div_scalar(scale),
            of_queries: self.w.as_ref().map(unit),
            of_keys: self.u.as_ref().map(unit),
        }
    }
}

impl Position for GrapeA {
    fn parameters(&self) -> Vec<ParameterSpec> {
        let vectors = [self.u.as_ref().map(|_| "u"), self.w.as_ref().map(|_| "w")];
        let spec = |name| ParameterSpec::undecayed(name, &["layers", "heads", "head_dim"]);
        let omega = ParameterSpec::undecayed("omega", &["layers", "heads"]);
        std::iter::once(omega).chain(vectors.into_iter().flatten().map(spec)).collect()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            position_use: PositionUse::Distances,
            head_use: HeadUse::Reads,
            scratch_per_score: 2,
            ..Capabilities::default()
        }
    }

    fn needs_scores(&self, _positions: &Positions) -> bool {
        true
    }

    fn scores(&self, scores: Tensor<4>, heads: Heads<'_>, block: QueryBlock<'_>) -> Tensor<4> {
        let device = scores.device();
        let gates = self.slope_gates(block.rows.layer, 1.0, &device);
        let Some(slopes) = gates.of_pairs(heads.q, heads.k) else { return scores };
        let positions = block.rows.positions;
        let shape = [positions.rows(), 1, block.queries.len(), positions.length()];
        let distances = upload_shaped(of_block(block).into_iter(), shape, &device);
        scores - distances * slopes // [batch, heads, queries, keys]
    }

    fn score_form(&self, block: QueryBlock<'_>) -> ScoreForm {
        let positions = block.rows.positions;
        if !positions.consecutive() {
            return ScoreForm::Plain;
        }
        let device = block.input.device();
        ScoreForm::Added(Arc::new(self.slope_gates(block.rows.layer, positions.scale(), &device)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build, message_of};

    #[test]
    fn it_starts_at_the_slopes_of_alibi_and_refuses_a_wrong_eps() {
        let built = build("kind = 'grape_a'", &Device::flex());
        let factors = softplus(built.get::<GrapeA>().unwrap().omega.val(), 1.0);
        assert!((factors - 1.0).abs().max().into_scalar::<f32>() < 1e-6);
        assert!(message_of("kind = 'grape_a'\neps = 0.0").contains("position.eps"));
    }
}
