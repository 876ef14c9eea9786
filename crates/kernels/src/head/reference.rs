//! The head and its loss, one operation after the other: in the precision asked for, on every device, with all logits.

use crate::{Precision, cross_entropy, mean, sum};
use burn::tensor::{Int, Tensor};

/// `[rows, classes]`.
pub(super) fn logits(hidden: Tensor<3>, weight: Tensor<2>, precision: Precision) -> Tensor<2> {
    let logits = precision.linear(hidden, weight);
    let [batch, length, classes] = logits.dims();
    logits.reshape([batch * length, classes])
}

/// The loss of each row.
pub(super) fn losses(
    hidden: Tensor<3>,
    weight: Tensor<2>,
    targets: Tensor<1, Int>,
    precision: Precision,
) -> Tensor<1> {
    cross_entropy(logits(hidden, weight, precision), targets)
}

/// The loss of each row, and the class of its largest logit.
pub(super) fn scores(
    hidden: Tensor<3>,
    weight: Tensor<2>,
    targets: Tensor<1, Int>,
    precision: Precision,
) -> (Tensor<1>, Tensor<1, Int>) {
    let logits = logits(hidden, weight, precision);
    let guesses = logits.clone().argmax(1).squeeze_dim(1);
    (cross_entropy(logits, targets), guesses)
}

/// The sum of losses, each times its weight, or their mean.
pub(super) fn loss(losses: Tensor<1>, weights: Option<Tensor<1>>) -> Tensor<1> {
    match weights {
        None => mean(losses),
        // Constants, with or without autodiff as the losses are.
        Some(weights) if losses.is_autodiff() => sum(losses * Tensor::from_inner(weights)),
        Some(weights) => sum(losses * weights),
    }
}
