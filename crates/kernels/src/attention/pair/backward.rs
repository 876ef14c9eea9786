//! The gradient of attention with a network of pairs: everything is computed again, block by block.
//!
//! The rows of a batch row add to the same keys and values, so they are one piece of the work, or a few where the batch has
//! few rows. Each piece has sums of its own, which are added in the order of the pieces.

use super::Shape;
use super::cpu::{Block, Call, Operands, ROWS, fill_logits, turned_rows};
use crate::attention::causal::{hide_later, through_causal_softmax};
use crate::machine::autodiff::{View, permuted_tensor_of, tensor_of};
use crate::machine::buffers::{joined, zeros};
use crate::machine::matmul::matmul;
use crate::machine::simd::add;
use crate::ops::pair_network::tile::{self, Tile, WeightLanes, added, tiles};
use burn_flex::FlexTensor;
use rayon::prelude::*;

/// Pieces that the work is cut into if its shape allows.
const PIECES: usize = 16;

/// The gradients of all inputs, from the log sums `[batch, queries, heads]` and the gradient of the output.
pub(super) fn gradients(call: &Call, log_sums: &[f32], output: &FlexTensor) -> [FlexTensor; 8] {
    let operands = Operands::new(call);
    Rows { operands: &operands, log_sums, output: View::new(output) }.backward()
}

/// What the backward pass knows of the query rows.
struct Rows<'a> {
    operands: &'a Operands,
    log_sums: &'a [f32],
    /// The gradient of the output.
    output: View<4>,
}

/// The sums of one piece: the gradients of k and v `[heads, keys, width]`, and of the biases, the farthest first.
struct Sums<'a> {
    k: &'a mut [f32],
    v: &'a mut [f32],
    bias: Vec<f32>,
    weights: WeightLanes,
}

/// The buffers of one thread, of the size of a block's scores each.
struct Buffers {
    scores: Vec<f32>,
    probabilities: Vec<f32>,
    gradient: Vec<f32>,
    tile: Tile,
}

impl Buffers {
    fn new(operands: &Operands) -> Self {
        let scores = || vec![0.0; operands.scores()];
        Self {
            scores: scores(),
            probabilities: scores(),
            gradient: scores(),
            tile: Tile::new(&operands.weights),
        }
    }
}

impl Rows<'_> {
    /// The gradients of all inputs.
    fn backward(&self) -> [FlexTensor; 8] {
        let operands = self.operands;
        let Shape { batch, heads, queries, keys, head_dim, value_dim, distances, .. } = operands.shape;
        let of_piece = queries.div_ceil(PIECES.div_ceil(batch)).next_multiple_of(ROWS);
        let pieces = queries.div_ceil(of_piece);
        let [k_size, v_size] = [head_dim, value_dim].map(|width| heads * keys * width);
        let mut q = zeros(batch * queries * heads * head_dim);
        let (mut k, mut v) = (zeros(batch * pieces * k_size), zeros(batch * pieces * v_size));
        let row = heads * head_dim;
        let of_q = q.chunks_mut(queries * row).flat_map(|q| q.chunks_mut(of_piece * row));
        let tasks: Vec<_> = of_q.zip(k.chunks_mut(k_size).zip(v.chunks_mut(v_size))).enumerate().collect();
        let run = |buffers: &mut Buffers, (task, (q, (k, v))): (usize, (&mut [f32], _))| {
            let weights = WeightLanes::new(&operands.weights);
            let mut sums = Sums { k, v, bias: vec![0.0; heads * distances], weights };
            let (batch, first) = (task / pieces, task % pieces * of_piece);
            let end = queries.min(first + of_piece);
            for (q, first) in q.chunks_mut(ROWS * row).zip((first..end).step_by(ROWS)) {
                let block = Block::new(operands.shape, batch, first, end);
                self.block(&block, q, &mut sums, buffers);
            }
            (sums.bias, sums.weights.sums(&operands.weights))
        };
        let parts: (Vec<_>, Vec<_>) = tasks.into_par_iter().map_init(|| Buffers::new(operands), run).unzip();
        let mut bias = vec![0.0; heads * distances];
        for part in &parts.0 {
            add(&mut bias, part);
        }
        let [w1, b1, w2, b2] = added(&operands.weights, &parts.1);
        let hidden = b1.len();
        [
            permuted_tensor_of(q, [batch, queries, heads, head_dim], [0, 2, 1, 3]),
            tensor_of(joined(k, k_size, pieces), [batch, heads, keys, head_dim]),
            tensor_of(joined(v, v_size, pieces), [batch, heads, keys, value_dim]),
            tensor_of(turned_rows(&bias, distances), [heads, distances]),
            tensor_of(w1, [2 * heads, hidden]),
            tensor_of(b1, [hidden]),
            tensor_of(w2, [hidden, heads]),
            tensor_of(b2, [heads]),
        ]
    }

    /// The gradients of a block: sets those of its queries, `[rows, heads, head_dim]`, and adds to the sums.
    fn block(&self, block: &Block, q: &mut [f32], sums: &mut Sums<'_>, buffers: &mut Buffers) {
        let operands = self.operands;
        let Shape { heads, queries, keys, head_dim, value_dim, .. } = operands.shape;
        let Buffers { scores, probabilities, gradient, tile } = buffers;
        operands.fill_scores(block, scores);
        fill_logits(operands, block, Some(scores), probabilities, tile);
        let of_head = block.heads(probabilities).zip(block.heads(gradient)).zip(block.heads(scores));
        for (head, ((p, d), scores)) in of_head.enumerate().take(heads) {
            let log_sums = &self.log_sums[(block.batch * queries + block.first) * heads + head..];
            let output = self.output.head_rows(block.batch, head, block.first, block.rows, value_dim);
            matmul(d, block.stride, false, 1.0, output, operands.values(block, head).transposed());
            through_causal_softmax(block.causal(), log_sums, heads, p, d);
            hide_later(block.causal(), scores);
            let v = &mut sums.v[head * keys * value_dim..];
            matmul(v, value_dim, true, 1.0, block.matrix(p).transposed(), output);
        }
        self.through_network(block, scores, gradient, sums, tile);
        for (head, scores) in block.heads(scores).enumerate().take(heads) {
            let d = block.matrix(scores);
            let (of_q, of_k) = (&mut q[head * head_dim..], &mut sums.k[head * keys * head_dim..]);
            matmul(of_q, heads * head_dim, false, operands.scale, d, operands.keys(block, head));
            matmul(of_k, head_dim, true, operands.scale, d.transposed(), operands.queries(block, head));
        }
    }

    /// From the gradient of the logits to that of the scores, which take the place of these; adds to those of the biases
    /// and of the weights.
    fn through_network(
        &self,
        block: &Block,
        scores: &mut [f32],
        gradient: &[f32],
        sums: &mut Sums<'_>,
        tile: &mut Tile,
    ) {
        let Shape { heads, distances, .. } = self.operands.shape;
        tiles((0..block.rows).map(|row| block.seen(row)), |stretches, pairs| {
            self.operands.fill(block, scores, stretches, &mut tile.inputs);
            for stretch in stretches {
                for (head, row) in tile.outputs[..heads].iter_mut().enumerate() {
                    stretch.read(&gradient[block.at(head, stretch)..], row);
                }
            }
            tile.clear_after(pairs);
            tile::backward(&self.operands.weights, pairs, tile, &mut sums.weights);
            let (of_scores, of_biases) = tile.of_inputs.split_at(heads);
            block.put(of_scores, stretches, scores);
            for stretch in stretches {
                let from = self.operands.bias_at(block, stretch);
                for (head, row) in of_biases[..heads].iter().enumerate() {
                    add(&mut sums.bias[head * distances + from..], stretch.of(row));
                }
            }
        });
    }
}
