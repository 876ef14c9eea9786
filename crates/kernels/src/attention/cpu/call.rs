//! One call of fused attention: its numbers, and the terms that are added to its logits.

use crate::Precision;
use crate::attention::block::pieces::Cut;
use crate::attention::block::{Block, Keys, Operands, Tile};
use crate::attention::options::Attention;
use crate::attention::spec::{MOST_RANGES, QkRange, Shape};
use crate::attention::terms::{KeyTable, Part, Room, ScoreTerm, TERM_INPUTS, TileTerm};
use crate::machine::autodiff::{CpuTensor, View, values};
use crate::machine::bf16;
use crate::machine::simd::LANES;
use burn_flex::FlexTensor;
use std::ops::Range;
use std::sync::Arc;

/// What a call is differentiated by: q and k of two ranges of distances, v, and the tensors of its terms.
pub(in crate::attention) const INPUTS: usize = 2 * MOST_RANGES + 1 + TERM_INPUTS;

pub(in crate::attention) struct Call {
    pub(in crate::attention) operands: Operands,
    terms: Vec<(Arc<dyn ScoreTerm>, Vec<FlexTensor>)>,
    scale: f64,
    /// How its work is cut.
    pub(super) cut: Cut,
}

impl Call {
    /// A call with so many ranges of distances of the inputs, some of which only stand in for missing ones.
    pub(in crate::attention) fn new(
        inputs: [FlexTensor; INPUTS],
        ranges: Vec<Range<usize>>,
        options: &Attention,
        shape: Shape,
    ) -> Self {
        let [q, k, other_q, other_k, v, given @ ..] = &inputs;
        let of_range = |(distances, (q, k))| QkRange { q: View::new(q), k: View::new(k), distances };
        let mut given = given.iter().cloned();
        let terms = options.score_terms().into_iter().map(|term| {
            let inputs = given.by_ref().take(term.inputs().len()).collect();
            (term, inputs)
        });
        let terms: Vec<(Arc<dyn ScoreTerm>, _)> = terms.collect();
        let query_scale = options.query_scale.clone().map(|scale| CpuTensor::new(scale).into_data());
        let operands = Operands {
            shape,
            ranges: ranges.into_iter().zip([(q, k), (other_q, other_k)]).map(of_range).collect(),
            v: View::new(v),
            normaliser: Arc::clone(&options.normaliser),
            scale: options.scale as f32,
            query_scale: query_scale.map(|scale| values(&scale).into_owned()),
            sight: options.sight(),
            reads_all_keys: terms.iter().any(|(term, _)| term.reads_all_keys()),
            rounded: options.precision == Precision::Bf16 && bf16::arithmetic() == bf16::Arithmetic::Dot,
        };
        Self { operands, terms, scale: options.scale, cut: Cut::current() }
    }

    /// With its terms in the form that blocks call.
    pub(super) fn engine(&self) -> Engine<'_> {
        Engine {
            operands: &self.operands,
            terms: self.terms.iter().map(|(term, inputs)| term.on_cpu(inputs, self.scale)).collect(),
        }
    }
}

/// The inputs of a term in the backward pass.
pub(super) struct TermPlace {
    /// Which they are among those of all terms.
    pub(super) inputs: Range<usize>,
    pub(super) parts: Vec<Part>,
    /// Whether a gradient goes through the term, or one of its own is wanted.
    pub(super) takes_part: bool,
}

/// What attention to blocks of queries is computed with.
pub(super) struct Engine<'a> {
    pub(super) operands: &'a Operands,
    pub(super) terms: Vec<Box<dyn TileTerm + 'a>>,
}

impl Engine<'_> {
    pub(super) fn tile<'b>(&'b self, block: &'b Block) -> Tile<'b> {
        Tile { operands: self.operands, block }
    }

    /// The term that makes logits of those of all heads, and its number.
    pub(super) fn mixer(&self) -> Option<(usize, &dyn TileTerm)> {
        self.terms.iter().map(|term| &**term).enumerate().find(|(_, term)| term.mixes_heads())
    }

    /// How many heads are computed side by side: all or one.
    pub(super) fn heads_at_once(&self) -> usize {
        if self.mixer().is_some() { self.operands.shape.heads } else { 1 }
    }

    /// A buffer for each head that is computed with others and each term.
    pub(super) fn rooms(&self) -> Vec<Vec<Room>> {
        let of_head = |_| self.terms.iter().map(|_| Room::default()).collect();
        (0..self.heads_at_once()).map(of_head).collect()
    }

    /// What the terms compute of the keys that some rows of a head see.
    pub(super) fn tables(&self, rows: &Block, tables: &mut Vec<KeyTable>) {
        tables.resize_with(self.terms.len(), KeyTable::default);
        for (term, table) in self.terms.iter().zip(tables) {
            term.of_keys(self.tile(rows), table);
        }
    }

    /// Where the gradients of the inputs of each term are summed.
    pub(super) fn places(&self, wanted: &[bool]) -> Vec<TermPlace> {
        let mut end = 0;
        let mut places = Vec::new();
        for term in &self.terms {
            let parts = term.parts(self.operands);
            let inputs = end..end + parts.len();
            end = inputs.end;
            let takes_part = term.passes_on() || wanted[inputs.clone()].contains(&true);
            places.push(TermPlace { inputs, parts, takes_part });
        }
        places
    }

    /// Fills `logits`, of as many numbers for each, with those of blocks of heads that are computed side by side: minus infinity
    /// where a key is hidden, up to the next multiple of [`LANES`] after [`Operands::row_end`]; what follows in a row is left
    /// undefined. `mixed` receives them as they are before heads are mixed, if they are.
    ///
    /// `keys` of a head and `tables` hold at least the blocks' keys.
    pub(super) fn fill_logits<'k>(
        &self,
        blocks: &[Block],
        keys: impl Fn(usize) -> &'k Keys,
        tables: &[Vec<KeyTable>],
        rooms: &mut [Vec<Room>],
        logits: &mut [f32],
        mixed: &mut [f32],
    ) {
        let size = logits.len() / blocks.len();
        let of_heads = blocks.iter().zip(logits.chunks_mut(size)).zip(tables.iter().zip(rooms));
        for ((block, logits), (tables, rooms)) in of_heads {
            self.fill_scores(block, keys(block.head), tables, rooms, logits);
        }
        if let Some((_, mixer)) = self.mixer() {
            mixed.copy_from_slice(&logits[..mixed.len()]);
            mixer.mix(self.tile(&blocks[0]), logits);
        }
        for (block, logits) in blocks.iter().zip(logits.chunks_mut(size)) {
            self.hide(block, logits);
        }
    }

    /// The logits of one head, before heads are mixed.
    fn fill_scores(
        &self,
        block: &Block,
        keys: &Keys,
        tables: &[KeyTable],
        rooms: &mut [Room],
        logits: &mut [f32],
    ) {
        let (operands, tile) = (self.operands, self.tile(block));
        for segment in block.seen() {
            let (queries, keys) = (operands.query_matrix(block, segment), keys[segment.range].of(segment));
            operands.multiply(&mut logits[segment.at..], block.stride, false, operands.scale, queries, keys);
        }
        for (term, room) in self.terms.iter().zip(rooms) {
            term.to_scores(tile, room, logits);
        }
        if operands.query_scale.is_some() {
            for run in tile.runs() {
                let factor = operands.row_factor(block, run.row).unwrap_or(1.0);
                logits[run.columns].iter_mut().for_each(|x| *x *= factor);
            }
        }
        for (term, table) in self.terms.iter().zip(tables) {
            term.to_logits(tile, table, logits);
        }
    }

    /// Hides the keys that rows do not see.
    fn hide(&self, block: &Block, logits: &mut [f32]) {
        let operands = self.operands;
        for (row, logits) in logits.chunks_mut(block.stride).take(block.rows).enumerate() {
            for segment in block.seen() {
                let [sinks, near] = operands.runs(block, row, segment);
                for hidden in [segment.start..sinks.start, sinks.end..near.start, near.end..segment.end] {
                    logits[segment.columns(&hidden)].fill(f32::NEG_INFINITY);
                }
            }
            let end = operands.row_end(block, row);
            logits[end..end.next_multiple_of(LANES)].fill(f32::NEG_INFINITY);
        }
    }
}
