//! The logits of one block of queries: which keys it sees, and what is added to them.

use super::{Attention, Bias, Shape};
use crate::lanes::{LANES, vectorised};
use crate::product::{Matrix, product};
use crate::tape::{Input, View, values};
use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use std::borrow::Cow;
use std::ops::Range;

/// Query rows per block: enough to keep the matrix products busy, few enough that little of a causal
/// block is wasted and that its logits stay in the cache.
pub(super) const ROWS: usize = 32;

/// One call of attention: its tensors and settings.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) shape: Shape,
    pub(super) q: FlexTensor,
    pub(super) k: FlexTensor,
    pub(super) v: FlexTensor,
    pub(super) bias: BiasTensors,
    query_scale: Option<FlexTensor>,
    pub(super) scale: f32,
    window: Option<usize>,
    sinks: usize,
    offset: usize,
}

/// The tensors of a [`Bias`].
#[derive(Clone, Debug)]
pub(super) enum BiasTensors {
    None,
    ByDistance(FlexTensor),
    Slopes(FlexTensor),
    Pair(FlexTensor, FlexTensor),
    Block(FlexTensor),
}

impl Call {
    /// Takes apart q, k, v and the options; the inputs are q, k, v and the tensors of the bias.
    pub(super) fn new(qkv: [Tensor<4>; 3], options: &Attention, shape: Shape) -> (Self, Vec<Input>) {
        let mut inputs: Vec<Input> = qkv.into_iter().map(Input::new).collect();
        match &options.bias {
            Bias::None => {}
            Bias::ByDistance(table) => inputs.push(Input::new(table.clone())),
            Bias::Slopes(slopes) => inputs.push(Input::new(slopes.clone())),
            Bias::Pair { query, key } => {
                inputs.extend([Input::new(query.clone()), Input::new(key.clone())]);
            }
            Bias::Block(block) => inputs.push(Input::new(block.clone())),
        }
        let data = |index: usize| inputs[index].data().clone();
        let call = Self {
            shape,
            q: data(0),
            k: data(1),
            v: data(2),
            bias: match &options.bias {
                Bias::None => BiasTensors::None,
                Bias::ByDistance(_) => BiasTensors::ByDistance(data(3)),
                Bias::Slopes(_) => BiasTensors::Slopes(data(3)),
                Bias::Pair { .. } => BiasTensors::Pair(data(3), data(4)),
                Bias::Block(_) => BiasTensors::Block(data(3)),
            },
            query_scale: options.query_scale.clone().map(|scale| Input::new(scale).data().clone()),
            scale: options.scale as f32,
            window: options.window,
            sinks: options.sinks,
            offset: options.query_offset,
        };
        (call, inputs)
    }
}

/// The values of a bias, row-major.
pub(super) enum BiasValues<'a> {
    None,
    /// Each head's table turned around, so that it runs with the keys of a row: `[heads, distances]`.
    ByDistance {
        reversed: Vec<f32>,
        distances: usize,
    },
    Slopes(Cow<'a, [f32]>),
    Pair {
        query: Cow<'a, [f32]>,
        key: Cow<'a, [f32]>,
    },
    Block {
        values: Cow<'a, [f32]>,
        shared: bool,
    },
}

impl<'a> BiasValues<'a> {
    fn new(bias: &'a BiasTensors) -> Self {
        match bias {
            BiasTensors::None => Self::None,
            BiasTensors::ByDistance(table) => {
                let distances = table.layout().shape()[1];
                Self::ByDistance { reversed: reversed_rows(&values(table), distances), distances }
            }
            BiasTensors::Slopes(slopes) => Self::Slopes(values(slopes)),
            BiasTensors::Pair(query, key) => Self::Pair { query: values(query), key: values(key) },
            BiasTensors::Block(block) => {
                Self::Block { values: values(block), shared: block.layout().shape()[0] == 1 }
            }
        }
    }
}

/// Each row of `width` values turned around.
pub(super) fn reversed_rows(values: &[f32], width: usize) -> Vec<f32> {
    values.chunks(width.max(1)).flat_map(|row| row.iter().rev().copied()).collect()
}

/// A stretch of keys `start..end`, from column `at` of the logits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segment {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) at: usize,
}

impl Segment {
    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    /// The columns of the keys `run`.
    pub(super) fn columns(&self, run: &Range<usize>) -> Range<usize> {
        self.at + run.start - self.start..self.at + run.end - self.start
    }
}

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

/// What blocks are computed from.
pub(super) struct Operands<'a> {
    pub(super) shape: Shape,
    pub(super) q: View<4>,
    pub(super) k: View<4>,
    pub(super) v: View<4>,
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
        let rows = ROWS.min(self.shape.queries - first);
        let end = self.shape.keys.min(self.offset + first + rows);
        let start = self.nearest(self.offset + first).min(end);
        let segments = if start <= self.sinks {
            [Segment { start: 0, end, at: 0 }, Segment::default()]
        } else {
            let sinks = self.sinks;
            [Segment { start: 0, end: sinks, at: 0 }, Segment { start, end, at: sinks }]
        };
        let width = segments[0].len() + segments[1].len();
        Block { batch, head, first, rows, segments, width, stride: width.next_multiple_of(LANES) }
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

    /// The keys of a segment, `[len, head_dim]`.
    pub(super) fn key_matrix(&self, block: &Block, segment: &Segment) -> Matrix<'_> {
        self.of_key_head(&self.k, block, segment, self.shape.head_dim)
    }

    /// The values of a segment, `[len, value_dim]`.
    pub(super) fn value_matrix(&self, block: &Block, segment: &Segment) -> Matrix<'_> {
        self.of_key_head(&self.v, block, segment, self.shape.value_dim)
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
    pub(super) fn logits(&self, block: &Block, logits: &mut [f32]) {
        let q = Self::rows_of(&self.q, block, self.shape.head_dim);
        for segment in block.segments.iter().filter(|segment| segment.len() > 0) {
            let keys = self.key_matrix(block, segment).transposed();
            product(&mut logits[segment.at..], block.stride, false, self.scale, q, keys);
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
                            let nearest = position - run.start.min(position);
                            for (j, x) in (0_u32..).zip(logits) {
                                *x = *x * factor - slope * (nearest as f32 - j as f32);
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
