//! The gradient of one key head's rows: the probabilities are computed again, block by block.

use super::bias::bias_gradient;
use super::block::{Block, Keys, Operands};
use super::call::Call;
use super::counted::{self, Counts};
use super::keys::Transposed;
use super::logits::fill_logits;
use super::normaliser::Row;
use super::pieces::ROWS;
use super::relative::{self, KeyTables, Scratch};
use super::sums::{OwnRows, Sums};
use super::{MOST_RANGES, Shape};
use crate::machine::autodiff::{View, tensor_of, values};
use crate::machine::buffers::zeros;
use crate::machine::matmul::Matrix;
use crate::machine::simd::LANES;
use burn_flex::FlexTensor;
use std::borrow::Cow;
use std::ops::Range;

/// What the backward pass knows of the query rows.
pub(super) struct Rows<'a> {
    /// The logs of the sums of exp(logits), `[batch, heads, queries]`.
    pub(super) log_sums: Cow<'a, [f32]>,
    /// Their gradient, if they have one.
    pub(super) gradient: Option<Cow<'a, [f32]>>,
    /// The gradient of the output, `[batch, heads, queries, value_dim]`.
    pub(super) output: View<4>,
}

impl Rows<'_> {
    /// Calls with the rows of a call whose output and log sums have these gradients.
    pub(super) fn with<T>(
        call: &Call,
        log_sums: &FlexTensor,
        of_output: Option<FlexTensor>,
        of_log_sums: Option<FlexTensor>,
        compute: impl FnOnce(&Rows<'_>) -> T,
    ) -> T {
        let Shape { batch, heads, queries, value_dim, .. } = call.shape;
        let output = of_output.unwrap_or_else(|| {
            tensor_of(zeros(batch * heads * queries * value_dim), [batch, heads, queries, value_dim])
        });
        let gradient = of_log_sums.as_ref().map(values);
        compute(&Rows { log_sums: values(log_sums), gradient, output: View::new(&output) })
    }

    /// The gradient of the log sums of a block's rows, if the log sums have one.
    fn of_log_sums(&self, operands: &Operands<'_>, block: &Block) -> Option<&[f32]> {
        self.gradient.as_ref().map(|gradient| &gradient[first_row(operands, block)..][..block.rows])
    }
}

/// The buffers of one thread, for logits of up to so many numbers.
pub(super) struct Buffers {
    /// Empty unless the normaliser reads them.
    logits: Vec<f32>,
    probabilities: Vec<f32>,
    gradient: Vec<f32>,
    tables: KeyTables,
    scratch: Scratch,
    counts: Counts,
}

impl Buffers {
    pub(super) fn new(operands: &Operands<'_>) -> Self {
        let logits = operands.scratch();
        Self {
            logits: vec![0.0; if operands.normaliser.reads_logits() { logits } else { 0 }],
            probabilities: vec![0.0; logits],
            gradient: vec![0.0; logits],
            tables: KeyTables::default(),
            scratch: Scratch::default(),
            counts: Counts::default(),
        }
    }
}

/// The keys and values of a key head with the channels as rows, which its pieces share.
#[derive(Default)]
pub(super) struct Turned {
    keys: Keys,
    values: Transposed,
}

/// One key head of one batch row.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) operands: &'a Operands<'a>,
    pub(super) rows: &'a Rows<'a>,
    pub(super) batch: usize,
    /// The key head.
    pub(super) of_keys: usize,
    pub(super) bias_wanted: bool,
}

impl Head<'_> {
    /// Query heads of the key head.
    fn group(&self) -> usize {
        self.operands.shape.heads / self.operands.shape.key_heads
    }

    /// A range of rows of a query head of the group, as one block.
    pub(super) fn span(&self, member: usize, rows: &Range<usize>) -> Block {
        self.operands.span(self.batch, self.of_keys * self.group() + member, rows.start, rows.len())
    }

    /// Fills what its pieces share.
    pub(super) fn turn(&self, turned: &mut Turned) {
        let all = self.span(0, &(0..self.operands.shape.queries));
        self.operands.transpose_keys(&all, &mut turned.keys);
        self.operands.transpose_values(&all, &mut turned.values);
    }

    /// The gradients of a piece of the rows: sets those of `own`, which begins with the piece, and adds to `sums`.
    pub(super) fn run(
        &self,
        piece: &Range<usize>,
        turned: &Turned,
        own: &mut OwnRows<'_>,
        sums: &mut Sums<'_>,
        buffers: &mut Buffers,
    ) {
        let operands = self.operands;
        let all = self.span(0, piece);
        if all.width == 0 {
            return;
        }
        for member in 0..self.group() {
            let all = self.span(member, piece);
            buffers.tables.begin(operands, &all);
            for first in piece.clone().step_by(ROWS) {
                let block = operands.block(self.batch, all.head, first);
                if block.width > 0 {
                    self.block(&block, (member, first - piece.start), turned, own, sums, buffers);
                }
            }
            let keys = all.all_seen().start;
            let (mut part, of_keys) = sums.relative_and_k(keys);
            part.add_queries(operands, &all, &buffers.tables, of_keys);
        }
    }

    /// The gradients of a block, whose first row is `row` of a query head of the group.
    fn block(
        &self,
        block: &Block,
        (member, row): (usize, usize),
        turned: &Turned,
        own: &mut OwnRows<'_>,
        sums: &mut Sums<'_>,
        buffers: &mut Buffers,
    ) {
        let Self { operands, rows, .. } = *self;
        let Turned { keys, values } = turned;
        let Buffers { logits, probabilities, gradient, tables, scratch, counts } = buffers;
        fill_logits(operands, block, keys, &tables.products, scratch, counts, probabilities);
        let kept = &rows.log_sums[first_row(operands, block)..][..block.rows];
        if operands.normaliser.reads_logits() {
            logits.copy_from_slice(probabilities);
        }
        normalise(operands, block, kept, probabilities);
        let output = Operands::rows_of(&rows.output, block, operands.shape.value_dim);
        sums.relative().add_values(operands, block, probabilities, output, scratch);
        through_values(operands, block, rows, values, scratch, gradient);
        through_weights(operands, block, rows, [&*logits, &*probabilities], gradient);
        to_values(operands, block, rows, probabilities, sums);
        if self.bias_wanted {
            let [first, second] = sums.bias(member);
            let first = own.bias(member, row).unwrap_or(first);
            let of_log_sums = rows.of_log_sums(operands, block);
            bias_gradient(operands, block, of_log_sums, probabilities, gradient, [first, second]);
        }
        tables.collect(operands, block, gradient);
        scale_rows(operands, block, gradient);
        counted::through_counts(operands, block, counts, gradient);
        through_product(operands, block, gradient, (member, row), own, sums);
        let queries = own.q(0, member, row);
        sums.relative().add_keys(operands, block, gradient, scratch, queries);
        counted::through_products(operands, block, counts, queries, sums.counted());
    }
}

/// Where the rows of a block begin among those of all heads.
fn first_row(operands: &Operands<'_>, block: &Block) -> usize {
    (block.batch * operands.shape.heads + block.head) * operands.shape.queries + block.first
}

/// The weights of the logits again, row by row.
fn normalise(operands: &Operands<'_>, block: &Block, kept: &[f32], logits: &mut [f32]) {
    for (row, kept) in kept.iter().enumerate() {
        let logits = &mut logits[row * block.stride..][..block.stride];
        let (seen, rest) = logits.split_at_mut(operands.row_end(block, row).next_multiple_of(LANES));
        if !seen.is_empty() {
            operands.normaliser.weigh_again(seen, operands.place(block, row), *kept);
        }
        rest.fill(0.0);
    }
}

/// From the gradient of the output to that of the weights.
fn through_values(
    operands: &Operands<'_>,
    block: &Block,
    rows: &Rows<'_>,
    values: &Transposed,
    scratch: &mut Scratch,
    gradient: &mut [f32],
) {
    let output = Operands::rows_of(&rows.output, block, operands.shape.value_dim);
    for segment in block.seen_once() {
        operands.multiply(&mut gradient[segment.at..], block.stride, false, 1.0, output, values.of(&segment));
    }
    block.scatter(gradient);
    relative::through_values(operands, block, output, scratch, gradient);
}

/// From the gradient of the weights to that of the logits.
fn through_weights(
    operands: &Operands<'_>,
    block: &Block,
    rows: &Rows<'_>,
    [logits, weights]: [&[f32]; 2],
    gradient: &mut [f32],
) {
    let kept = &rows.log_sums[first_row(operands, block)..];
    let of_kept = rows.of_log_sums(operands, block);
    for row in 0..block.rows {
        let start = row * block.stride;
        let end = operands.row_end(block, row);
        let (gradient, rest) = gradient[start..][..block.stride].split_at_mut(end);
        if end > 0 {
            let row = Row {
                logits: logits.get(start..start + end).unwrap_or_default(),
                weights: &weights[start..][..end],
                kept: kept[row],
                of_kept: of_kept.map_or(0.0, |gradient| gradient[row]),
                place: operands.place(block, row),
            };
            operands.normaliser.gradient(row, gradient);
        }
        rest.fill(0.0);
    }
}

/// Adds to the gradient of the values.
fn to_values(
    operands: &Operands<'_>,
    block: &Block,
    rows: &Rows<'_>,
    probabilities: &mut [f32],
    sums: &mut Sums<'_>,
) {
    let value_dim = operands.shape.value_dim;
    let output = Operands::rows_of(&rows.output, block, value_dim);
    block.gather(probabilities);
    for segment in block.seen_once() {
        let p = Matrix::new(&probabilities[segment.at..], block.rows, segment.len(), block.stride);
        operands.multiply(sums.v(segment.start), value_dim, true, 1.0, p.transposed(), output);
    }
}

/// From the gradient of the logits to that of q·k: multiplies rows by their factors, if they have any.
fn scale_rows(operands: &Operands<'_>, block: &Block, gradient: &mut [f32]) {
    for row in 0..block.rows {
        if let Some(factor) = operands.row_factor(block, row) {
            for x in &mut gradient[row * block.stride..][..block.width] {
                *x *= factor;
            }
        }
    }
}

/// From the gradient of the scores: sets that of the block's queries, from `row` of a query head on, and adds to that of
/// the keys.
fn through_product(
    operands: &Operands<'_>,
    block: &Block,
    gradient: &[f32],
    (member, row): (usize, usize),
    own: &mut OwnRows<'_>,
    sums: &mut Sums<'_>,
) {
    let dim = operands.shape.head_dim;
    let mut begun = [false; MOST_RANGES];
    for segment in block.seen() {
        let range = segment.range;
        let add = std::mem::replace(&mut begun[range], true);
        let d = Matrix::new(&gradient[segment.at..], block.rows, segment.len(), block.stride);
        let queries = own.q(range, member, row);
        operands.multiply(queries, dim, add, operands.scale, d, operands.key_matrix(block, segment));
        let queries = operands.query_matrix(block, segment);
        operands.multiply(sums.k(range, segment.start), dim, true, operands.scale, d.transposed(), queries);
    }
}
