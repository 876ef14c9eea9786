//! The gradient of attention through reflections: everything is computed again, region by region.
//!
//! The queries of a head are one piece of the work, or a few where there are few heads. Each piece has sums of its own over the
//! keys and steps, which are added in the order of the pieces; what a row has alone lies beside them. At the end each chunk
//! turns what has come together into the gradients of its k, w and beta.

use super::Shape;
use super::chunks::{self, CHUNK, Inner, KeyHead, OfChunk, Operators};
use super::cpu::{Call, CausalRows, Operands};
use super::region::{Older, REGION, Region};
use super::walk::{At, Own, Scratch, SharedGradients, Walk};
use crate::attention::normaliser::{Normaliser, Row, Softmax};
use crate::machine::autodiff::{View, tensor_of};
use crate::machine::buffers::{Rest, joined, zeros};
use crate::machine::matmul::{Matrix, matmul};
use crate::machine::simd::{sum, vectorised};
use burn_flex::FlexTensor;
use rayon::prelude::*;

/// Pieces that the work is cut into if its shape allows.
const PIECES: usize = 16;

/// The gradients of all inputs that are there, from the log sums `[batch, queries, heads]` and the gradient of the output.
pub(super) fn gradients(call: &Call, log_sums: &[f32], output: &FlexTensor) -> Vec<FlexTensor> {
    let operands = Operands::new(call);
    QueryRows { operands: &operands, log_sums, output: View::new(output) }.backward()
}

/// What the backward pass knows of the query rows.
struct QueryRows<'a> {
    operands: &'a Operands<'a>,
    log_sums: &'a [f32],
    /// The gradient of the output.
    output: View<4>,
}

/// The gradients that all rows of a piece share.
struct Shared<'a> {
    keys: &'a mut [f32],
    steps: &'a mut [f32],
    values: &'a mut [f32],
    /// Of the gates of keys, negative; empty without gates.
    gates: &'a mut [f32],
}

/// The gradients that rows of a piece have alone.
struct Alone<'a> {
    own: [&'a mut [f32]; 5],
    /// Of the gates of queries; empty without gates.
    gates: &'a mut [f32],
}

struct Buffers {
    older: Older,
    /// `[head_dim, stride]`.
    of_older: Vec<f32>,
    carried: [Vec<f32>; 2],
    walk: Walk,
    scratch: Scratch,
    probabilities: Vec<f32>,
    gradient: Vec<f32>,
}

impl Buffers {
    fn new(operands: &Operands<'_>) -> Self {
        let dim = operands.shape.head_dim;
        Self {
            older: Older::default(),
            of_older: Vec::new(),
            carried: [Vec::new(), Vec::new()],
            walk: Walk::new(dim),
            scratch: Scratch::new(dim),
            probabilities: vec![0.0; operands.scores()],
            gradient: vec![0.0; operands.scores()],
        }
    }
}

/// How many numbers there are of everything.
struct Sizes {
    /// Query rows of a piece, and pieces of a head.
    of_piece: usize,
    pieces: usize,
    /// Of what pieces share: see [`Shared`].
    shared: [usize; 4],
    /// Of a row alone: see [`Alone`].
    alone: [usize; 6],
}

impl Sizes {
    fn new(operands: &Operands<'_>) -> Self {
        let shape @ Shape { batch, heads, queries, keys, head_dim, value_dim, .. } = operands.shape;
        let of_piece = queries.div_ceil(PIECES.div_ceil(batch * heads)).next_multiple_of(REGION * CHUNK);
        let gates = usize::from(operands.has_gates());
        let steps = operands.cut.count() * head_dim * head_dim;
        Self {
            of_piece,
            pieces: queries.div_ceil(of_piece),
            shared: [shape.end() * head_dim, steps, keys * value_dim, gates * keys],
            alone: [head_dim, head_dim, head_dim, head_dim, CHUNK, gates],
        }
    }
}

/// Parts of so many numbers of each buffer, one after the other.
fn next<'a, const N: usize>(rests: &mut [Rest<'a>; N], sizes: [usize; N]) -> [&'a mut [f32]; N] {
    let mut sizes = sizes.into_iter();
    rests.each_mut().map(|rest| rest.next(sizes.next().unwrap_or_default()))
}

impl QueryRows<'_> {
    /// The gradients of all inputs.
    fn backward(&self) -> Vec<FlexTensor> {
        let operands = self.operands;
        let shape @ Shape { batch, heads, key_heads, queries, keys, head_dim, value_dim, .. } =
            operands.shape;
        let sizes = Sizes::new(operands);
        let of_heads = operands.key_heads();
        let operators = Operators::of_all(&of_heads, operands.cut, shape.end());
        let chunks = (&of_heads[..], &operators[..]);
        let mut shared = sizes.shared.map(|size| zeros(batch * heads * sizes.pieces * size));
        let mut alone = sizes.alone.map(|width| zeros(batch * heads * queries * width));
        self.pieces(&sizes, chunks, &mut shared, &mut alone);

        let together = shape.group() * sizes.pieces;
        let [of_keys, of_steps, v, of_key_gates] = shared;
        let [q, k, w, taken, crossed, of_query_gates] = alone;
        let of_rows =
            [joined(of_keys, sizes.shared[0], together), joined(of_steps, sizes.shared[1], together)];
        let own = [(k, head_dim), (w, head_dim), (taken, head_dim), (crossed, CHUNK)]
            .map(|(x, width)| joined(x, queries * width, shape.group()));
        let [k, w, beta] = self.of_chunks(chunks, of_rows, own);
        let v = joined(v, sizes.shared[2], together);
        let mut gradients = vec![
            tensor_of(q, [batch, heads, queries, head_dim]),
            tensor_of(k, [batch, key_heads, keys, head_dim]),
            tensor_of(v, [batch, key_heads, keys, value_dim]),
            tensor_of(w, [batch, key_heads, keys, head_dim]),
            tensor_of(beta, [batch, key_heads, keys]),
        ];
        if operands.has_gates() {
            gradients.push(tensor_of(of_query_gates, [batch, heads, queries]));
            gradients.push(tensor_of(joined(of_key_gates, keys, sizes.pieces), [batch, heads, keys]));
        }
        gradients
    }

    /// Fills what pieces share and what rows have alone.
    fn pieces(
        &self,
        sizes: &Sizes,
        (of_heads, operators): (&[KeyHead<'_>], &[Operators]),
        shared: &mut [Vec<f32>; 4],
        alone: &mut [Vec<f32>; 6],
    ) {
        let operands = self.operands;
        let shape @ Shape { batch, heads, queries, .. } = operands.shape;
        let mut shared = shared.each_mut().map(|all| Rest(all));
        let mut alone = alone.each_mut().map(|all| Rest(all));
        let task = |task: usize| {
            let first = task % sizes.pieces * sizes.of_piece;
            let rows = sizes.of_piece.min(queries - first);
            let [keys, steps, values, gates] = next(&mut shared, sizes.shared);
            let shared = Shared { keys, steps, values, gates };
            let [q, k, w, taken, crossed, gates] = next(&mut alone, sizes.alone.map(|width| rows * width));
            let alone = Alone { own: [q, k, w, taken, crossed], gates };
            (task / sizes.pieces, first..first + rows, shared, alone)
        };
        let tasks: Vec<_> = (0..batch * heads * sizes.pieces).map(task).collect();
        tasks.into_par_iter().for_each_init(
            || Buffers::new(operands),
            |buffers, (head, rows, mut shared, mut alone)| {
                let of_keys = head / shape.group();
                for first in rows.clone().step_by(REGION * CHUNK) {
                    let count = (REGION * CHUNK).min(rows.end - first);
                    let region = operands.region(of_heads[of_keys], &operators[of_keys], first, count);
                    self.region(&region, head, first - rows.start, &mut shared, &mut alone, buffers);
                }
            },
        );
    }

    /// The gradients of a region, which begins at `row` of its piece; `index` is the head among those of all batch rows.
    fn region(
        &self,
        region: &Region<'_>,
        index: usize,
        row: usize,
        shared: &mut Shared<'_>,
        alone: &mut Alone<'_>,
        buffers: &mut Buffers,
    ) {
        let Shape { heads, head_dim, .. } = self.operands.shape;
        let widths = [head_dim, head_dim, head_dim, head_dim, CHUNK];
        buffers.older.fill(region);
        buffers.of_older.clear();
        buffers.of_older.resize(head_dim * buffers.older.stride, 0.0);
        for chunk in 0..region.chunks.len() {
            let rows = region.rows(chunk);
            let row = row + rows.start - region.first();
            let q = self.operands.queries(index / heads, index % heads, &rows);
            let Buffers { older, of_older, walk, scratch, probabilities, gradient, .. } = &mut *buffers;
            let at = At { region, chunk, q, older };
            let causal = self.operands.logits((index / heads, index % heads), at, walk, probabilities);
            self.through_softmax(index, causal, probabilities, gradient, shared.values);
            if self.operands.has_gates() {
                of_gates(causal, gradient, &mut alone.gates[row..], shared.gates);
            }
            let of_scores = Matrix::new(gradient, causal.count, rows.end, causal.stride);
            let mut own = alone.own.each_mut().map(|all| Rest(all));
            next(&mut own, widths.map(|width| row * width));
            let [q, k, w, taken, crossed] = next(&mut own, widths.map(|width| rows.len() * width));
            let mut sums = SharedGradients { keys: shared.keys, steps: shared.steps, older: of_older };
            walk.backward(at, of_scores, Own { q, k, w, taken, crossed }, &mut sums, scratch);
        }
        let Buffers { older, of_older, carried, .. } = buffers;
        older.backward(region, of_older, carried, shared.keys, shared.steps);
    }

    /// From logits to their gradient; adds to that of the values.
    fn through_softmax(
        &self,
        index: usize,
        rows: CausalRows,
        logits: &mut [f32],
        gradient: &mut [f32],
        of_values: &mut [f32],
    ) {
        let operands = self.operands;
        let Shape { heads, queries, value_dim, first, .. } = operands.shape;
        let (batch, head, row) = (index / heads, index % heads, rows.seen - 1 - first);
        let keys = rows.seen - 1 + rows.count;
        let output = self.output.head_rows(batch, head, row, rows.count, value_dim);
        let values = operands.values(batch, head, keys);
        matmul(gradient, rows.stride, false, 1.0, output, values.transposed());
        let log_sums = &self.log_sums[(batch * queries + row) * heads + head..];
        for (row, kept) in log_sums.iter().step_by(heads).take(rows.count).enumerate() {
            let (place, [weights, later]) = (rows.place(row), rows.row(row, logits));
            Softmax.weigh_again(weights, place, *kept);
            later.fill(0.0);
            let [gradient, later] = rows.row(row, gradient);
            Softmax.gradient(Row { logits: &[], weights, kept: *kept, of_kept: 0.0, place }, gradient);
            later.fill(0.0);
        }
        let probabilities = Matrix::new(logits, rows.count, keys, rows.stride);
        matmul(of_values, value_dim, true, 1.0, probabilities.transposed(), output);
    }

    /// The gradients of k, w and beta, `[batch, key_heads, keys, ..]`, from those of what chunks do to all later rows, and of what
    /// rows of queries have alone: of k, w, Y and X.
    fn of_chunks(
        &self,
        (of_heads, operators): (&[KeyHead<'_>], &[Operators]),
        [of_keys, of_steps]: [Vec<f32>; 2],
        own: [Vec<f32>; 4],
    ) -> [Vec<f32>; 3] {
        let shape @ Shape { batch, key_heads, queries, keys, head_dim, first, .. } = self.operands.shape;
        let (end, cut, count) = (shape.end(), self.operands.cut, batch * key_heads * keys);
        let widths = [head_dim, head_dim, head_dim, CHUNK];
        let mut all = [zeros(count * head_dim), zeros(count * head_dim), zeros(count)];
        let mut rests = all.each_mut().map(|all| Rest(all));
        let mut tasks = Vec::new();
        for (head, chunk) in
            (0..batch * key_heads).flat_map(|head| (0..cut.count()).map(move |chunk| (head, chunk)))
        {
            let rows = cut.rows(chunk);
            let out = next(&mut rests, [rows.len() * head_dim, rows.len() * head_dim, rows.len()]);
            if rows.end == end {
                next(&mut rests, [(keys - end) * head_dim, (keys - end) * head_dim, keys - end]);
            }
            tasks.push((head, chunk, rows, out));
        }
        tasks.into_par_iter().for_each_init(Inner::new, |inner, (head, chunk, rows, [k, w, beta])| {
            let [of_keys, of_step] = [
                &of_keys[(head * end + rows.start) * head_dim..][..rows.len() * head_dim],
                &of_steps[(head * cut.count() + chunk) * head_dim * head_dim..][..head_dim * head_dim],
            ];
            // Rows before the first query have no queries of their own.
            let mut widths = widths.into_iter();
            let [own_k, own_w, mut taken, mut crossed] = own.each_ref().map(|all| {
                let width = widths.next().unwrap_or_default();
                match rows.start.checked_sub(first) {
                    Some(row) => all[(head * queries + row) * width..][..rows.len() * width].to_vec(),
                    None => vec![0.0; rows.len() * width],
                }
            });
            k.copy_from_slice(&own_k);
            w.copy_from_slice(&own_w);
            let of = OfChunk { keys: of_keys, taken: &mut taken, crossed: &mut crossed, step: of_step };
            chunks::backward(inner, &of_heads[head], &rows, &operators[head], of, [k, w, beta]);
        });
        all
    }
}

vectorised! {
    /// Sets the gradient of the queries' gates, and adds to that of the keys' gates.
    fn of_gates(rows: CausalRows, gradient: &[f32], query: &mut [f32], key: &mut [f32]) {
        for (row, query) in query.iter_mut().enumerate().take(rows.count) {
            let gradient = &gradient[row * rows.stride..][..rows.seen + row];
            *query = sum(gradient);
            for (key, gradient) in key.iter_mut().zip(gradient) {
                *key -= gradient;
            }
        }
    }
}
