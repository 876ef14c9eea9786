//! Attention through reflections on the CPU: regions of queries, chunk by chunk.

use super::Shape;
use super::chunks::{CHUNK, Cut, KeyHead, Operators};
use super::region::{Older, REGION, Region};
use super::walk::{At, Walk};
use crate::attention::normaliser::{Normaliser, RowPosition, Softmax};
use crate::machine::autodiff::{View, permuted_tensor_of, values};
use crate::machine::buffers::zeros;
use crate::machine::matmul::{Matrix, matmul};
use crate::machine::simd::{LANES, vectorised};
use burn_flex::FlexTensor;
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;

/// One call: its tensors and settings.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// q, k, v, w and beta, and the gates of queries and keys.
    pub(super) inputs: [FlexTensor; 7],
    pub(super) shape: Shape,
    pub(super) scale: f32,
    /// Whether there are gates.
    pub(super) gates: bool,
}

/// What regions are computed from.
pub(super) struct Operands<'a> {
    pub(super) shape: Shape,
    pub(super) cut: Cut,
    pub(super) scale: f32,
    q: View<4>,
    k: View<4>,
    v: View<4>,
    w: View<4>,
    /// `[batch, key_heads, keys]`.
    beta: Cow<'a, [f32]>,
    /// `[batch, heads, queries]` and `[batch, heads, keys]`.
    gates: Option<[Cow<'a, [f32]>; 2]>,
}

impl<'a> Operands<'a> {
    pub(super) fn new(call: &'a Call) -> Self {
        let [q, k, v, w, beta, query, key] = &call.inputs;
        let gates = call.gates.then(|| [values(query), values(key)]);
        let [q, k, v, w] = [q, k, v, w].map(View::new);
        let (shape, scale) = (call.shape, call.scale);
        Self { shape, cut: Cut::new(shape), scale, q, k, v, w, beta: values(beta), gates }
    }

    /// What is read of each key head of each batch row.
    pub(super) fn key_heads(&self) -> Vec<KeyHead<'_>> {
        let Shape { batch, key_heads, keys, head_dim, .. } = self.shape;
        let of = |index: usize| {
            let (batch, head) = (index / key_heads, index % key_heads);
            let [k, w] = [&self.k, &self.w].map(|x| x.head_rows(batch, head, 0, keys, head_dim));
            KeyHead { k, w, beta: &self.beta[index * keys..(index + 1) * keys], dim: head_dim }
        };
        (0..batch * key_heads).map(of).collect()
    }

    /// A region of `rows` queries from `first` on.
    pub(super) fn region<'b>(
        &self,
        head: KeyHead<'b>,
        operators: &'b Operators,
        first: usize,
        rows: usize,
    ) -> Region<'b> {
        let start = self.cut.index(self.shape.first + first);
        let chunks = start..start + rows.div_ceil(CHUNK);
        Region { head, operators, cut: self.cut, chunks, scale: self.scale }
    }

    /// Queries of one head, whose rows are counted among the keys.
    pub(super) fn queries(&self, batch: usize, head: usize, rows: &Range<usize>) -> Matrix<'_> {
        self.q.head_rows(batch, head, rows.start - self.shape.first, rows.len(), self.shape.head_dim)
    }

    pub(super) fn values(&self, batch: usize, head: usize, count: usize) -> Matrix<'_> {
        self.v.head_rows(batch, head / self.shape.group(), 0, count, self.shape.value_dim)
    }

    /// The numbers of a chunk's scores at most.
    pub(super) fn scores(&self) -> usize {
        CHUNK * self.shape.end().next_multiple_of(LANES)
    }

    /// Fills `scores` with the logits of the queries at hand, and gives their rows.
    pub(super) fn logits(
        &self,
        (batch, head): (usize, usize),
        at: At<'_>,
        walk: &mut Walk,
        scores: &mut [f32],
    ) -> CausalRows {
        let rows = at.region.rows(at.chunk);
        let causal =
            CausalRows { count: rows.len(), seen: rows.start + 1, stride: rows.end.next_multiple_of(LANES) };
        walk.fill(at);
        walk.scores(at, scores, causal.stride);
        if let Some([query, key]) = &self.gates {
            let Shape { heads, queries, keys, first, .. } = self.shape;
            let index = batch * heads + head;
            let query = &query[index * queries + rows.start - first..][..rows.len()];
            add_gates(causal, query, &key[index * keys..(index + 1) * keys], scores);
        }
        causal
    }

    pub(super) fn has_gates(&self) -> bool {
        self.gates.is_some()
    }
}

struct Buffers {
    older: Older,
    walk: Walk,
    scores: Vec<f32>,
}

/// The output `[batch, heads, queries, value_dim]` and the logs of the sums of exp(logits), `[batch, queries, heads]`.
///
/// The output is laid out as `[batch, queries, heads, value_dim]`, so that merging its heads costs nothing.
pub(super) fn forward(call: &Call) -> (FlexTensor, Vec<f32>) {
    let operands = Operands::new(call);
    let Shape { batch, heads, queries, value_dim, head_dim, .. } = call.shape;
    let (width, rows) = (heads * value_dim, REGION * CHUNK);
    let key_heads = operands.key_heads();
    let operators = Operators::of_all(&key_heads, operands.cut, call.shape.end());
    let mut out = zeros(batch * queries * width);
    let mut log_sums = zeros(batch * queries * heads);
    let of_out = out.chunks_mut(queries * width).flat_map(|out| out.chunks_mut(rows * width));
    let of_sums = log_sums.chunks_mut(queries * heads).flat_map(|sums| sums.chunks_mut(rows * heads));
    let mut tasks: Vec<_> = of_out.zip(of_sums).enumerate().collect();
    let of_batch = queries.div_ceil(rows);
    // Late rows see more keys.
    tasks.sort_by_key(|(task, _)| std::cmp::Reverse(task % of_batch));
    let buffers = || Buffers {
        older: Older::default(),
        walk: Walk::new(head_dim),
        scores: vec![0.0; operands.scores()],
    };
    tasks.into_par_iter().for_each_init(buffers, |buffers, (task, (out, log_sums))| {
        let (batch, first) = (task / of_batch, task % of_batch * rows);
        let count = log_sums.len() / heads;
        for key_head in 0..call.shape.key_heads {
            let index = batch * call.shape.key_heads + key_head;
            let region = operands.region(key_heads[index], &operators[index], first, count);
            buffers.older.fill(&region);
            for head in key_head * call.shape.group()..(key_head + 1) * call.shape.group() {
                attend(&operands, &region, (batch, head), buffers, out, log_sums);
            }
        }
    });
    (permuted_tensor_of(out, [batch, queries, heads, value_dim], [0, 2, 1, 3]), log_sums)
}

/// The rows of a region and one head: `out` is `[rows, heads, value_dim]`, `log_sums` `[rows, heads]`.
fn attend(
    operands: &Operands<'_>,
    region: &Region<'_>,
    (batch, head): (usize, usize),
    Buffers { older, walk, scores }: &mut Buffers,
    out: &mut [f32],
    log_sums: &mut [f32],
) {
    let Shape { heads, value_dim, .. } = operands.shape;
    let width = heads * value_dim;
    for chunk in 0..region.chunks.len() {
        let rows = region.rows(chunk);
        let at = At { region, chunk, q: operands.queries(batch, head, &rows), older };
        let causal = operands.logits((batch, head), at, walk, scores);
        let row = rows.start - region.first();
        let mut divisors = [0.0; CHUNK];
        for (row_of_chunk, divisor) in divisors.iter_mut().enumerate().take(rows.len()) {
            let [seen, later] = causal.row(row_of_chunk, scores);
            let weighed = Softmax.weigh(seen, causal.place(row_of_chunk));
            later.fill(0.0);
            *divisor = weighed.divisor;
            log_sums[(row + row_of_chunk) * heads + head] = weighed.kept;
        }
        let out = &mut out[row * width + head * value_dim..];
        let probabilities = Matrix::new(scores, rows.len(), rows.end, causal.stride);
        matmul(out, width, false, 1.0, probabilities, operands.values(batch, head, rows.end));
        for (out, divisor) in out.chunks_mut(width).zip(divisors).take(rows.len()) {
            let inverse = if divisor == 0.0 { 0.0 } else { 1.0 / divisor };
            out[..value_dim].iter_mut().for_each(|out| *out *= inverse);
        }
    }
}

/// Rows of logits of one head, of which each sees one key more.
#[derive(Clone, Copy)]
pub(super) struct CausalRows {
    /// How many rows there are.
    pub(super) count: usize,
    /// Keys that the first row sees.
    pub(super) seen: usize,
    /// Numbers from one row to the next.
    pub(super) stride: usize,
}

impl CausalRows {
    /// The numbers of a row that it sees, and those after them.
    pub(super) fn row<'a>(&self, row: usize, x: &'a mut [f32]) -> [&'a mut [f32]; 2] {
        x[row * self.stride..][..self.stride].split_at_mut(self.seen + row).into()
    }

    pub(super) fn place(&self, row: usize) -> RowPosition {
        let query = self.seen + row - 1;
        RowPosition { query, own: query }
    }
}

vectorised! {
    fn add_gates(rows: CausalRows, query: &[f32], key: &[f32], logits: &mut [f32]) {
        for (row, query) in query.iter().enumerate() {
            for (logit, key) in logits[row * rows.stride..][..rows.seen + row].iter_mut().zip(key) {
                *logit += query - key;
            }
        }
    }
}
