//! The head in f32, by blocks of rows, and its gradient.

use crate::machine::autodiff::{FusedBackend, Primitive};
use crate::ops::cross_entropy::gpu;
use crate::ops::head::HeadLoss;
use crate::ops::head::reference::blocks;
use crate::ops::reduce::sum;
use burn::backend::{Cube, TensorMetadata};
use burn::tensor::{IntDType, Tensor};

/// The gradients for the gradient 1 of the loss.
#[derive(Clone)]
pub(in crate::ops::head) struct Gradients {
    /// `[rows, width]`, which becomes a `[batch, length, width]`.
    hidden: Option<Tensor<2>>,
    shape: [usize; 3],
    /// `[width, classes]`.
    weight: Option<Tensor<2>>,
}

impl Gradients {
    /// Those for the gradient at hand.
    pub(super) fn times(self, output: Primitive) -> [Option<Primitive>; 2] {
        let factor = Cube::from_plain::<1>(output).unsqueeze::<2>();
        let times = |x: Tensor<2>| x * factor.clone();
        let hidden = self.hidden.map(|hidden| Cube::plain(times(hidden).reshape(self.shape)));
        [hidden, self.weight.map(|weight| Cube::plain(times(weight)))]
    }
}

/// [`head_loss`](crate::head_loss) in f32, of rows that the kernels support.
pub(super) fn head_loss(
    [hidden, weight]: [Primitive; 2],
    HeadLoss { targets, weights, at_once, .. }: HeadLoss,
    [of_hidden, of_weight]: [bool; 2],
) -> (Primitive, Gradients) {
    let shape @ [batch, length, width] = hidden.shape().dims();
    let rows = batch * length;
    let hidden = Cube::from_plain::<3>(hidden).reshape([rows, width]);
    let weight = Cube::from_plain::<2>(weight);
    let targets = targets.without_autodiff().cast(IntDType::I32);
    let (mut losses, mut hidden_gradients, mut weight_gradient) = (Vec::new(), Vec::new(), None);
    for range in blocks(rows, at_once) {
        let is_all = range.len() == rows;
        let hidden = if is_all { hidden.clone() } else { hidden.clone().slice_dim(0, range.clone()) };
        let targets = if is_all { targets.clone() } else { targets.clone().slice_dim(0, range.clone()) };
        let logits = Cube::plain(hidden.clone().matmul(weight.clone()));
        let targets =
            targets.try_into_primitive::<Cube>().expect("hidden states and targets are on one device");
        let weights = weights
            .clone()
            .map(|weights| Cube::plain(if is_all { weights } else { weights.slice_dim(0, range) }));
        let (loss, slopes) = gpu::losses(logits, targets, 1.0 / rows as f32, weights, true);
        losses.push(Cube::from_plain::<1>(loss));
        let slopes = Cube::from_plain::<2>(slopes);
        if of_hidden {
            hidden_gradients.push(slopes.clone().matmul(weight.clone().transpose()));
        }
        if of_weight {
            let part = hidden.transpose().matmul(slopes);
            weight_gradient = Some(added(weight_gradient, part));
        }
    }
    let loss = sum(joined(losses));
    let hidden = of_hidden.then(|| joined(hidden_gradients));
    (Cube::plain(loss), Gradients { hidden, shape, weight: weight_gradient })
}

/// What the parts of a gradient add up to.
pub(super) fn added(sum: Option<Tensor<2>>, part: Tensor<2>) -> Tensor<2> {
    match sum {
        None => part,
        Some(sum) => sum + part,
    }
}

/// Blocks, one after the other.
pub(super) fn joined<const D: usize>(mut blocks: Vec<Tensor<D>>) -> Tensor<D> {
    if blocks.len() == 1 { blocks.remove(0) } else { Tensor::cat(blocks, 0) }
}
