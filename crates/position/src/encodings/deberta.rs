//! `deberta`: disentangled attention, content to position and position to content.
//!
//! `logit_ij = (q_i.k_j + q_i . K^r[delta(i, j)] + k_j . Q^r[delta(j, i)]) / sqrt(3d)`,
//! `delta(a, b) = clip(a - b + span, 0, 2 span - 1)`, `K^r = rel w_pos_k`, `Q^r = rel w_pos_q` split into heads
//! (He et al. 2021, arXiv:2006.03654, equations 3 and 4; the published code reads delta(i, j) in both terms,
//! a relabelling of the table). rel `[2 span, width]` is shared by all layers, `w_pos_k` and `w_pos_q`
//! `[layers, width, heads head_dim]` belong to each; all from N(0, 0.02). Clipping defines every length.
//! Fractional distances are rounded down; interpolated by s, distances are divided by s first.

use super::{Configure, check_at_least};
use crate::distance::chosen_by_distance;
use crate::encoding::{Dimensions, HeadUse, Heads, Position, PositionUse, QueryBlock};
use crate::init::Init;
use crate::layered::at_layer;
use crate::positions::Positions;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use longwave_core::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys of `kind = "deberta"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Distances with a vector of their own, on either side.
    pub span: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { span: 512 }
    }
}

/// The relative embeddings and their projections.
#[derive(Module, Debug)]
pub struct Deberta {
    /// `[2 span, width]`, shared by all layers.
    pub rel: Param<Tensor<2>>,
    /// `[layers, width, heads head_dim]`.
    pub w_pos_k: Param<Tensor<3>>,
    /// `[layers, width, heads head_dim]`.
    pub w_pos_q: Param<Tensor<3>>,
    #[module(skip)]
    scale: f64,
}

impl Configure for Config {
    type Encoding = Deberta;
    const KIND: &'static str = "deberta";
    const SUMMARY: &'static str = "content to position and position to content terms (DeBERTa)";
    const SOURCE: &'static str = "arXiv:2006.03654";

    fn validate(&self, section: &str, _dimensions: &Dimensions) -> Result<()> {
        check_at_least(section, "span", self.span, 1)
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Deberta {
        let width = dimensions.width;
        let projection = [dimensions.layers, width, dimensions.heads * dimensions.head_dim];
        Deberta {
            rel: init.normal("position.deberta.rel", [2 * self.span, width], 0.02),
            w_pos_k: init.normal("position.deberta.w_pos_k", projection, 0.02),
            w_pos_q: init.normal("position.deberta.w_pos_q", projection, 0.02),
            scale: 1.0,
        }
    }
}

impl Deberta {
    /// `x . (rel w)[r]` for every row of x `[batch, heads, rows, head_dim]` and every r: `[batch, heads, rows,
    /// 2 span]`.
    fn with_every(&self, x: &Tensor<4>, weight: &Param<Tensor<3>>, layer: usize) -> Tensor<4> {
        let [_, heads, _, dim] = x.dims();
        let places = self.rel.dims()[0];
        let vectors = self.rel.val().matmul(at_layer(weight, layer)).reshape([1, places, heads, dim]);
        x.clone().matmul(vectors.permute([0, 2, 3, 1]))
    }
}

impl Position for Deberta {
    fn position_use(&self) -> PositionUse {
        PositionUse::Distances
    }

    fn head_use(&self) -> HeadUse {
        HeadUse::Reads
    }

    fn by_block(&self, _positions: &Positions) -> bool {
        true
    }

    fn scores(&self, scores: Tensor<4>, heads: Heads<'_>, block: QueryBlock<'_>) -> Tensor<4> {
        let [batch, head_count, _, _] = scores.dims();
        let (layer, device) = (block.rows.layer, scores.device());
        let span = self.rel.dims()[0] as f64 / 2.0;
        let delta = |n: f64| ((n / self.scale).floor() + span).clamp(0.0, 2.0 * span - 1.0) as usize;
        let forwards = chosen_by_distance(block, [batch, head_count], delta, &device);
        let backwards = chosen_by_distance(block, [batch, head_count], |n| delta(-n), &device);
        let to_position = self.with_every(heads.q, &self.w_pos_k, layer).gather(3, forwards);
        // A row for each key: [batch, heads, keys, queries].
        let to_content = self.with_every(heads.k, &self.w_pos_q, layer).gather(3, backwards.swap_dims(2, 3));
        let terms = (to_position + to_content.swap_dims(2, 3)).mul_scalar(heads.scale);
        (scores + terms).div_scalar(3f64.sqrt())
    }

    fn interpolate(&mut self, scale: f64) -> bool {
        self.scale *= scale;
        true
    }
}
