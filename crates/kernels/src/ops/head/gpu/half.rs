//! The head and its loss in half precision, where the rows are too many for one block: the logits of each block are computed
//! for the losses, and again for the gradients.
//!
//! In f16 the gradient of the loss is a scale that keeps small gradients from vanishing. The logits' gradient is rounded with
//! it, so it waits for the backward pass: gradients for 1, as in f32, would have vanished before. One product more is
//! the price for logits that nobody holds; of one block they are held, as the gradient of one operation after the other needs.

use super::launch::{added, joined};
use crate::cross_entropy;
use crate::machine::autodiff::{FusedBackend, Primitive};
use crate::ops::cross_entropy::gpu;
use crate::ops::head::HeadLoss;
use crate::ops::head::reference::{blocks, loss};
use burn::backend::{Cube, TensorMetadata};
use burn::tensor::{DType, Int, IntDType, Tensor};
use std::ops::Range;

/// What losses and gradients are computed from, nothing of it tracked.
#[derive(Clone)]
pub(in crate::ops::head) struct HalfHead {
    /// `[rows, width]` and `[width, classes]` in half precision.
    hidden: Tensor<2>,
    weight: Tensor<2>,
    /// `[rows]` of i32.
    targets: Tensor<1, Int>,
    /// What each loss is multiplied by, `[rows]`.
    weights: Tensor<1>,
    at_once: usize,
    /// Of the hidden states as they came.
    shape: [usize; 3],
}

impl HalfHead {
    /// Of hidden states and weights in f32.
    pub(super) fn new([hidden, weight]: [Primitive; 2], head: HeadLoss) -> Self {
        let HeadLoss { targets, weights, precision, at_once, .. } = head;
        let shape @ [batch, length, width] = hidden.shape().dims();
        let count = batch * length;
        let hidden = Cube::from_plain::<3>(hidden).reshape([count, width]);
        let mean = || Tensor::full([count], 1.0 / count as f32, &hidden.device());
        Self {
            weights: weights.unwrap_or_else(mean),
            weight: Cube::from_plain::<2>(weight).cast(precision.dtype()),
            hidden: hidden.cast(precision.dtype()),
            targets: targets.without_autodiff().cast(IntDType::I32),
            at_once,
            shape,
        }
    }

    fn blocks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        blocks(self.hidden.dims()[0], self.at_once)
    }

    /// The hidden states and targets of some rows, and their logits in f32.
    fn block(&self, rows: Range<usize>) -> (Tensor<2>, Tensor<1, Int>, Tensor<2>) {
        let hidden = self.hidden.clone().slice_dim(0, rows.clone());
        let logits = hidden.clone().matmul(self.weight.clone()).cast(DType::F32);
        (hidden, self.targets.clone().slice_dim(0, rows), logits)
    }

    pub(super) fn loss(&self) -> Primitive {
        let of_block = |rows| {
            let (_, targets, logits) = self.block(rows);
            cross_entropy(logits, targets)
        };
        Cube::plain(loss(joined(self.blocks().map(of_block).collect()), Some(self.weights.clone())))
    }

    pub(super) fn gradients(self, output: Primitive, wanted: [bool; 2]) -> [Option<Primitive>; 2] {
        let weights = self.weights.clone() * Cube::from_plain::<1>(output);
        let (mut of_hidden, mut of_weight) = (Vec::new(), None);
        for rows in self.blocks() {
            let (hidden, targets, logits) = self.block(rows.clone());
            let targets = targets.try_into_primitive::<Cube>().expect("all is on one device");
            let weights = Cube::plain(weights.clone().slice_dim(0, rows));
            let (_, slopes) = gpu::losses(Cube::plain(logits), targets, 1.0, Some(weights), true);
            let slopes = Cube::from_plain::<2>(slopes).cast(hidden.dtype());
            if wanted[0] {
                let gradient = slopes.clone().matmul(self.weight.clone().transpose());
                of_hidden.push(gradient.cast(DType::F32));
            }
            if wanted[1] {
                let part = hidden.transpose().matmul(slopes).cast(DType::F32);
                of_weight = Some(added(of_weight, part));
            }
        }
        let of_hidden = wanted[0].then(|| Cube::plain(joined(of_hidden).reshape(self.shape)));
        [of_hidden, of_weight.map(Cube::plain)]
    }
}
