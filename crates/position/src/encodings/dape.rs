//! `dape`: a small network of all heads' scores and biases.
//!
//! With A the scaled scores and B the biases of `kerple` (log), `logits = A + B + f([A; B])`, where f maps the
//! 2H numbers of a pair to H: `leaky_relu(z w1 + b1) w2 + b2`, slope 0.01 (Zheng et al. 2024,
//! arXiv:2405.14722, section 3; the authors' code). p, a `[layers, heads]` as in `kerple`; w1
//! `[layers, 2 heads, hidden]`, w2 `[layers, hidden, heads]`. Interpolated by s, distances are divided by s.

use super::kerple::{LEAST, logarithmic};
use crate::per_layer::linear;
use crate::prelude::*;
use longwave_kernels::{PairNetwork, PairTerms, pair_network};
use std::sync::Arc;

keys! {
    /// Keys of `kind = "dape"`.
    pub struct Config {
        /// Width of the hidden layer.
        pub hidden: usize = 32,
    }
}

/// The biases and the network of every layer.
#[derive(Module, Debug)]
pub struct Dape {
    /// `[layers, heads]`.
    pub p: Param<Tensor<2>>,
    /// `[layers, heads]`.
    pub a: Param<Tensor<2>>,
    /// `[layers, 2 heads, hidden]`.
    pub w1: Param<Tensor<3>>,
    /// `[layers, hidden]`.
    pub b1: Param<Tensor<2>>,
    /// `[layers, hidden, heads]`.
    pub w2: Param<Tensor<3>>,
    /// `[layers, heads]`.
    pub b2: Param<Tensor<2>>,
}

impl Configure for Config {
    type Encoding = Dape;
    const KIND: &'static str = "dape";
    const DESCRIPTION: &'static str = "a small network of all heads' scores and biases (DAPE with KERPLE)";
    const SOURCE: &'static str = "arXiv:2405.14722";
    const FORMULA: &'static str = "a_{mn} = A_h + B_h + f_h(A, B), A and B of all heads, f_h entry h of f\n\
        A_h = q_m · k_n / √d, B_h = −c_h ln(1 + g_h (m − n)), c_h and g_h ≥ 0.01 learned\n\
        f(u) = LeakyReLU(u W_1 + β_1) W_2 + β_2, W and β learned";
    const PYTORCH: Option<&'static str> = Some(include_str!("dape.py"));
    const EXTRAPOLATION: Extrapolation =
        Extrapolation::Supported("defined: the network reads penalties that go on growing");

    fn validate(&self, section: &str, _dimensions: &Dimensions) -> Result<()> {
        check_hidden(section, self.hidden)
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Dape {
        let (layers, heads) = (dimensions.layers, dimensions.heads);
        let (w1, b1) = linear(init, ["dape.w1", "dape.b1"], [layers, 2 * heads, self.hidden]);
        let (w2, b2) = linear(init, ["dape.w2", "dape.b2"], [layers, self.hidden, heads]);
        Dape {
            p: init.uniform_within("position.dape.p", [layers, heads], [0.0, 2.0], [LEAST, f64::INFINITY]),
            a: init.uniform_within("position.dape.a", [layers, heads], [0.0, 1.0], [LEAST, f64::INFINITY]),
            w1,
            b1,
            w2,
            b2,
        }
    }
}

impl Dape {
    /// The biases, `[heads, distances]`.
    fn penalties(&self, layer: usize, distances: &[f64]) -> Tensor<2> {
        logarithmic(at_layer(&self.p, layer), at_layer(&self.a, layer), distances)
    }

    fn network(&self, layer: usize) -> PairNetwork {
        PairNetwork {
            w1: at_layer(&self.w1, layer),
            b1: at_layer(&self.b1, layer),
            w2: at_layer(&self.w2, layer),
            b2: at_layer(&self.b2, layer),
        }
    }
}

impl Position for Dape {
    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![
            ParameterSpec::undecayed("p", &["layers", "heads"]).bounded(LEAST, f64::INFINITY),
            ParameterSpec::undecayed("a", &["layers", "heads"]).bounded(LEAST, f64::INFINITY),
            ParameterSpec::decayed("w1", &["layers", "2 heads", "hidden"]),
            ParameterSpec::undecayed("b1", &["layers", "hidden"]),
            ParameterSpec::decayed("w2", &["layers", "hidden", "heads"]),
            ParameterSpec::undecayed("b2", &["layers", "heads"]),
        ]
    }

    fn capabilities(&self) -> Capabilities {
        let [_, hidden, heads] = self.w2.lazy_shape().dims();
        Capabilities {
            position_use: PositionUse::Distances,
            scratch_per_score: 4 + 2 * hidden.div_ceil(heads),
            ..Capabilities::default()
        }
    }

    fn needs_scores(&self, _positions: &Positions) -> bool {
        true
    }

    fn scores(&self, scores: Tensor<4>, _heads: Heads<'_>, block: QueryBlock<'_>) -> Tensor<4> {
        let layer = block.rows.layer;
        let distances = of_block(block);
        let bias = as_block(self.penalties(layer, &distances), block);
        pair_network(scores, bias, &self.network(layer), block.queries.start)
    }

    fn score_form(&self, block: QueryBlock<'_>) -> ScoreForm {
        let layer = block.rows.layer;
        if !block.rows.positions.consecutive() {
            return ScoreForm::Plain;
        }
        let bias = self.penalties(layer, &consecutive(block));
        ScoreForm::Added(Arc::new(PairTerms { bias, network: self.network(layer) }))
    }
}
