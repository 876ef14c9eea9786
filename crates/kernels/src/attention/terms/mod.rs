//! What attention adds to its logits: a [`ScoreTerm`], a file each.
//!
//! The engine (`cpu/`) knows the trait alone. A term says its tensors, what it does in plain operations, and makes the form
//! that blocks of queries call on the CPU, a [`TileTerm`]: it adds to a tile of logits, and gives back the gradients of its tensors
//! from those of the tile. Vectors by distance add to the output too. Nothing of size queries x keys is kept.

mod block;
mod by_distance;
mod counted;
mod gated_slopes;
mod network;
mod pair;
mod relative;
mod slopes;

pub use counted::CountedVectors;
#[cfg(test)]
pub(super) use gated_slopes::GatedSlopes;
pub use gated_slopes::SlopeGates;
pub use network::PairTerms;
pub use relative::{RelativeVectors, VectorTable, add_to_first_channels};

use super::block::pieces::ROWS;
use super::block::{Operands, Tile};
use super::spec::{Bias, Shape, Sight};
use crate::machine::autodiff::tensor_of;
use crate::machine::matmul::Matrix;
use crate::machine::simd::{self, vectorised};
use crate::op::Any;
use burn::tensor::{Device, Tensor};
use burn_flex::FlexTensor;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// The most tensors that the terms of a call have.
pub(super) const TERM_INPUTS: usize = 7;

/// What attention adds to the logits besides a bias: vectors by distance, vectors by count, slopes of queries and keys, or a
/// network of all heads.
#[derive(Clone, Debug, Default)]
pub struct Terms(Vec<Arc<dyn ScoreTerm>>);

impl Terms {
    /// Whether nothing is added.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same over a temperature, by which the scale is divided too; `scale` is that without it. Gates keep theirs.
    #[must_use]
    pub fn at_temperature(self, temperature: f64, scale: f64) -> Self {
        let at = |term: Arc<dyn ScoreTerm>| term.at_temperature(temperature, scale).unwrap_or(term);
        Self(self.0.into_iter().map(at).collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<dyn ScoreTerm>> {
        self.0.iter()
    }
}

impl Bias {
    /// The term that a bias is.
    pub(super) fn term(&self) -> Option<Arc<dyn ScoreTerm>> {
        Some(match self.clone() {
            Self::None => return None,
            Self::ByDistance(table) => Arc::new(by_distance::ByDistance(table)),
            Self::Slopes(slopes) => Arc::new(slopes::Slopes(slopes)),
            Self::Pair { query, key } => Arc::new(pair::Pair { query, key }),
            Self::Block(block) => Arc::new(block::Block(block)),
        })
    }
}

/// What an encoding describes of its scores: makes terms of q and k, as they meet in the logits.
pub trait TermsOf: Debug + Send + Sync {
    /// For q `[batch, heads, queries, head_dim]` and k `[batch, key_heads, keys, head_dim]`.
    fn terms(&self, q: &Tensor<4>, k: &Tensor<4>) -> Terms;

    /// What they are, in words that go on from "with".
    fn words(&self) -> &'static str;
}

/// The scores that terms are added to in plain operations; k has as many heads as q.
pub(super) struct Scores<'a> {
    pub(super) q: &'a Tensor<4>,
    pub(super) k: &'a Tensor<4>,
    pub(super) scale: f64,
    /// `[1 or batch, 1, queries, 1]`.
    pub(super) query_scale: Option<&'a Tensor<4>>,
    pub(super) sight: &'a Sight,
}

/// What is added to logits: its tensors and settings.
pub(super) trait ScoreTerm: Debug + Send + Sync {
    /// The tensors that receive a gradient.
    fn inputs(&self) -> Vec<Any>;

    /// Panics where they do not fit.
    fn check(&self, sight: &Sight, shape: &Shape);

    /// The form on the CPU, of the values of the inputs, for products that are multiplied by `scale`.
    fn on_cpu<'a>(&'a self, inputs: &'a [FlexTensor], scale: f64) -> Box<dyn TileTerm + 'a>;

    /// Whether a query reads all keys before it, also those that are hidden.
    fn reads_all_keys(&self) -> bool {
        false
    }

    /// How many times as much memory as its logits it takes in plain operations.
    fn numbers_per_logit(&self) -> usize {
        1
    }

    /// [`Terms::at_temperature`]; `None` if that is the same.
    fn at_temperature(&self, _temperature: f64, _scale: f64) -> Option<Arc<dyn ScoreTerm>> {
        None
    }

    /// The same for some query rows and the keys `0..keys`; `None` if it has no numbers of its own for these.
    fn of_rows(&self, _rows: Range<usize>, _keys: usize) -> Option<Arc<dyn ScoreTerm>> {
        None
    }

    /// What is added, where that does not depend on q and k: it broadcasts to `[batch, heads, queries, keys]`.
    fn block(&self, _: &Sight, _queries_and_keys: [usize; 2], _: &Device) -> Option<Tensor<4>> {
        None
    }

    /// Added to the scaled q·k before the rows' factors, in plain operations.
    fn plain_to_scores(&self, _: &Scores<'_>, scores: Tensor<4>) -> Tensor<4> {
        scores
    }

    /// Added to the logits.
    fn plain_to_logits(&self, scores: &Scores<'_>, logits: Tensor<4>) -> Tensor<4> {
        let [_, _, queries, keys] = logits.dims();
        let block = self.block(scores.sight, [queries, keys], &logits.device());
        block.map_or(logits.clone(), |block| logits + block)
    }

    /// Added to the output, from the weights of the keys.
    fn plain_to_output(&self, _: &Sight, _weights: Tensor<4>, output: Tensor<4>) -> Tensor<4> {
        output
    }
}

/// Where the gradient of an input is summed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// So many numbers that all query rows of a key head add to.
    Sums(usize),
    /// So many numbers of each query row, which the batch may share.
    Rows { width: usize, shared: bool },
}

/// What becomes of a block of logits.
pub(super) struct OfLogits<'a> {
    pub(super) weights: &'a [f32],
    pub(super) gradient: &'a [f32],
    /// The gradient of the log sums of the rows, if they have one.
    pub(super) of_log_sums: Option<&'a [f32]>,
    /// What the term has computed of the keys.
    pub(super) table: &'a KeyTable,
}

/// Numbers of each key of a head, which a term computes once for many blocks.
#[derive(Default)]
pub(super) struct KeyTable {
    /// `[keys, width]`.
    pub(super) values: Vec<f32>,
    /// The first key.
    pub(super) first: usize,
    pub(super) width: usize,
}

/// The buffers of one thread for one term, which finds there in the backward pass what it left.
#[derive(Default)]
pub(super) struct Room {
    pub(super) buffers: [Vec<f32>; 5],
    /// Some columns of each row.
    pub(super) columns: [Range<usize>; ROWS],
    pub(super) of_keys: KeyTable,
}

/// A term as blocks of queries on the CPU call it, in the order of these methods. `parts` are where the gradients of its inputs
/// are added, in their order: the sums of a key head, or the numbers of the rows from the block's first on.
pub(super) trait TileTerm: Send + Sync {
    /// Computes numbers of all keys that some rows of a head see, if it needs any.
    fn of_keys(&self, _: Tile<'_>, _: &mut KeyTable) {}

    /// Adds to the scaled q·k, before the rows' factors.
    fn to_scores(&self, _: Tile<'_>, _: &mut Room, _scores: &mut [f32]) {}

    /// Adds to the logits.
    fn to_logits(&self, _: Tile<'_>, _: &KeyTable, _logits: &mut [f32]) {}

    /// Whether it makes the logits of a pair of those of all heads, whose blocks are then computed side by side.
    fn mixes_heads(&self) -> bool {
        false
    }

    /// Replaces the logits of all heads, which lie one after the other, where the first one sees keys.
    fn mix(&self, _first: Tile<'_>, _logits: &mut [f32]) {}

    /// Adds to the output, whose rows lie so far apart, from the weights.
    fn to_output(&self, _: Tile<'_>, _: &mut Room, _weights: &[f32], _: (&mut [f32], usize)) {}

    /// Where the gradients are summed.
    fn parts(&self, operands: &Operands) -> Vec<Part>;

    /// The gradients of the inputs, from the parts of all batch rows and key heads, or of all rows.
    fn gradients(&self, operands: &Operands, parts: Vec<Vec<f32>>) -> Vec<FlexTensor>;

    /// Whether a gradient goes through it to q, k or v.
    fn passes_on(&self) -> bool {
        false
    }

    /// From the gradient of the output, `[rows, value_dim]`: adds to that of the weights.
    fn through_output(
        &self,
        _: Tile<'_>,
        _: &mut Room,
        _weights: &[f32],
        _output: Matrix<'_>,
        _gradient: &mut [f32],
        _parts: &mut [&mut [f32]],
    ) {
    }

    /// From the logits before [`mix`](Self::mix): replaces the gradient of those after it by theirs. The parts are those of the first
    /// key head.
    fn through_mix(&self, _: Tile<'_>, _logits: &[f32], _gradient: &mut [f32], _parts: &mut [&mut [f32]]) {}

    /// From the gradient of the logits.
    fn through_logits(&self, _: Tile<'_>, _: &mut Room, _: &OfLogits<'_>, _parts: &mut [&mut [f32]]) {}

    /// Adds to the gradient of the scores, which holds that of the logits times the rows' factors.
    fn through_scores(&self, _: Tile<'_>, _: &mut Room, _gradient: &mut [f32]) {}

    /// From the gradient of the scores: adds to that of the block's queries.
    fn to_queries(
        &self,
        _: Tile<'_>,
        _: &mut Room,
        _gradient: &[f32],
        _queries: &mut [f32],
        _parts: &mut [&mut [f32]],
    ) {
    }

    /// After all blocks of some rows: adds to the gradient of the keys that these see, `[keys, head_dim]`.
    fn to_keys(&self, _: Tile<'_>, _: &mut Room, _keys: &mut [f32], _parts: &mut [&mut [f32]]) {}
}

/// The sum of consecutive parts of one size, in their order.
fn summed(parts: &[f32], size: usize) -> Vec<f32> {
    let mut total = vec![0.0; size];
    for part in parts.chunks(size.max(1)) {
        add(&mut total, part);
    }
    total
}

/// Gradients of numbers of each query or key, `[batch, heads, length]`.
fn by_row(
    operands: &Operands,
    parts: Vec<Vec<f32>>,
    lengths: impl IntoIterator<Item = usize>,
) -> Vec<FlexTensor> {
    let Shape { batch, heads, .. } = operands.shape;
    parts.into_iter().zip(lengths).map(|(part, length)| tensor_of(part, [batch, heads, length])).collect()
}

/// The numbers of one query head among those of a key head.
fn of_head<'a>(part: &'a mut [f32], tile: Tile<'_>, size: usize) -> &'a mut [f32] {
    &mut part[tile.block.head % tile.operands.shape.group() * size..][..size]
}

/// A buffer of at least so many numbers, any of them.
fn at_least(buffer: &mut Vec<f32>, count: usize) -> &mut [f32] {
    if buffer.len() < count {
        buffer.resize(count, 0.0);
    }
    &mut buffer[..count]
}

vectorised! {
    /// `to += from`, element by element.
    fn add(to: &mut [f32], from: &[f32]) {
        simd::add(to, from);
    }
}
