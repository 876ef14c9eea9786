//! The logits of one block of queries: which keys it sees, and what is added to them.

use super::Shape;
use super::call::{BiasValues, Call};
use super::keys::{Keys, Segment, Transposed};
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
    /// The end of the keys that are far from every row.
    pub(super) far_from_all: usize,
    /// The end of those that are far from any row.
    pub(super) far_from_any: usize,
    /// Columns of the logits.
    pub(super) width: usize,
    /// The distance between rows of logits: a multiple of [`LANES`], not below the width.
    pub(super) stride: usize,
}

impl Block {
    /// The keys of a segment that belong to a side.
    pub(super) fn of_side(&self, segment: &Segment, side: Side) -> Segment {
        segment.within(match side {
            Side::Near => self.far_from_all..usize::MAX,
            Side::Far => 0..self.far_from_all,
            Side::Mixed => self.far_from_all..self.far_from_any,
        })
    }
}

/// Which keys of a block: those after the ones far from every row are read with the near q and k, those far from
/// any row with the far ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Near to some row.
    Near,
    /// Far from every row.
    Far,
    /// Far from some rows and near to others: fewer than there are rows. They are among the near ones as well.
    Mixed,
}

/// Scores of up to [`ROWS`] rows and keys, in rows of [`ROWS`].
pub(super) type Mixed = [f32; ROWS * ROWS];

/// The keys of a side in one segment of a block, and what their scores are computed from.
pub(super) struct Pairs<'a> {
    pub(super) segment: Segment,
    /// Whether the segment is the block's second one.
    pub(super) second: bool,
    /// `[rows, head_dim]`.
    pub(super) q: Matrix<'a>,
    /// `[len, head_dim]`.
    pub(super) k: Matrix<'a>,
}

/// The q and k of far pairs.
struct FarViews {
    q: View<4>,
    k: View<4>,
    near: usize,
}

/// What blocks are computed from.
pub(super) struct Operands<'a> {
    pub(super) shape: Shape,
    q: View<4>,
    k: View<4>,
    v: View<4>,
    far: Option<FarViews>,
    pub(super) bias: BiasValues<'a>,
    pub(super) scale: f32,
    query_scale: Option<(Cow<'a, [f32]>, bool)>,
    window: Option<usize>,
    sinks: usize,
    offset: usize,
}

impl<'a> Operands<'a> {
    pub(super) fn new(call: &'a Call) -> Self {
        Self {
            shape: call.shape,
            q: View::new(&call.q),
            k: View::new(&call.k),
            v: View::new(&call.v),
            far: call.far.as_ref().map(|far| FarViews {
                q: View::new(&far.q),
                k: View::new(&far.k),
                near: far.near,
            }),
            bias: BiasValues::new(&call.bias),
            scale: call.scale,
            query_scale: call
                .query_scale
                .as_ref()
                .map(|scale| (values(scale), scale.layout().shape()[0] == 1)),
            window: call.window,
            sinks: call.sinks,
            offset: call.offset,
        }
    }

    /// The block of up to [`ROWS`] query rows from row `first`.
    pub(super) fn block(&self, batch: usize, head: usize, first: usize) -> Block {
        self.span(batch, head, first, ROWS.min(self.shape.queries - first))
    }

    /// All query rows of a head as one block that sees every key up to the last one seen.
    pub(super) fn all_rows(&self, batch: usize, head: usize) -> Block {
        let end = self.shape.keys.min(self.offset + self.shape.queries);
        let segments = [Segment { start: 0, end, at: 0 }, Segment::default()];
        self.block_of(batch, head, 0..self.shape.queries, segments)
    }

    /// `rows` query rows from row `first`, as one block.
    pub(super) fn span(&self, batch: usize, head: usize, first: usize, rows: usize) -> Block {
        let end = self.shape.keys.min(self.offset + first + rows);
        let start = self.nearest(self.offset + first).min(end);
        let segments = if start <= self.sinks {
            [Segment { start: 0, end, at: 0 }, Segment::default()]
        } else {
            let sinks = self.sinks;
            [Segment { start: 0, end: sinks, at: 0 }, Segment { start, end, at: sinks }]
        };
        self.block_of(batch, head, first..first + rows, segments)
    }

    fn block_of(&self, batch: usize, head: usize, rows: Range<usize>, segments: [Segment; 2]) -> Block {
        let width = segments[0].len() + segments[1].len();
        let far_end = |row: usize| self.far_end(self.offset + row);
        Block {
            batch,
            head,
            first: rows.start,
            rows: rows.len(),
            segments,
            far_from_all: far_end(rows.start),
            far_from_any: far_end(rows.end.saturating_sub(1).max(rows.start)),
            width,
            stride: width.next_multiple_of(LANES),
        }
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

    /// The end of the keys that are far from a position.
    fn far_end(&self, position: usize) -> usize {
        self.far.as_ref().map_or(0, |far| (position + 1).saturating_sub(far.near))
    }

    /// The first key inside the window of a position.
    fn nearest(&self, position: usize) -> usize {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window))
    }

    /// The keys of a segment that a row sees: the sinks among them, and those inside the window.
    pub(super) fn runs(&self, block: &Block, row: usize, segment: &Segment) -> [Range<usize>; 2] {
        let position = self.position(block, row);
        let end = segment.end.min(position + 1).max(segment.start);
        let sinks = self.sinks.clamp(segment.start, end);
        let near = self.nearest(position).clamp(sinks, end);
        [segment.start..sinks, near..end]
    }

    /// The column after the last one that a row sees.
    pub(super) fn row_end(&self, block: &Block, row: usize) -> usize {
        let position = self.position(block, row);
        let last = block.segments[usize::from(block.segments[1].len() > 0)];
        last.at + last.end.min(position + 1).saturating_sub(last.start)
    }

    /// The factor of a row's q·k besides the scale, if there is one.
    pub(super) fn row_factor(&self, block: &Block, row: usize) -> Option<f32> {
        let (values, shared) = self.query_scale.as_ref()?;
        let first = if *shared { 0 } else { block.batch * self.shape.queries };
        Some(values[first + block.first + row])
    }

    /// The q and k of a side; none where there is no far one.
    fn side(&self, side: Side) -> Option<[&View<4>; 2]> {
        match side {
            Side::Near => Some([&self.q, &self.k]),
            Side::Far | Side::Mixed => self.far.as_ref().map(|far| [&far.q, &far.k]),
        }
    }

    /// The pairs of a side, for each segment of the block that has any.
    pub(super) fn pairs(&self, block: &Block, side: Side) -> impl Iterator<Item = Pairs<'_>> {
        let (block, dim) = (*block, self.shape.head_dim);
        let segments = block.segments.map(|segment| block.of_side(&segment, side));
        let seen = segments.into_iter().zip([false, true]).filter(|(segment, _)| segment.len() > 0);
        seen.filter_map(move |(segment, second)| {
            let [q, k] = self.side(side)?;
            let (q, k) = (Self::rows_of(q, &block, dim), self.of_key_head(k, &block, &segment, dim));
            Some(Pairs { segment, second, q, k })
        })
    }

    /// Of mixed keys, how many are far from a row: the first ones.
    pub(super) fn far_columns(&self, block: &Block, row: usize, mixed: &Segment) -> usize {
        self.far_end(self.position(block, row)).clamp(mixed.start, mixed.end) - mixed.start
    }

    /// The values of a segment, `[len, value_dim]`.
    pub(super) fn value_matrix(&self, block: &Block, segment: &Segment) -> Matrix<'_> {
        self.of_key_head(&self.v, block, segment, self.shape.value_dim)
    }

    /// Fills `out` with the transpose of the keys that a block sees.
    pub(super) fn transpose_keys(&self, block: &Block, out: &mut Keys) {
        let dim = self.shape.head_dim;
        let near = block.segments.map(|segment| block.of_side(&segment, Side::Near));
        out.near.fill(near, dim, |segment| self.of_key_head(&self.k, block, segment, dim));
        if let Some(far) = &self.far {
            let segments = block.segments.map(|segment| segment.within(0..block.far_from_any));
            out.far.fill(segments, dim, |segment| self.of_key_head(&far.k, block, segment, dim));
        }
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
    pub(super) fn logits(&self, block: &Block, keys: &Keys, logits: &mut [f32]) {
        for (side, keys) in [(Side::Near, &keys.near), (Side::Far, &keys.far)] {
            for Pairs { segment, q, .. } in self.pairs(block, side) {
                let keys = keys.of(&segment);
                matmul(&mut logits[segment.at..], block.stride, false, self.scale, q, keys);
            }
        }
        for Pairs { segment, q, .. } in self.pairs(block, Side::Mixed) {
            let mut own: Mixed = [0.0; ROWS * ROWS];
            matmul(&mut own, ROWS, false, self.scale, q, keys.far.of(&segment));
            for (row, own) in own.chunks(ROWS).take(block.rows).enumerate() {
                let far = self.far_columns(block, row, &segment);
                logits[row * block.stride + segment.at..][..far].copy_from_slice(&own[..far]);
            }
        }
        add_bias(self, block, logits);
        for (row, logits) in logits.chunks_mut(block.stride).take(block.rows).enumerate() {
            for segment in &block.segments {
                let [sinks, near] = self.runs(block, row, segment);
                logits[segment.columns(&(sinks.end..near.start))].fill(f32::NEG_INFINITY);
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
