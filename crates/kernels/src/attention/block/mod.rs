//! One block of queries: which keys it sees, and the numbers that it is computed from.

pub(super) mod keys;
pub(super) mod pieces;

use super::normaliser::{Normaliser, RowPosition};
use super::spec::{MOST_RANGES, QkRange, Shape, Sight};
use crate::machine::autodiff::View;
use crate::machine::bf16::matmul_rounded;
use crate::machine::matmul::{Matrix, matmul};
use crate::machine::simd::LANES;
use keys::{Segment, Transposed};
use pieces::ROWS;
use std::ops::Range;
use std::sync::Arc;

/// The transposed keys of each range of distances.
pub(super) type Keys = [Transposed; MOST_RANGES];

/// A block of query rows of one head, and the keys that any of them sees.
///
/// The columns of its logits are the keys of each range of distances, one range after the other. On a border that runs
/// through the block some keys have a column in both ranges; each row sees them in one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) batch: usize,
    pub(super) head: usize,
    pub(super) first: usize,
    pub(super) rows: usize,
    /// For each range the sinks and the rest, or (without sinks outside the window) everything and nothing.
    segments: [[Segment; 2]; MOST_RANGES],
    /// Columns of the logits.
    pub(super) width: usize,
    /// The distance between rows of logits: a multiple of [`LANES`], not below the width.
    pub(super) stride: usize,
}

impl Block {
    /// `stretches` are the keys of the segments.
    fn new(
        batch: usize,
        head: usize,
        rows: Range<usize>,
        stretches: impl Iterator<Item = [Range<usize>; 2]>,
    ) -> Self {
        let mut segments = [[Segment::default(); 2]; MOST_RANGES];
        let mut width = 0;
        for ((range, segments), stretches) in segments.iter_mut().enumerate().zip(stretches) {
            for (segment, Range { start, end }) in segments.iter_mut().zip(stretches) {
                *segment = Segment { range, start, end, at: width };
                width += segment.len();
            }
        }
        let stride = width.next_multiple_of(LANES);
        Self { batch, head, first: rows.start, rows: rows.len(), segments, width, stride }
    }

    /// The same rows with those of the keys that lie in a range.
    pub(super) fn within(&self, keys: &Range<usize>) -> Self {
        let clip = |segment: &Segment| {
            let start = segment.start.max(keys.start).min(segment.end);
            start..segment.end.min(keys.end).max(start)
        };
        let stretches = self.segments.iter().map(|segments| segments.each_ref().map(clip));
        Self::new(self.batch, self.head, self.first..self.first + self.rows, stretches)
    }

    /// The segments that hold keys; none where the block sees nothing.
    pub(super) fn seen(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments.as_flattened().iter().filter(|segment| segment.len() > 0)
    }

    /// The keys from the first to the last that it sees.
    pub(super) fn all_seen(&self) -> Segment {
        let start = self.seen().map(|segment| segment.start).min().unwrap_or(0);
        let end = self.seen().map(|segment| segment.end).max().unwrap_or(0);
        Segment { start, end, ..Segment::default() }
    }

    /// The segments with each key once, in the last of the ranges that have a column for it.
    pub(super) fn seen_once(&self) -> impl Iterator<Item = Segment> {
        let [_, last] = &self.segments;
        let first = last.iter().filter(|segment| segment.len() > 0).map(|segment| segment.start).min();
        let end = move |range: usize| first.filter(|_| range == 0).unwrap_or(usize::MAX);
        self.seen()
            .map(move |segment| Segment { end: segment.end.min(end(segment.range)), ..*segment })
            .filter(|segment| segment.start < segment.end)
    }

    /// The columns of keys that have one in both ranges: that in the first and that in the last.
    fn seen_twice(&self) -> impl Iterator<Item = [Range<usize>; 2]> {
        let [first, last] = &self.segments;
        first.iter().flat_map(move |a| {
            last.iter().filter_map(move |b| {
                let keys = a.start.max(b.start)..a.end.min(b.end);
                (!keys.is_empty()).then(|| [a.columns(&keys), b.columns(&keys)])
            })
        })
    }

    /// Where a key has two columns, adds what stands in the first to the last. A row sees the key in one of them.
    pub(super) fn gather(&self, x: &mut [f32]) {
        for [from, to] in self.seen_twice() {
            for row in x.chunks_mut(self.stride).take(self.rows) {
                let (from, to) = (from.clone(), to.clone());
                let (before, rest) = row.split_at_mut(to.start);
                for (to, from) in rest[..to.len()].iter_mut().zip(&before[from]) {
                    *to += from;
                }
            }
        }
    }

    /// Where a key has two columns, copies what stands in the last to the first.
    pub(super) fn scatter(&self, x: &mut [f32]) {
        for [to, from] in self.seen_twice() {
            for row in x.chunks_mut(self.stride).take(self.rows) {
                row.copy_within(from.clone(), to.start);
            }
        }
    }
}

/// The keys that follow one another and that a row of a block sees.
pub(super) struct Run {
    pub(super) row: usize,
    /// Where their numbers lie in those of the block.
    pub(super) columns: Range<usize>,
    pub(super) first: usize,
    /// The distance of that one.
    pub(super) farthest: usize,
}

/// A block of queries and what it is computed from.
#[derive(Clone, Copy)]
pub(super) struct Tile<'a> {
    pub(super) operands: &'a Operands,
    pub(super) block: &'a Block,
}

impl<'a> Tile<'a> {
    /// What a row sees.
    pub(super) fn runs_of(self, row: usize) -> impl Iterator<Item = Run> + 'a {
        let Self { operands, block } = self;
        let position = operands.position(block, row);
        block.seen().flat_map(move |segment| {
            let run = move |run: Range<usize>| {
                let Range { start, end } = segment.columns(&run);
                let at = row * block.stride;
                let columns = at + start..at + end;
                Run { row, columns, first: run.start, farthest: position - run.start }
            };
            operands.runs(block, row, segment).into_iter().filter(|run| !run.is_empty()).map(run)
        })
    }

    /// What the rows see, row after row.
    pub(super) fn runs(self) -> impl Iterator<Item = Run> + 'a {
        (0..self.block.rows).flat_map(move |row| self.runs_of(row))
    }

    /// Where the rows of the block begin among those of all heads.
    pub(super) fn first_row(self) -> usize {
        let Shape { heads, queries, .. } = self.operands.shape;
        (self.block.batch * heads + self.block.head) * queries + self.block.first
    }

    /// The position of the first row among the keys.
    pub(super) fn position(self) -> usize {
        self.operands.position(self.block, 0)
    }

    /// The queries of the first range, `[rows, head_dim]`.
    pub(super) fn queries(self) -> Matrix<'a> {
        self.operands.query_matrix(self.block, &Segment::default())
    }
}

/// What blocks are computed from.
pub(super) struct Operands {
    pub(super) shape: Shape,
    pub(super) ranges: Vec<QkRange<View<4>>>,
    pub(super) v: View<4>,
    pub(super) normaliser: Arc<dyn Normaliser>,
    pub(super) scale: f32,
    /// `[1 or batch, queries]`.
    pub(super) query_scale: Option<Vec<f32>>,
    pub(super) sight: Sight,
    /// Whether queries read the keys between sinks and window too.
    pub(super) reads_all_keys: bool,
    /// Whether the factors of products are rounded to bf16: in that precision, where the processor has dot products of it.
    pub(super) rounded: bool,
}

impl Operands {
    /// `out = factor * left * right`, or `out += ..` with `add`, for rows of out that lie `stride` apart: of factors rounded
    /// to bf16 where the call is.
    pub(super) fn multiply(
        &self,
        out: &mut [f32],
        stride: usize,
        add: bool,
        factor: f32,
        left: Matrix<'_>,
        right: Matrix<'_>,
    ) {
        let product = if self.rounded { matmul_rounded } else { matmul };
        product(out, stride, add, factor, left, right);
    }

    /// The block of up to [`ROWS`] query rows from row `first`.
    pub(super) fn block(&self, batch: usize, head: usize, first: usize) -> Block {
        self.span(batch, head, first, ROWS.min(self.shape.queries - first))
    }

    /// The columns of the logits of each block of rows.
    pub(super) fn widths(&self) -> Vec<usize> {
        (0..self.shape.queries).step_by(ROWS).map(|first| self.block(0, 0, first).width).collect()
    }

    /// All query rows of a head as one block that sees every key up to the last one seen.
    pub(super) fn all_rows(&self, batch: usize, head: usize) -> Block {
        let rows = 0..self.shape.queries;
        let stretches = self.ranges.iter().map(|range| [self.stretch(range, &rows), 0..0]);
        Block::new(batch, head, rows.clone(), stretches)
    }

    /// `rows` query rows from row `first`, as one block.
    pub(super) fn span(&self, batch: usize, head: usize, first: usize, rows: usize) -> Block {
        let (rows, sinks) = (first..first + rows, self.sight.sinks);
        let stretches = self.ranges.iter().map(|range| {
            let Range { start: begin, end } = self.stretch(range, &rows);
            let start = self.nearest(self.sight.offset + first).clamp(begin, end);
            if start <= sinks || sinks > 0 && self.reads_all_keys {
                [begin..end, 0..0]
            } else {
                [begin.min(sinks)..sinks, start..end]
            }
        });
        Block::new(batch, head, rows.clone(), stretches)
    }

    /// The keys from the first to the last that any of the rows has in a range, whatever the window.
    ///
    /// On a border it goes on to the next multiple of [`LANES`], over keys that no row sees in this range: products of
    /// such widths need no copy of their operands.
    fn stretch(&self, range: &QkRange<View<4>>, rows: &Range<usize>) -> Range<usize> {
        let [first, last] =
            [rows.start, rows.end.saturating_sub(1).max(rows.start)].map(|row| self.sight.offset + row);
        let begin = range.keys(first).start / LANES * LANES;
        let end = range.keys(last).end.next_multiple_of(LANES).min(last + 1).min(self.shape.keys);
        begin.min(end)..end
    }

    /// The most that [`Block::stride`] can be times the rows: the size of a block's logits.
    pub(super) fn scratch(&self) -> usize {
        let last = self.shape.queries.saturating_sub(ROWS);
        (0..=last).step_by(ROWS).chain([last]).map(|first| self.block(0, 0, first).stride).max().unwrap_or(0)
            * ROWS
    }

    /// The position of a row among the keys.
    pub(super) fn position(&self, block: &Block, row: usize) -> usize {
        self.sight.offset + block.first + row
    }

    /// The first key inside the window of a position.
    fn nearest(&self, position: usize) -> usize {
        self.sight.window.map_or(0, |window| (position + 1).saturating_sub(window))
    }

    /// The keys of a segment that a row sees: the sinks among them, and those inside the window.
    pub(super) fn runs(&self, block: &Block, row: usize, segment: &Segment) -> [Range<usize>; 2] {
        let position = self.position(block, row);
        let keys = self.ranges[segment.range].keys(position);
        let end = segment.end.min(keys.end).max(segment.start);
        let start = keys.start.clamp(segment.start, end);
        let sinks = self.sight.sinks.clamp(start, end);
        let near = self.nearest(position).clamp(sinks, end);
        [start..sinks, near..end]
    }

    /// The column after the last one that a row sees.
    pub(super) fn row_end(&self, block: &Block, row: usize) -> usize {
        let Some(last) = block.seen().next_back() else { return 0 };
        let end = self.ranges[last.range].keys(self.position(block, row)).end;
        last.at + last.end.min(end).saturating_sub(last.start)
    }

    /// The same for a normaliser: where the row stands, whose own key is the last one that it sees.
    pub(super) fn place(&self, block: &Block, row: usize) -> RowPosition {
        let own = self.row_end(block, row).saturating_sub(1);
        RowPosition { query: self.position(block, row), own }
    }

    /// The factor of a row's q·k besides the scale, if there is one.
    pub(super) fn row_factor(&self, block: &Block, row: usize) -> Option<f32> {
        let (values, queries) = (self.query_scale.as_ref()?, self.shape.queries);
        let first = if values.len() == queries { 0 } else { block.batch * queries };
        Some(values[first + block.first + row])
    }

    /// The queries of a block that read a segment, `[rows, head_dim]`.
    pub(super) fn query_matrix(&self, block: &Block, segment: &Segment) -> Matrix<'_> {
        Self::rows_of(&self.ranges[segment.range].q, block, self.shape.head_dim)
    }

    /// The keys of a segment, `[len, head_dim]`.
    pub(super) fn key_matrix(&self, block: &Block, segment: &Segment) -> Matrix<'_> {
        self.of_key_head(&self.ranges[segment.range].k, block, segment, self.shape.head_dim)
    }

    /// The values of a segment, `[len, value_dim]`.
    pub(super) fn value_matrix(&self, block: &Block, segment: &Segment) -> Matrix<'_> {
        self.of_key_head(&self.v, block, segment, self.shape.value_dim)
    }

    /// Fills `out` with the transpose of the keys that a block sees.
    pub(super) fn transpose_keys(&self, block: &Block, out: &mut Keys) {
        for (out, segments) in out.iter_mut().zip(block.segments).take(self.ranges.len()) {
            out.fill(segments, self.shape.head_dim, |segment| self.key_matrix(block, segment));
        }
    }

    /// Fills `out` with the transpose of the values from the first to the last that a block sees.
    pub(super) fn transpose_values(&self, block: &Block, out: &mut Transposed) {
        let segments = [block.all_seen(), Segment::default()];
        out.fill(segments, self.shape.value_dim, |segment| self.value_matrix(block, segment));
    }

    fn of_key_head<'b>(
        &self,
        view: &'b View<4>,
        block: &Block,
        segment: &Segment,
        width: usize,
    ) -> Matrix<'b> {
        let key_head = block.head / self.shape.group();
        view.head_rows(block.batch, key_head, segment.start, segment.len(), width)
    }

    /// The rows of the block, `[rows, width]`, of a view shaped `[batch, heads, queries, width]`.
    pub(super) fn rows_of<'b>(view: &'b View<4>, block: &Block, width: usize) -> Matrix<'b> {
        view.head_rows(block.batch, block.head, block.first, block.rows, width)
    }
}
