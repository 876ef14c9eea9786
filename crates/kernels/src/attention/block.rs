//! The logits of one block of queries: which keys it sees, and what is added to them.

use super::Shape;
use super::call::{BiasValues, Call};
use super::keys::{Segment, Transposed};
use crate::autodiff::{View, values};
use crate::matmul::{Matrix, matmul};
use crate::simd::{LANES, vectorised};
use std::borrow::Cow;
use std::ops::Range;

/// Query rows per block: enough to keep the matrix products busy, few enough that little of a causal
/// block is wasted and that its logits stay in the cache.
pub(super) const ROWS: usize = 32;

/// A block of query rows of one head, and the keys that any of them sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) batch: usize,
    pub(super) head: usize,
    pub(super) first: usize,
    pub(super) rows: usize,
    /// The sinks and the rest, or (without sinks outside the window) everything and nothing.
    pub(super) segments: [Segment; 2],
    /// Columns of the logits.
    pub(super) width: usize,
    /// The distance between rows of logits: a multiple of [`LANES`], not below the width.
    pub(super) stride: usize,
}

impl Block {
    fn new(batch: usize, head: usize, rows: Range<usize>, segments: [Segment; 2]) -> Self {
        let width = segments[0].len() + segments[1].len();
        let stride = width.next_multiple_of(LANES);
        Self { batch, head, first: rows.start, rows: rows.len(), segments, width, stride }
    }

    /// The segments that hold keys; none where the block sees nothing.
    pub(super) fn seen(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.len() > 0)
    }
}

/// What blocks are computed from.
pub(super) struct Operands<'a> {
    pub(super) shape: Shape,
    q: View<4>,
    k: View<4>,
    v: View<4>,
    pub(super) bias: BiasValues<'a>,
    pub(super) scale: f32,
    query_scale: Option<(Cow<'a, [f32]>, bool)>,
    window: Option<usize>,
    sinks: usize,
    distances: Range<usize>,
    offset: usize,
}

impl<'a> Operands<'a> {
    pub(super) fn new(call: &'a Call) -> Self {
        Self {
            shape: call.shape,
            q: View::new(&call.q),
            k: View::new(&call.k),
            v: View::new(&call.v),
            bias: BiasValues::new(&call.bias),
            scale: call.scale,
            query_scale: call
                .query_scale
                .as_ref()
                .map(|scale| (values(scale), scale.layout().shape()[0] == 1)),
            window: call.window,
            sinks: call.sinks,
            distances: call.distances.clone(),
            offset: call.offset,
        }
    }

    /// The block of up to [`ROWS`] query rows from row `first`.
    pub(super) fn block(&self, batch: usize, head: usize, first: usize) -> Block {
        self.span(batch, head, first, ROWS.min(self.shape.queries - first))
    }

    /// All query rows of a head as one block that sees every key up to the last one seen.
    pub(super) fn all_rows(&self, batch: usize, head: usize) -> Block {
        let last = (self.offset + self.shape.queries).saturating_sub(1);
        let end = self.shape.keys.min(self.in_range(last).end);
        let segments =
            [Segment { start: self.in_range(self.offset).start.min(end), end, at: 0 }, Segment::default()];
        Block::new(batch, head, 0..self.shape.queries, segments)
    }

    /// `rows` query rows from row `first`, as one block.
    pub(super) fn span(&self, batch: usize, head: usize, first: usize, rows: usize) -> Block {
        let begin = self.in_range(self.offset + first).start;
        let end = self.shape.keys.min(self.in_range(self.offset + first + rows.max(1) - 1).end);
        let begin = begin.min(end);
        let start = self.nearest(self.offset + first).clamp(begin, end);
        let segments = if start <= self.sinks {
            [Segment { start: begin, end, at: 0 }, Segment::default()]
        } else {
            let sinks = Segment { start: begin.min(self.sinks), end: self.sinks, at: 0 };
            [sinks, Segment { start, end, at: sinks.len() }]
        };
        Block::new(batch, head, first..first + rows, segments)
    }

    /// The most that [`Block::stride`] can be times the rows: the size of a block's logits.
    pub(super) fn scratch(&self) -> usize {
        let last = self.shape.queries.saturating_sub(ROWS);
        (0..=last).step_by(ROWS).chain([last]).map(|first| self.block(0, 0, first).stride).max().unwrap_or(0)
            * ROWS
    }

    /// The position of a row among the keys.
    pub(super) fn position(&self, block: &Block, row: usize) -> usize {
        self.offset + block.first + row
    }

    /// The keys within the range of distances of a position.
    fn in_range(&self, position: usize) -> Range<usize> {
        let before = |distance: usize| (position + 1).saturating_sub(distance);
        before(self.distances.end)..before(self.distances.start)
    }

    /// The first key inside the window of a position.
    fn nearest(&self, position: usize) -> usize {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window))
    }

    /// The keys of a segment that a row sees: the sinks among them, and those inside the window.
    pub(super) fn runs(&self, block: &Block, row: usize, segment: &Segment) -> [Range<usize>; 2] {
        let position = self.position(block, row);
        let keys = self.in_range(position);
        let end = segment.end.min(keys.end).max(segment.start);
        let start = keys.start.clamp(segment.start, end);
        let sinks = self.sinks.clamp(start, end);
        let near = self.nearest(position).clamp(sinks, end);
        [start..sinks, near..end]
    }

    /// The column after the last one that a row sees.
    pub(super) fn row_end(&self, block: &Block, row: usize) -> usize {
        let position = self.position(block, row);
        let last = block.segments[usize::from(block.segments[1].len() > 0)];
        last.at + last.end.min(self.in_range(position).end).saturating_sub(last.start)
    }

    /// The factor of a row's q·k besides the scale, if there is one.
    pub(super) fn row_factor(&self, block: &Block, row: usize) -> Option<f32> {
        let (values, shared) = self.query_scale.as_ref()?;
        let first = if *shared { 0 } else { block.batch * self.shape.queries };
        Some(values[first + block.first + row])
    }

    /// The queries of a block, `[rows, head_dim]`.
    pub(super) fn query_matrix(&self, block: &Block) -> Matrix<'_> {
        Self::rows_of(&self.q, block, self.shape.head_dim)
    }

    /// The keys of a segment, `[len, head_dim]`.
    pub(super) fn key_matrix(&self, block: &Block, segment: &Segment) -> Matrix<'_> {
        self.of_key_head(&self.k, block, segment, self.shape.head_dim)
    }

    /// The values of a segment, `[len, value_dim]`.
    pub(super) fn value_matrix(&self, block: &Block, segment: &Segment) -> Matrix<'_> {
        self.of_key_head(&self.v, block, segment, self.shape.value_dim)
    }

    /// Fills `out` with the transpose of the keys that a block sees.
    pub(super) fn transpose_keys(&self, block: &Block, out: &mut Transposed) {
        out.fill(block.segments, self.shape.head_dim, |segment| self.key_matrix(block, segment));
    }

    /// Fills `out` with the transpose of the values that a block sees.
    pub(super) fn transpose_values(&self, block: &Block, out: &mut Transposed) {
        out.fill(block.segments, self.shape.value_dim, |segment| self.value_matrix(block, segment));
    }

    fn of_key_head<'b>(
        &self,
        view: &'b View<4>,
        block: &Block,
        segment: &Segment,
        width: usize,
    ) -> Matrix<'b> {
        let [batch, head, row, _] = view.strides();
        let key_head = block.head / (self.shape.heads / self.shape.key_heads);
        let from = block.batch * batch + key_head * head + segment.start * row;
        Matrix::new(&view.data()[from..], segment.len(), width, row)
    }

    /// The rows of the block, `[rows, width]`, of a view shaped `[batch, heads, queries, width]`.
    pub(super) fn rows_of<'b>(view: &'b View<4>, block: &Block, width: usize) -> Matrix<'b> {
        let [batch, head, row, _] = view.strides();
        let from = block.batch * batch + block.head * head + block.first * row;
        Matrix::new(&view.data()[from..], block.rows, width, row)
    }

    /// Fills `logits` with those of the block: minus infinity where a key is hidden, up to the next
    /// multiple of [`LANES`] after [`Self::row_end`]; what follows in a row is left undefined.
    ///
    /// `keys` holds at least the block's keys.
    pub(super) fn logits(&self, block: &Block, keys: &Transposed, logits: &mut [f32]) {
        let queries = self.query_matrix(block);
        for segment in block.seen() {
            matmul(&mut logits[segment.at..], block.stride, false, self.scale, queries, keys.of(segment));
        }
        add_bias(self, block, logits);
        for (row, logits) in logits.chunks_mut(block.stride).take(block.rows).enumerate() {
            for segment in block.seen() {
                let [sinks, near] = self.runs(block, row, segment);
                for hidden in [segment.start..sinks.start, sinks.end..near.start, near.end..segment.end] {
                    logits[segment.columns(&hidden)].fill(f32::NEG_INFINITY);
                }
            }
            let end = self.row_end(block, row);
            logits[end..end.next_multiple_of(LANES)].fill(f32::NEG_INFINITY);
        }
    }
}

/// The numbers of the lanes: 0 to 15.
const FIRST: [f32; LANES] = {
    let mut first = [0.0; LANES];
    let mut lane = 0;
    while lane < LANES {
        first[lane] = lane as f32;
        lane += 1;
    }
    first
};

vectorised! {
    /// Multiplies the logits by their row's factor and adds the bias, where keys are visible.
    fn add_bias(operands: &Operands<'_>, block: &Block, logits: &mut [f32]) {
        let Shape { heads, queries, keys, .. } = operands.shape;
        if matches!(operands.bias, BiasValues::None) && operands.query_scale.is_none() {
            return;
        }
        let head_row = (block.batch * heads + block.head) * queries + block.first;
        for row in 0..block.rows {
            let logits = &mut logits[row * block.stride..][..block.stride];
            let position = operands.position(block, row);
            let factor = operands.row_factor(block, row).unwrap_or(1.0);
            for segment in &block.segments {
                for run in operands.runs(block, row, segment) {
                    let logits = &mut logits[segment.columns(&run)];
                    match &operands.bias {
                        BiasValues::None => {
                            for x in logits {
                                *x *= factor;
                            }
                        }
                        BiasValues::ByDistance { reversed, distances } => {
                            if run.is_empty() {
                                continue;
                            }
                            // Key j is at distance position - j: entry distances - 1 - (position - j).
                            let from = (block.head + 1) * distances - 1 - (position - run.start);
                            let bias = &reversed[from..from + logits.len()];
                            for (x, bias) in logits.iter_mut().zip(bias) {
                                *x = *x * factor + bias;
                            }
                        }
                        BiasValues::Slopes(slopes) => {
                            let slope = slopes[block.head];
                            // Whole numbers below 2^24 are exact in f32, however they are reached.
                            let mut distance = (position - run.start.min(position)) as f32;
                            for logits in logits.chunks_mut(LANES) {
                                for (x, lane) in logits.iter_mut().zip(&FIRST) {
                                    *x = *x * factor - slope * (distance - lane);
                                }
                                distance -= LANES as f32;
                            }
                        }
                        BiasValues::Pair { query, key } => {
                            let query = query[head_row + row];
                            let from = (block.batch * heads + block.head) * keys + run.start;
                            let key = &key[from..from + logits.len()];
                            for (x, key) in logits.iter_mut().zip(key) {
                                *x = *x * factor + (query - key);
                            }
                        }
                        BiasValues::Block { values, shared } => {
                            let batch = if *shared { 0 } else { block.batch };
                            let from =
                                ((batch * heads + block.head) * queries + block.first + row) * keys + run.start;
                            let bias = &values[from..from + logits.len()];
                            for (x, bias) in logits.iter_mut().zip(bias) {
                                *x = *x * factor + bias;
                            }
                        }
                    }
                }
            }
        }
    }
}
