//! The launches of the kernels, and the gradient.

use super::{UNITS, head_kernel, weighted_head_kernel};
use crate::machine::autodiff::{FusedBackend, Primitive};
use crate::machine::gpu::{address, copied, empty, launch, linear, spread, width};
use crate::ops::head::reference::blocks;
use crate::ops::reduce::sum;
use burn::backend::{Cube, TensorMetadata};
use burn::tensor::{Int, IntDType, Tensor};
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;

/// The losses times a share, `[rows]`, and the gradient of their sum, `[rows, classes]`.
pub(super) fn head(logits: CubeTensor, targets: CubeTensor, share: f32) -> (CubeTensor, CubeTensor) {
    launched(logits, targets, share, None)
}

/// The same, each row with its weight, `[rows]`.
pub(super) fn weighted_head(
    logits: CubeTensor,
    targets: CubeTensor,
    weights: CubeTensor,
) -> (CubeTensor, CubeTensor) {
    launched(logits, targets, 1.0, Some(into_contiguous(weights)))
}

/// The losses times their weights, or without any times `share`.
fn launched(
    logits: CubeTensor,
    targets: CubeTensor,
    share: f32,
    weights: Option<CubeTensor>,
) -> (CubeTensor, CubeTensor) {
    let [logits, targets] = [logits, targets].map(into_contiguous);
    // They are overwritten.
    let logits = if logits.can_mut() { logits } else { copied(logits) };
    let [rows, classes] = logits.meta.shape().dims();
    let losses = empty(&logits, [rows]);
    let width = width(&logits.client, std::iter::once(classes));
    let (cubes, dim) = (spread(&logits.client, rows), CubeDim::new_1d(UNITS as u32));
    let (client, address) = (&logits.client, address(&[&logits]));
    // SAFETY: the kernels leave cubes past the last row idle, and the others stay in their row; nothing else holds what is
    // written.
    unsafe {
        match weights {
            None => launch!(
                head_kernel,
                client,
                cubes,
                dim,
                address,
                width,
                linear(&logits),
                linear(&targets),
                linear(&losses),
                rows,
                share,
                f32::NAN,
                classes / width,
            ),
            Some(weights) => launch!(
                weighted_head_kernel,
                client,
                cubes,
                dim,
                address,
                width,
                linear(&logits),
                linear(&targets),
                linear(&weights),
                linear(&losses),
                rows,
                f32::NAN,
                classes / width,
            ),
        }
    }
    (losses, logits)
}

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
pub(in crate::ops::head) fn head_loss(
    [hidden, weight]: [Primitive; 2],
    targets: Tensor<1, Int>,
    weights: Option<Tensor<1>>,
    at_once: usize,
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
        let (loss, slopes) = match &weights {
            None => head(logits, targets, 1.0 / rows as f32),
            Some(weights) => {
                let weights = if is_all { weights.clone() } else { weights.clone().slice_dim(0, range) };
                weighted_head(logits, targets, Cube::plain(weights))
            }
        };
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
