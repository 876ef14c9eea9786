//! The gradient of one key head's rows: the probabilities are computed again, block by block.

use super::call::Engine;
use super::sums::{OwnRows, Sums, Targets};
use crate::attention::block::keys::Transposed;
use crate::attention::block::pieces::ROWS;
use crate::attention::block::{Block, Keys, Operands, Tile};
use crate::attention::normaliser::Row;
use crate::attention::spec::{MOST_RANGES, Shape};
use crate::attention::terms::{KeyTable, OfLogits, Part, Room, TileTerm};
use crate::machine::autodiff::{View, tensor_of, values};
use crate::machine::buffers::zeros;
use crate::machine::matmul::Matrix;
use crate::machine::simd::LANES;
use burn_flex::FlexTensor;
use std::ops::Range;

/// What the backward pass knows of the query rows.
pub(super) struct Rows {
    /// The logs of the sums of exp(logits), `[batch, heads, queries]`.
    log_sums: Vec<f32>,
    /// Their gradient, if they have one.
    gradient: Option<Vec<f32>>,
    /// The gradient of the output, `[batch, heads, queries, value_dim]`.
    output: View<4>,
}

impl Rows {
    pub(super) fn new(
        operands: &Operands,
        log_sums: &FlexTensor,
        [of_output, of_log_sums]: [Option<FlexTensor>; 2],
    ) -> Self {
        let Shape { batch, heads, queries, value_dim, .. } = operands.shape;
        let output = of_output.unwrap_or_else(|| {
            tensor_of(zeros(batch * heads * queries * value_dim), [batch, heads, queries, value_dim])
        });
        let numbers = |tensor: &FlexTensor| values(tensor).into_owned();
        let gradient = of_log_sums.as_ref().map(numbers);
        Self { log_sums: numbers(log_sums), gradient, output: View::new(&output) }
    }

    /// The gradient of the log sums of a block's rows, if the log sums have one.
    fn of_log_sums(&self, tile: Tile<'_>) -> Option<&[f32]> {
        self.gradient.as_ref().map(|gradient| &gradient[tile.first_row()..][..tile.block.rows])
    }
}

/// The buffers of one thread, for logits of up to so many numbers.
pub(super) struct Buffers {
    /// Empty unless the normaliser reads them.
    logits: Vec<f32>,
    probabilities: Vec<f32>,
    gradient: Vec<f32>,
    tables: Vec<KeyTable>,
    rooms: Vec<Room>,
}

impl Buffers {
    pub(super) fn new(engine: &Engine<'_>) -> Self {
        let logits = engine.operands.scratch();
        Self {
            logits: vec![0.0; if engine.operands.normaliser.reads_logits() { logits } else { 0 }],
            probabilities: vec![0.0; logits],
            gradient: vec![0.0; logits],
            tables: Vec::new(),
            rooms: engine.rooms(),
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
    pub(super) engine: &'a Engine<'a>,
    /// [`Engine::parts`].
    pub(super) of_terms: &'a [(Range<usize>, Vec<Part>, bool)],
    pub(super) rows: &'a Rows,
    pub(super) batch: usize,
    /// The key head.
    pub(super) of_keys: usize,
}

impl Head<'_> {
    /// A range of rows of a query head of the group, as one block.
    pub(super) fn span(&self, member: usize, rows: &Range<usize>) -> Block {
        let operands = self.engine.operands;
        operands.span(self.batch, self.of_keys * operands.shape.group() + member, rows.start, rows.len())
    }

    /// Fills what its pieces share.
    pub(super) fn turn(&self, turned: &mut Turned) {
        let operands = self.engine.operands;
        let all = self.span(0, &(0..operands.shape.queries));
        operands.transpose_keys(&all, &mut turned.keys);
        operands.transpose_values(&all, &mut turned.values);
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
        let operands = self.engine.operands;
        if self.span(0, piece).width == 0 {
            return;
        }
        for member in 0..operands.shape.group() {
            let all = self.span(member, piece);
            self.engine.tables(&all, &mut buffers.tables);
            for first in piece.clone().step_by(ROWS) {
                let block = operands.block(self.batch, all.head, first);
                if block.width > 0 {
                    self.block(&block, (member, first - piece.start), turned, own, sums, buffers);
                }
            }
            let mut to = Targets::new(sums, own, (member, 0), all.all_seen().start);
            for (index, (term, (inputs, ..))) in self.terms() {
                let room = &mut buffers.rooms[index];
                term.to_keys(self.engine.tile(&all), room, to.keys, &mut to.parts[inputs.clone()]);
            }
        }
    }

    /// The terms that take part, each with its number.
    fn terms(&self) -> impl Iterator<Item = (usize, (&dyn TileTerm, &(Range<usize>, Vec<Part>, bool)))> {
        let terms = self.engine.terms.iter().map(|term| &**term);
        terms.zip(self.of_terms).enumerate().filter(|(_, (_, (.., takes_part)))| *takes_part)
    }

    /// The gradients of a block, whose first row is `row` of a query head of the group.
    fn block(
        &self,
        block: &Block,
        at: (usize, usize),
        turned: &Turned,
        own: &mut OwnRows<'_>,
        sums: &mut Sums<'_>,
        buffers: &mut Buffers,
    ) {
        let Self { engine, rows, .. } = *self;
        let (operands, tile, start) = (engine.operands, engine.tile(block), block.all_seen().start);
        let Turned { keys, values } = turned;
        let Buffers { logits, probabilities, gradient, tables, rooms } = buffers;
        engine.fill_logits(block, keys, tables, rooms, probabilities);
        let kept = &rows.log_sums[tile.first_row()..][..block.rows];
        if operands.normaliser.reads_logits() {
            logits.copy_from_slice(probabilities);
        }
        normalise(operands, block, kept, probabilities);
        let output = Operands::rows_of(&rows.output, block, operands.shape.value_dim);
        for segment in block.seen_once() {
            let gradient = &mut gradient[segment.at..];
            operands.multiply(gradient, block.stride, false, 1.0, output, values.of(&segment));
        }
        block.scatter(gradient);
        let mut to = Targets::new(sums, own, at, start);
        for (index, (term, (inputs, ..))) in self.terms() {
            let (room, parts) = (&mut rooms[index], &mut to.parts[inputs.clone()]);
            term.through_output(tile, room, probabilities, output, gradient, parts);
        }
        through_weights(tile, rows, [&*logits, &*probabilities], gradient);
        to_values(tile, output, probabilities, sums);
        let mut to = Targets::new(sums, own, at, start);
        let of = OfLogits { weights: probabilities, gradient, of_log_sums: rows.of_log_sums(tile) };
        for (index, (term, (inputs, ..))) in self.terms() {
            let parts = &mut to.parts[inputs.clone()];
            term.through_logits(tile, &tables[index], &mut rooms[index], &of, parts);
        }
        scale_rows(operands, block, gradient);
        for (index, (term, _)) in self.terms() {
            term.through_scores(tile, &mut rooms[index], gradient);
        }
        through_product(operands, block, gradient, at, own, sums);
        let mut to = Targets::new(sums, own, at, start);
        for (index, (term, (inputs, ..))) in self.terms() {
            let (room, parts) = (&mut rooms[index], &mut to.parts[inputs.clone()]);
            term.to_queries(tile, room, gradient, to.queries, parts);
        }
    }
}

/// The weights of the logits again, row by row.
fn normalise(operands: &Operands, block: &Block, kept: &[f32], logits: &mut [f32]) {
    for (row, kept) in kept.iter().enumerate() {
        let logits = &mut logits[row * block.stride..][..block.stride];
        let (seen, rest) = logits.split_at_mut(operands.row_end(block, row).next_multiple_of(LANES));
        if !seen.is_empty() {
            operands.normaliser.weigh_again(seen, operands.place(block, row), *kept);
        }
        rest.fill(0.0);
    }
}

/// From the gradient of the weights to that of the logits.
fn through_weights(tile: Tile<'_>, rows: &Rows, [logits, weights]: [&[f32]; 2], gradient: &mut [f32]) {
    let Tile { operands, block } = tile;
    let kept = &rows.log_sums[tile.first_row()..];
    let of_kept = rows.of_log_sums(tile);
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
fn to_values(tile: Tile<'_>, output: Matrix<'_>, probabilities: &mut [f32], sums: &mut Sums<'_>) {
    let Tile { operands, block } = tile;
    let value_dim = operands.shape.value_dim;
    block.gather(probabilities);
    for segment in block.seen_once() {
        let p = Matrix::new(&probabilities[segment.at..], block.rows, segment.len(), block.stride);
        operands.multiply(sums.v(segment.start), value_dim, true, 1.0, p.transposed(), output);
    }
}

/// From the gradient of the logits to that of q·k: multiplies rows by their factors, if they have any.
fn scale_rows(operands: &Operands, block: &Block, gradient: &mut [f32]) {
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
    operands: &Operands,
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
