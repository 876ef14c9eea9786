//! One call of fused attention: its numbers, and the terms that are added to its logits.

use crate::Precision;
use crate::attention::block::keys::Segment;
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

/// One call of attention.
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

/// What attention to blocks of queries is computed with.
pub(super) struct Engine<'a> {
    pub(super) operands: &'a Operands,
    pub(super) terms: Vec<Box<dyn TileTerm + 'a>>,
}

impl<'a> Engine<'a> {
    pub(super) fn tile<'b>(&'b self, block: &'b Block) -> Tile<'b> {
        Tile { operands: self.operands, block }
    }

    /// A buffer for each term.
    pub(super) fn rooms(&self) -> Vec<Room> {
        self.terms.iter().map(|_| Room::default()).collect()
    }

    /// What the terms compute of the keys that some rows of a head see.
    pub(super) fn tables(&self, rows: &Block, tables: &mut Vec<KeyTable>) {
        tables.resize_with(self.terms.len(), KeyTable::default);
        for (term, table) in self.terms.iter().zip(tables) {
            term.of_keys(self.tile(rows), table);
        }
    }

    /// The inputs of each term among those of all, where their gradients are summed, and whether the term takes part in the
    /// backward pass: it does where a gradient goes through it, or one of its own is wanted.
    pub(super) fn parts(&self, wanted: &[bool]) -> Vec<(Range<usize>, Vec<Part>, bool)> {
        let mut end = 0;
        let of_term = |term: &Box<dyn TileTerm + 'a>| {
            let parts = term.parts(self.operands);
            let inputs = end..end + parts.len();
            end = inputs.end;
            let takes_part = term.passes_on() || wanted[inputs.clone()].contains(&true);
            (inputs, parts, takes_part)
        };
        self.terms.iter().map(of_term).collect()
    }

    /// Fills `logits` with those of the block: minus infinity where a key is hidden, up to the next
    /// multiple of [`LANES`] after [`Operands::row_end`]; what follows in a row is left undefined.
    ///
    /// `keys` and `tables` hold at least the block's keys.
    pub(super) fn fill_logits(
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
        for (row, logits) in logits.chunks_mut(block.stride).take(block.rows).enumerate() {
            let hide = |segment: &Segment| {
                let [sinks, near] = operands.runs(block, row, segment);
                for hidden in [segment.start..sinks.start, sinks.end..near.start, near.end..segment.end] {
                    logits[segment.columns(&hidden)].fill(f32::NEG_INFINITY);
                }
            };
            block.seen().for_each(hide);
            let end = operands.row_end(block, row);
            logits[end..end.next_multiple_of(LANES)].fill(f32::NEG_INFINITY);
        }
    }
}
