//! `cope`: positions counted by the content.
//!
//! `g_ij = sigmoid(q_i.k_j)`, or of the scaled scores with `gate_scaled` (the paper's listing);
//! `c_ij = min(sum_{t = j..i} g_it, npos - 1)`; `logit_ij = q_i.k_j / sqrt(d) + (1 - f) q_i.E[floor c] +
//! f q_i.E[ceil c]`, f the fraction of c (Golovneva et al. 2024, arXiv:2405.18719, equations 3 to 6). E is
//! `table [layers, npos, head_dim]`, shared by the heads of a layer, starts at 0. The position term is not
//! divided by `sqrt(d)`. Positions do not enter: the order of the rows does. Every query needs its whole row
//! of scores, which the fused attention reads backwards as far as the count grows.

use crate::prelude::*;
use burn::tensor::Bool;
use burn::tensor::activation::sigmoid;
use longwave_kernels::CountedVectors;

keys! {
    /// Keys of `kind = "cope"`.
    pub struct Config {
        /// Number of counted positions.
        pub npos: usize = 64,
        /// Whether the gates read the scaled scores.
        pub gate_scaled: bool = true,
    }
}

/// The vectors of counted positions.
#[derive(Module, Debug)]
pub struct Cope {
    /// `[layers, npos, head_dim]`.
    pub table: Param<Tensor<3>>,
    #[module(skip)]
    gate_scaled: bool,
}

impl Configure for Config {
    type Encoding = Cope;
    const KIND: &'static str = "cope";
    const DESCRIPTION: &'static str = "positions counted by the content, with gates (CoPE)";
    const SOURCE: &'static str = "arXiv:2405.18719";
    const FORMULA: &'static str = "a_{mn} = q_m · k_n / √d + (1 − f) q_m · e_{⌊c⌋} + f q_m · e_{⌈c⌉}, f = c − ⌊c⌋, e learned\n\
        c = min(63, Σ_{t=n}^{m} σ(q_m · k_t / √d)), σ(u) = 1 / (1 + exp(−u))";
    const PYTORCH: Option<&'static str> = Some(include_str!("cope.py"));
    const EXTRAPOLATION: Extrapolation = Extrapolation::Supported("defined: counts stop at `npos - 1`");
    const VARIANTS: &'static [&'static str] = &["gate_scaled = false"];

    fn validate(&self, section: &str, _dimensions: &Dimensions) -> Result<()> {
        check_at_least(section, "npos", self.npos, 2)
    }

    /// At distance n a count is below n + 1, and the last vector is read above npos - 2.
    fn farthest_entry(&self) -> Option<(&'static str, usize)> {
        Some(("npos", self.npos.saturating_sub(2)))
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Cope {
        let shape = [dimensions.layers, self.npos, dimensions.head_dim];
        Cope { table: init.constant(shape, 0.0), gate_scaled: self.gate_scaled }
    }
}

impl Cope {
    /// c of every pair, `[batch, heads, queries, keys]`, from the scaled scores; 0 where the key lies ahead.
    pub fn contextual_positions(&self, scores: &Tensor<4>, scale: f64, block: QueryBlock<'_>) -> Tensor<4> {
        let [_, _, queries, keys] = scores.dims();
        let ahead: Vec<bool> = block.queries.clone().flat_map(|i| (0..keys).map(move |j| j > i)).collect();
        let ahead: Tensor<4, Bool> =
            constant(TensorData::new(ahead, [1, 1, queries, keys]), &scores.device());
        let logits = if self.gate_scaled { scores.clone() } else { scores.clone().div_scalar(scale) };
        let gates = sigmoid(logits).mask_fill(ahead.clone().expand(scores.dims()), 0.0);
        let counted = gates.flip([3]).cumsum(3).flip([3]);
        let last = self.table.dims()[1] - 1;
        counted.clamp_max(last as f64).mask_fill(ahead.expand(scores.dims()), 0.0)
    }
}

impl Position for Cope {
    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![ParameterSpec::decayed("table", &["layers", "npos", "head_dim"])]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            position_use: PositionUse::Order,
            head_use: HeadUse::Reads,
            score_use: ScoreUse::AddsVectors,
            scratch_per_score: 4,
            ..Capabilities::default()
        }
    }

    fn score_form(&self, block: QueryBlock<'_>) -> ScoreForm {
        let vectors = at_layer(&self.table, block.rows.layer);
        let gate_scale = if self.gate_scaled { None } else { Some(1.0) };
        ScoreForm::Vectors { terms: CountedVectors { vectors, gate_scale }.into(), factor: 1.0 }
    }

    fn scores(&self, scores: Tensor<4>, heads: Heads<'_>, block: QueryBlock<'_>) -> Tensor<4> {
        let counted = self.contextual_positions(&scores, heads.scale, block);
        let table = at_layer::<3, 2>(&self.table, block.rows.layer).transpose().unsqueeze::<4>();
        let by_count = heads.q.clone().matmul(table); // [batch, heads, queries, npos]
        let low = counted.clone().detach().floor();
        let share = counted.clone() - low.clone();
        let high = counted.detach().ceil();
        let below = by_count.clone().gather(3, low.int());
        let above = by_count.gather(3, high.int());
        scores + below.clone() + (above - below) * share
    }
}
