//! The gradient of one key head's rows: the probabilities are computed again, block by block.

use super::call::{Engine, TermPlace};
use super::sums::{KeySums, OwnRows, Targets};
use crate::attention::block::keys::Transposed;
use crate::attention::block::pieces::ROWS;
use crate::attention::block::{Block, Keys, Operands, Tile};
use crate::attention::normaliser::Row;
use crate::attention::spec::{MOST_RANGES, Shape};
use crate::attention::terms::{KeyTable, OfLogits, Room, TileTerm};
use crate::machine::autodiff::{View, tensor_of, values};
use crate::machine::buffers::zeros;
use crate::machine::matmul::Matrix;
use crate::machine::simd::LANES;
use burn_flex::FlexTensor;
use std::ops::Range;

/// What the backward pass knows of the query rows.
pub(super) struct QueryRows {
    /// The logs of the sums of exp(logits), `[batch, heads, queries]`.
    log_sums: Vec<f32>,
    /// Their gradient, if they have one: those of a softmax do.
    gradient: Option<Vec<f32>>,
    /// The gradient of the output, `[batch, heads, queries, value_dim]`.
    output: View<4>,
}

impl QueryRows {
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
        // A softmax's always have one, 0 where nothing reads them: sums over a row's logits are corrected by it.
        let none = || operands.normaliser.is_softmax().then(|| zeros(batch * heads * queries));
        let gradient = of_log_sums.as_ref().map(numbers).or_else(none);
        Self { log_sums: numbers(log_sums), gradient, output: View::new(&output) }
    }

    /// The gradient of the log sums of a block's rows, if the log sums have one.
    fn of_log_sums(&self, tile: Tile<'_>) -> Option<&[f32]> {
        self.gradient.as_ref().map(|gradient| &gradient[tile.first_row()..][..tile.block.rows])
    }
}

/// The buffers of one thread, for logits of up to so many numbers.
pub(super) struct Buffers {
    /// The logits before heads are mixed; empty if they are not.
    mixed: Vec<f32>,
    /// Empty unless the normaliser reads them.
    logits: Vec<f32>,
    probabilities: Vec<f32>,
    gradient: Vec<f32>,
    /// For each head that is computed with others.
    tables: Vec<Vec<KeyTable>>,
    rooms: Vec<Vec<Room>>,
}

impl Buffers {
    pub(super) fn new(engine: &Engine<'_>) -> Self {
        let logits = engine.operands.scratch() * engine.heads_at_once();
        let buffer = |is_used: bool| vec![0.0; if is_used { logits } else { 0 }];
        Self {
            mixed: buffer(engine.mixer().is_some()),
            logits: buffer(engine.operands.normaliser.reads_logits()),
            probabilities: buffer(true),
            gradient: buffer(true),
            tables: (0..engine.heads_at_once()).map(|_| Vec::new()).collect(),
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

/// One key head of one batch row, or the first of all where they are computed side by side.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) engine: &'a Engine<'a>,
    /// [`Engine::places`].
    pub(super) of_terms: &'a [TermPlace],
    pub(super) rows: &'a QueryRows,
    pub(super) batch: usize,
    /// The key head.
    pub(super) of_keys: usize,
}

/// The gradients of a piece of the rows, of each key head, and the first of these rows at hand.
struct GradientRows<'t, 'o, 's> {
    row: usize,
    own: &'t mut [OwnRows<'o>],
    sums: &'t mut [KeySums<'s>],
}

impl Head<'_> {
    /// A range of rows of a query head of the group, as one block.
    pub(super) fn span(&self, member: usize, rows: &Range<usize>) -> Block {
        let operands = self.engine.operands;
        operands.span(self.batch, self.of_keys * operands.shape.group() + member, rows.start, rows.len())
    }

    /// Fills what its pieces share, of each key head.
    pub(super) fn turn(&self, turned: &mut [Turned]) {
        let operands = self.engine.operands;
        for (index, turned) in turned.iter_mut().enumerate() {
            let all = self.span(index * operands.shape.group(), &(0..operands.shape.queries));
            operands.transpose_keys(&all, &mut turned.keys);
            operands.transpose_values(&all, &mut turned.values);
        }
    }

    /// The gradients of a piece of the rows: sets those of `own`, which begins with the piece, and adds to `sums`.
    pub(super) fn run(
        &self,
        piece: &Range<usize>,
        turned: &[Turned],
        own: &mut [OwnRows<'_>],
        sums: &mut [KeySums<'_>],
        buffers: &mut Buffers,
    ) {
        let Self { engine, .. } = *self;
        let (group, at_once) = (engine.operands.shape.group(), engine.heads_at_once());
        if self.span(0, piece).width == 0 {
            return;
        }
        for member in (0..group * own.len()).step_by(at_once) {
            let all: Vec<Block> = (member..member + at_once).map(|member| self.span(member, piece)).collect();
            for (all, tables) in all.iter().zip(&mut buffers.tables) {
                engine.tables(all, tables);
            }
            for first in piece.clone().step_by(ROWS) {
                let block = |all: &Block| engine.operands.block(self.batch, all.head, first);
                let blocks: Vec<Block> = all.iter().map(block).collect();
                if blocks[0].width > 0 {
                    let mut place = GradientRows { row: first - piece.start, own, sums };
                    self.blocks(&blocks, turned, &mut place, buffers);
                }
            }
            for (all, rooms) in all.iter().zip(&mut buffers.rooms) {
                let mut place = GradientRows { row: 0, own, sums };
                let mut to = self.targets(all, &mut place);
                for (index, term, inputs) in self.terms() {
                    term.to_keys(engine.tile(all), &mut rooms[index], to.keys, &mut to.parts[inputs]);
                }
            }
        }
    }

    /// The terms that take part, each with its number and its inputs.
    fn terms(&self) -> impl Iterator<Item = (usize, &dyn TileTerm, Range<usize>)> {
        let terms = self.engine.terms.iter().zip(self.of_terms).enumerate();
        let taking_part = terms.filter(|(_, (_, place))| place.takes_part);
        taking_part.map(|(index, (term, place))| (index, &**term, place.inputs.clone()))
    }

    /// The gradients of blocks of heads that are computed side by side.
    fn blocks(
        &self,
        blocks: &[Block],
        turned: &[Turned],
        place: &mut GradientRows<'_, '_, '_>,
        buffers: &mut Buffers,
    ) {
        let engine = self.engine;
        let Buffers { mixed, logits, probabilities, gradient, tables, rooms } = buffers;
        let size = gradient.len() / blocks.len();
        let turned = |head| &turned[head / engine.operands.shape.group() - self.of_keys];
        engine.fill_logits(blocks, |head| &turned(head).keys, tables, rooms, probabilities, mixed);
        if !logits.is_empty() {
            logits.copy_from_slice(probabilities);
        }
        let of_heads = probabilities.chunks_mut(size).zip(gradient.chunks_mut(size)).zip(&mut *rooms);
        for ((index, block), (numbers, rooms)) in blocks.iter().enumerate().zip(of_heads) {
            let logits = logits.get(index * size..(index + 1) * size).unwrap_or_default();
            self.gradient_of_logits(block, &turned(block.head).values, place, logits, numbers, rooms);
        }
        if let Some((index, mixer)) = engine.mixer() {
            let mut to = self.targets(&blocks[0], place);
            let parts = &mut to.parts[self.of_terms[index].inputs.clone()];
            mixer.through_mix(engine.tile(&blocks[0]), mixed, gradient, parts);
        }
        let of_heads = probabilities.chunks(size).zip(gradient.chunks_mut(size));
        for ((block, numbers), terms) in blocks.iter().zip(of_heads).zip(tables.iter().zip(rooms)) {
            self.gradient_of_scores(block, place, numbers, terms);
        }
    }

    /// Where the terms add to for a block.
    fn targets<'t>(
        &self,
        block: &Block,
        GradientRows { row, own, sums }: &'t mut GradientRows<'_, '_, '_>,
    ) -> Targets<'t> {
        let (key_head, member) = self.of_block(block);
        Targets::new(&mut sums[key_head], &mut own[key_head], (member, *row), block.all_seen().start)
    }

    /// Which of the key heads a block reads, and which of its query heads the block is.
    fn of_block(&self, block: &Block) -> (usize, usize) {
        let group = self.engine.operands.shape.group();
        (block.head / group - self.of_keys, block.head % group)
    }

    /// From the logits of a block, which become weights, to their gradient; adds to that of the values.
    fn gradient_of_logits(
        &self,
        block: &Block,
        values: &Transposed,
        place: &mut GradientRows<'_, '_, '_>,
        logits: &[f32],
        (probabilities, gradient): (&mut [f32], &mut [f32]),
        rooms: &mut [Room],
    ) {
        let Self { engine, rows, .. } = *self;
        let (operands, tile) = (engine.operands, engine.tile(block));
        normalise(operands, block, &rows.log_sums[tile.first_row()..][..block.rows], probabilities);
        let output = Operands::rows_of(&rows.output, block, operands.shape.value_dim);
        for segment in block.seen_once() {
            let gradient = &mut gradient[segment.at..];
            operands.multiply(gradient, block.stride, false, 1.0, output, values.of(&segment));
        }
        block.scatter(gradient);
        let mut to = self.targets(block, place);
        for (index, term, inputs) in self.terms() {
            let parts = &mut to.parts[inputs];
            term.through_output(tile, &mut rooms[index], probabilities, output, gradient, parts);
        }
        through_weights(tile, rows, [logits, probabilities], gradient);
        to_values(tile, output, probabilities, &mut place.sums[self.of_block(block).0]);
    }

    /// From the gradient of the logits of a block, before heads are mixed.
    fn gradient_of_scores(
        &self,
        block: &Block,
        place: &mut GradientRows<'_, '_, '_>,
        (probabilities, gradient): (&[f32], &mut [f32]),
        (tables, rooms): (&Vec<KeyTable>, &mut Vec<Room>),
    ) {
        let (operands, tile) = (self.engine.operands, self.engine.tile(block));
        let mut to = self.targets(block, place);
        let (weights, of_log_sums) = (probabilities, self.rows.of_log_sums(tile));
        for (index, term, inputs) in self.terms() {
            let of = OfLogits { weights, gradient, of_log_sums, table: &tables[index] };
            term.through_logits(tile, &mut rooms[index], &of, &mut to.parts[inputs]);
        }
        scale_rows(operands, block, gradient);
        for (index, term, _) in self.terms() {
            term.through_scores(tile, &mut rooms[index], gradient);
        }
        let (key_head, member) = self.of_block(block);
        let GradientRows { row, own, sums } = &mut *place;
        through_product(operands, block, gradient, (member, *row), &mut own[key_head], &mut sums[key_head]);
        let mut to = self.targets(block, place);
        for (index, term, inputs) in self.terms() {
            let parts = &mut to.parts[inputs];
            term.to_queries(tile, &mut rooms[index], gradient, to.queries, parts);
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
fn through_weights(tile: Tile<'_>, rows: &QueryRows, [logits, weights]: [&[f32]; 2], gradient: &mut [f32]) {
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
fn to_values(tile: Tile<'_>, output: Matrix<'_>, probabilities: &mut [f32], sums: &mut KeySums<'_>) {
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
    sums: &mut KeySums<'_>,
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
