//! Vectors by count: a query meets the vector of how many keys the gates have let through.
//!
//! With x the scaled q·k of a query and a key (the query scale included), `g = sigmoid(x)` is the gate of a pair, or
//! another multiple of q·k in place of x, and `c_ij = min(g_ij + .. + g_ii, positions - 1)` counts from the query's own key backwards. The logit becomes
//! `x + (1 - f) q_i · vectors[floor c] + f q_i · vectors[ceil c]`, f the fraction of c (Golovneva et al. 2024,
//! arXiv:2405.18719, equations 3 to 6).
//!
//! Nothing of size queries x keys is kept. For a block of queries, a table of its products with the vectors is one small
//! matrix product. Each row is read from the query's own key backwards, and only as far as its count grows: all keys
//! before that have the last vector, so that a long row costs little more than one without counts. The gradient computes
//! gates and counts again; those of the table become two small products.

mod gradient;
mod rows;

use super::{Part, Room, ScoreTerm, Scores, Terms, TileTerm, summed};
use crate::attention::block::{Operands, Tile};
use crate::attention::spec::{Shape, Sight};
use crate::machine::autodiff::{tensor_of, values};
use crate::machine::matmul::Matrix;
use crate::machine::simd::LANES;
use crate::op::Any;
use burn::tensor::{Bool, Tensor, activation::sigmoid};
use burn_flex::FlexTensor;
use std::sync::Arc;

/// Vectors that counts of gates choose.
#[derive(Clone, Debug)]
pub struct CountedVectors {
    /// `[positions, head_dim]`: the heads share them.
    pub vectors: Tensor<2>,
    /// What multiplies q·k in its gate, beside the query scale; the scale of the attention unless given.
    pub gate_scale: Option<f64>,
}

impl CountedVectors {
    /// What multiplies a scaled score in its gate.
    fn on_scaled(&self, scale: f64) -> f64 {
        self.gate_scale.map_or(1.0, |own| own / scale)
    }
}

impl From<CountedVectors> for Terms {
    fn from(counted: CountedVectors) -> Self {
        Self(vec![Arc::new(counted)])
    }
}

impl ScoreTerm for CountedVectors {
    fn inputs(&self) -> Vec<Any> {
        vec![self.vectors.clone().into()]
    }

    fn check(&self, sight: &Sight, shape: &Shape) {
        let [positions, width] = self.vectors.dims();
        assert!(
            positions > 0 && width == shape.head_dim,
            "attention: counted vectors [{positions}, {width}] for heads of {} channels",
            shape.head_dim
        );
        assert!(sight.distances == (0..usize::MAX), "attention: counted vectors in a range of distances");
    }

    fn reads_all_keys(&self) -> bool {
        true
    }

    fn at_temperature(&self, temperature: f64, scale: f64) -> Option<Arc<dyn ScoreTerm>> {
        let vectors = self.vectors.clone().div_scalar(temperature);
        Some(Arc::new(Self { vectors, gate_scale: self.gate_scale.or(Some(scale)) }))
    }

    /// Adds the products of queries with the vectors that they count to.
    fn plain_to_scores(&self, scores: &Scores<'_>, logits: Tensor<4>) -> Tensor<4> {
        let [_, _, queries, keys] = logits.dims();
        let ahead = scores.sight.distances_of(queries, keys, |n| n < 0);
        let ahead = Tensor::<4, Bool>::from_data(ahead, &logits.device()).expand(logits.dims());
        let gated = match scores.query_scale {
            Some(scale) => logits.clone() * scale.clone(),
            None => logits.clone(),
        };
        let gates = sigmoid(gated.mul_scalar(self.on_scaled(scores.scale))).mask_fill(ahead.clone(), 0.0);
        let last = (self.vectors.dims()[0] - 1) as f64;
        // Keys ahead are hidden, whatever they count to.
        let counts = gates.flip([3]).cumsum(3).flip([3]).clamp_max(last).mask_fill(ahead, 0.0);
        let products = scores.q.clone().matmul(self.vectors.clone().transpose().unsqueeze::<4>()); // [batch, heads, queries, positions]
        let low = counts.clone().detach().floor();
        let share = counts.clone() - low.clone();
        let below = products.clone().gather(3, low.int());
        let above = products.gather(3, counts.detach().ceil().int());
        logits + below.clone() + (above - below) * share
    }

    fn on_cpu<'a>(&'a self, inputs: &'a [FlexTensor], scale: f64) -> Box<dyn TileTerm + 'a> {
        Box::new(Vectors::new(&inputs[0], self.on_scaled(scale) as f32))
    }
}

/// The values of [`CountedVectors`], laid out for products with blocks of rows.
struct Vectors {
    /// `[positions, width]`.
    rows: Vec<f32>,
    /// `[width, stride]`: the transpose.
    columns: Vec<f32>,
    positions: usize,
    width: usize,
    /// Numbers of a row's table: there is one after the last position.
    stride: usize,
    /// What multiplies a scaled score in its gate.
    gate_scale: f32,
}

impl Vectors {
    fn new(tensor: &FlexTensor, gate_scale: f32) -> Self {
        let shape = tensor.layout().shape();
        let [positions, width] = [shape[0], shape[1]];
        let stride = (positions + 1).next_multiple_of(LANES);
        let rows = values(tensor).into_owned();
        // Columns of zeros after the last position: the products are as wide as a row's table.
        let mut columns = vec![0.0; width * stride];
        Matrix::new(&rows, positions, width, width).transpose_into(&mut columns, stride);
        Self { rows, columns, positions, width, stride, gate_scale }
    }

    fn rows(&self) -> Matrix<'_> {
        Matrix::new(&self.rows, self.positions, self.width, self.width)
    }

    fn columns(&self) -> Matrix<'_> {
        Matrix::new(&self.columns, self.width, self.stride, self.stride)
    }

    /// How far counts go.
    fn last(&self) -> usize {
        self.positions - 1
    }
}

impl TileTerm for Vectors {
    fn to_scores(&self, tile: Tile<'_>, room: &mut Room, scores: &mut [f32]) {
        rows::add_counted(self, tile, room, scores);
    }

    fn parts(&self, _: &Operands) -> Vec<Part> {
        vec![Part::Sums(self.positions * self.width)]
    }

    fn gradients(&self, _: &Operands, parts: Vec<Vec<f32>>) -> Vec<FlexTensor> {
        let total = summed(&parts[0], self.positions * self.width);
        vec![tensor_of(total, [self.positions, self.width])]
    }

    fn passes_on(&self) -> bool {
        true
    }

    fn through_scores(&self, tile: Tile<'_>, room: &mut Room, gradient: &mut [f32]) {
        gradient::through_counts(self, tile, room, gradient);
    }

    fn to_queries(
        &self,
        tile: Tile<'_>,
        room: &mut Room,
        _: &[f32],
        queries: &mut [f32],
        parts: &mut [&mut [f32]],
    ) {
        gradient::through_products(self, tile, room, queries, parts[0]);
    }
}
