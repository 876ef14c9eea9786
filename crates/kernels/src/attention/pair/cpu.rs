//! Attention with a network of pairs on the CPU: blocks of queries of all heads.

use super::Shape;
use crate::attention::causal::{CausalRows, causal_softmax};
use crate::machine::autodiff::{View, permuted_tensor_of, values};
use crate::machine::buffers::zeros;
use crate::machine::matmul::{Matrix, matmul};
use crate::machine::simd::LANES;
use crate::ops::pair_network::tile::{self, Row, Stretch, Tile, Weights, tiles};
use burn_flex::FlexTensor;
use rayon::prelude::*;

/// Query rows of a block.
pub(super) const ROWS: usize = 32;

/// One call: its tensors and settings.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// q, k, v, the biases, w1, b1, w2 and b2.
    pub(super) inputs: [FlexTensor; 8],
    pub(super) shape: Shape,
    pub(super) scale: f32,
}

/// What blocks are computed from.
pub(super) struct Operands {
    pub(super) shape: Shape,
    q: View<4>,
    k: View<4>,
    v: View<4>,
    /// `[heads, distances]`, the farthest first: a row's biases run with its keys.
    bias: Vec<f32>,
    pub(super) weights: Weights,
    pub(super) scale: f32,
}

impl Operands {
    pub(super) fn new(call: &Call) -> Self {
        let [q, k, v, bias, weights @ ..] = &call.inputs;
        let weights = weights.each_ref().map(values);
        Self {
            shape: call.shape,
            q: View::new(q),
            k: View::new(k),
            v: View::new(v),
            bias: turned_rows(&values(bias), call.shape.distances),
            weights: Weights::new(weights.each_ref().map(|weights| &**weights)),
            scale: call.scale,
        }
    }

    /// The size of a block's scores, of all heads.
    pub(super) fn scores(&self) -> usize {
        let Shape { heads, queries, first, .. } = self.shape;
        heads * ROWS * (first + queries).next_multiple_of(LANES)
    }

    pub(super) fn queries(&self, block: &Block, head: usize) -> Matrix<'_> {
        self.q.head_rows(block.batch, head, block.first, block.rows, self.shape.head_dim)
    }

    /// The keys that a block sees, `[keys, head_dim]`.
    pub(super) fn keys(&self, block: &Block, head: usize) -> Matrix<'_> {
        self.k.head_rows(block.batch, head, 0, block.keys, self.shape.head_dim)
    }

    /// Their values, `[keys, value_dim]`.
    pub(super) fn values(&self, block: &Block, head: usize) -> Matrix<'_> {
        self.v.head_rows(block.batch, head, 0, block.keys, self.shape.value_dim)
    }

    /// Where the biases of a stretch of a row begin among those of a head.
    pub(super) fn bias_at(&self, block: &Block, stretch: &Stretch) -> usize {
        self.shape.distances - block.seen(stretch.row) + stretch.key
    }

    /// Fills the tile's inputs with the scores and biases of some pairs.
    pub(super) fn fill(&self, block: &Block, scores: &[f32], stretches: &[Stretch], inputs: &mut [Row]) {
        let (of_scores, of_biases) = inputs.split_at_mut(self.shape.heads);
        for stretch in stretches {
            let bias = self.bias_at(block, stretch);
            for (head, (score, biases)) in of_scores.iter_mut().zip(of_biases.iter_mut()).enumerate() {
                stretch.read(&scores[block.at(head, stretch)..], score);
                stretch.read(&self.bias[head * self.shape.distances + bias..], biases);
            }
        }
    }

    /// Fills `scores` with the scaled products of queries and keys.
    pub(super) fn fill_scores(&self, block: &Block, scores: &mut [f32]) {
        for (head, scores) in block.heads(scores).enumerate().take(self.shape.heads) {
            let keys = self.keys(block, head).transposed();
            matmul(scores, block.stride, false, self.scale, self.queries(block, head), keys);
        }
    }
}

/// Each row of `width` values turned around.
pub(super) fn turned_rows(values: &[f32], width: usize) -> Vec<f32> {
    values.chunks(width).flat_map(|row| row.iter().rev().copied()).collect()
}

/// Some query rows of one batch row, and the keys that any of them sees.
///
/// Scores of a block are `[heads, ROWS, stride]`.
pub(super) struct Block {
    pub(super) batch: usize,
    pub(super) first: usize,
    pub(super) rows: usize,
    /// The row of the first query among the keys.
    position: usize,
    pub(super) keys: usize,
    pub(super) stride: usize,
}

impl Block {
    /// The rows from `first` on, before row `end`.
    pub(super) fn new(shape: Shape, batch: usize, first: usize, end: usize) -> Self {
        let rows = ROWS.min(end - first);
        let keys = shape.first + first + rows;
        let stride = keys.next_multiple_of(LANES);
        Self { batch, first, rows, position: shape.first + first, keys, stride }
    }

    /// How many keys a row sees.
    pub(super) fn seen(&self, row: usize) -> usize {
        self.position + row + 1
    }

    /// The rows of a head's scores.
    pub(super) fn causal(&self) -> CausalRows {
        CausalRows { count: self.rows, seen: self.seen(0), stride: self.stride }
    }

    pub(super) fn heads<'a>(&self, scores: &'a mut [f32]) -> std::slice::ChunksExactMut<'a, f32> {
        scores.chunks_exact_mut(ROWS * self.stride)
    }

    /// Where the scores of a stretch begin.
    pub(super) fn at(&self, head: usize, stretch: &Stretch) -> usize {
        (head * ROWS + stretch.row) * self.stride + stretch.key
    }

    /// Puts rows of the tile where the scores of these stretches lie.
    pub(super) fn put(&self, rows: &[Row], stretches: &[Stretch], scores: &mut [f32]) {
        for stretch in stretches {
            for (head, row) in rows.iter().enumerate() {
                scores[self.at(head, stretch)..][..stretch.len].copy_from_slice(stretch.of(row));
            }
        }
    }

    /// The rows of a head's scores as a matrix.
    pub(super) fn matrix<'a>(&self, scores: &'a [f32]) -> Matrix<'a> {
        Matrix::new(scores, self.rows, self.keys, self.stride)
    }
}

/// The output `[batch, heads, queries, value_dim]` and the logs of the sums of exp(logits), `[batch, queries, heads]`.
///
/// The output is laid out as `[batch, queries, heads, value_dim]`, so that merging its heads costs nothing.
pub(super) fn forward(call: &Call) -> (FlexTensor, Vec<f32>) {
    let operands = Operands::new(call);
    let Shape { batch, heads, queries, value_dim, .. } = call.shape;
    let width = heads * value_dim;
    let mut out = zeros(batch * queries * width);
    let mut log_sums = zeros(batch * queries * heads);
    let rows = out.chunks_mut(queries * width).flat_map(|rows| rows.chunks_mut(ROWS * width));
    let sums = log_sums.chunks_mut(queries * heads).flat_map(|rows| rows.chunks_mut(ROWS * heads));
    let mut tasks: Vec<_> = rows.zip(sums).enumerate().collect();
    let of_batch = queries.div_ceil(ROWS);
    // Late rows see more keys.
    tasks.sort_by_key(|(task, _)| std::cmp::Reverse(task % of_batch));
    tasks.into_par_iter().for_each_init(
        || (vec![0.0; operands.scores()], Tile::new(&operands.weights)),
        |(scores, tile), (task, (out, log_sums))| {
            let block = Block::new(call.shape, task / of_batch, task % of_batch * ROWS, queries);
            operands.fill_scores(&block, scores);
            fill_logits(&operands, &block, None, scores, tile);
            for (head, scores) in block.heads(scores).enumerate().take(heads) {
                let mut sums = [0.0; ROWS];
                causal_softmax(block.causal(), scores, &mut sums, &mut log_sums[head..], heads);
                let values = operands.values(&block, head);
                let out = &mut out[head * value_dim..];
                matmul(out, width, false, 1.0, block.matrix(scores), values);
                for (out, sum) in out.chunks_mut(width).zip(sums) {
                    let inverse = if sum == 0.0 { 0.0 } else { 1.0 / sum };
                    out[..value_dim].iter_mut().for_each(|out| *out *= inverse);
                }
            }
        },
    );
    (permuted_tensor_of(out, [batch, queries, heads, value_dim], [0, 2, 1, 3]), log_sums)
}

/// The logits of a block from its scores, which they replace if they have no buffer of their own.
pub(super) fn fill_logits(
    operands: &Operands,
    block: &Block,
    scores: Option<&[f32]>,
    logits: &mut [f32],
    tile: &mut Tile,
) {
    let heads = operands.shape.heads;
    tiles((0..block.rows).map(|row| block.seen(row)), |stretches, pairs| {
        operands.fill(block, scores.unwrap_or(&*logits), stretches, &mut tile.inputs);
        tile::forward(&operands.weights, pairs, tile);
        block.put(&tile.outputs[..heads], stretches, logits);
    });
}
