//! What turns the logits of a query into the weights of its keys: a [`Normaliser`], a file each.
//!
//! Fused attention calls it row by row of a block, forward and once more in the backward pass, so that no weights are kept.
//! [`normalise`] applies it to scores that the caller has computed (`blocks` in `longwave-model`).
//!
//! **Kept for the backward pass** of [`normalise`]: the weights and one number a row; the scores too, for a normaliser whose
//! gradient reads them.
//!
//! **Bytes** of [`normalise`]: for n scores at least `8 n` forward (scores in, weights out) and `12 n` backward (weights and
//! gradient in, gradient out), or `16 n` with the scores.

mod entmax;
mod lssar;
pub(crate) mod softmax;
mod stick_breaking;

pub use entmax::entmax;
pub use lssar::Lssar;
pub use softmax::Softmax;
pub use stick_breaking::StickBreaking;

use crate::machine::autodiff::{tensor_of, values};
use crate::machine::buffers::whole_rows;
use crate::op::prelude::*;
use burn::tensor::{Bool, Device, Tensor, TensorData};
use rayon::prelude::*;
use std::fmt::Debug;
use std::sync::Arc;

/// Where a row stands.
#[derive(Clone, Copy, Debug)]
pub struct RowPosition {
    /// The query's place among the keys, counted from 0.
    pub query: usize,
    /// The column of the query's own key, after which a row has hidden keys alone.
    pub own: usize,
}

/// What became of the logits of a row.
#[derive(Clone, Copy, Debug)]
pub struct Weighed {
    /// What the numbers in the row are still to be divided by; 0 for a row that gives nothing.
    pub divisor: f32,
    /// What the backward pass is told of the row.
    pub kept: f32,
}

/// A row whose gradient is computed.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Empty unless [`Normaliser::reads_logits`].
    pub logits: &'a [f32],
    /// With what is hidden 0.
    pub weights: &'a [f32],
    /// [`Weighed::kept`].
    pub kept: f32,
    /// The gradient of that number.
    pub of_kept: f32,
    pub place: RowPosition,
}

/// A function from the logits of a query to the weights of its keys, with its gradient. A logit of minus infinity is a hidden
/// key: its weight is 0, and so is its gradient. NaN stays NaN.
pub trait Normaliser: Debug + Send + Sync {
    /// Turns logits into weights, in place.
    fn weigh(&self, row: &mut [f32], place: RowPosition) -> Weighed;

    /// The same in the backward pass: the weights are divided already.
    fn weigh_again(&self, row: &mut [f32], place: RowPosition, kept: f32);

    /// Turns the gradient of weights into that of logits, in place.
    fn gradient(&self, row: Row<'_>, gradient: &mut [f32]);

    /// The weights of logits `[batch, heads, queries, keys]` in plain tensor operations, of queries from place `first` on.
    fn plain(&self, logits: Tensor<4>, first: usize) -> Tensor<4>;

    /// Whether [`gradient`](Self::gradient) reads the logits.
    fn reads_logits(&self) -> bool {
        false
    }

    /// Whether it is the softmax: what it keeps is the log of the sum of exp(logits), by which parts of the keys can be put
    /// together.
    fn is_softmax(&self) -> bool {
        false
    }
}

/// The weights of scores `[batch, heads, queries, keys]` of queries from place `first` on; minus infinity where a key is hidden.
pub fn normalise(scores: Tensor<4>, normaliser: &Arc<dyn Normaliser>, first: usize) -> Tensor<4> {
    let [weights] = run(Normalise { normaliser: Arc::clone(normaliser), first }, [scores.into()]);
    weights.tensor()
}

#[derive(Clone)]
struct Normalise {
    normaliser: Arc<dyn Normaliser>,
    first: usize,
}

impl Op<1> for Normalise {
    const NAME: &'static str = "weights of scores";

    fn reference(self, [scores]: [Any; 1]) -> [Any; 1] {
        [self.normaliser.plain(scores.tensor(), self.first).into()]
    }

    fn cpu(self, [scores]: [FlexTensor; 1], _: [bool; 1]) -> ([FlexTensor; 1], impl Gradient<Flex, 1>) {
        let shape @ [_, _, queries, keys] = scores.layout().shape().dims();
        let place = move |row: usize| {
            let query = self.first + row % queries;
            RowPosition { query, own: query.min(keys - 1) }
        };
        let mut weights = values(&scores).into_owned();
        let mut kept = vec![0.0; weights.len() / keys];
        let rows = whole_rows(keys) / keys;
        let tasks = weights.par_chunks_mut(rows * keys).zip(kept.par_chunks_mut(rows)).enumerate();
        tasks.for_each(|(task, (weights, kept))| {
            for (row, (weights, kept)) in weights.chunks_exact_mut(keys).zip(kept).enumerate() {
                let weighed = self.normaliser.weigh(weights, place(task * rows + row));
                let inverse = if weighed.divisor == 0.0 { 0.0 } else { 1.0 / weighed.divisor };
                for weight in weights {
                    *weight *= inverse;
                }
                *kept = weighed.kept;
            }
        });
        let weights = tensor_of(weights, shape);
        let of_gradient = weights.clone();
        let scores = self.normaliser.reads_logits().then_some(scores);
        let gradient = move |output: [Option<FlexTensor>; 1], _| {
            let mut gradient = values(&only(output)).into_owned();
            let (weights, scores) = (values(&of_gradient), scores.as_ref().map(values));
            gradient.par_chunks_mut(rows * keys).enumerate().for_each(|(task, gradient)| {
                for (row, gradient) in gradient.chunks_exact_mut(keys).enumerate() {
                    let row = task * rows + row;
                    let of_row = row * keys..(row + 1) * keys;
                    let logits = scores.as_ref().map_or(&[][..], |scores| &scores[of_row.clone()]);
                    let (kept, place) = (kept[row], place(row));
                    let row = Row { logits, weights: &weights[of_row], kept, of_kept: 0.0, place };
                    self.normaliser.gradient(row, gradient);
                }
            });
            [Some(tensor_of(gradient, shape))]
        };
        ([weights], gradient)
    }
}

/// `[1, 1, queries, keys]`: what holds of the place of each query and each key.
fn of_places(
    [queries, keys]: [usize; 2],
    first: usize,
    holds: impl Fn(usize, usize) -> bool,
    device: &Device,
) -> Tensor<4, Bool> {
    let held = (first..first + queries).flat_map(|query| (0..keys).map(move |key| (query, key)));
    let held: Vec<bool> = held.map(|(query, key)| holds(query, key)).collect();
    Tensor::from_data(TensorData::new(held, [1, 1, queries, keys]), device)
}

#[cfg(test)]
pub(in crate::attention) mod tests;
