//! The head and its loss, one operation after the other: in the precision asked for, on every device. Where nothing is
//! tracked, the logits of a block of rows exist at a time.

use super::LOGITS_BYTES;
use crate::{Precision, cross_entropy, mean, sum};
use burn::tensor::{Int, Tensor};
use std::ops::Range;

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
    let at_once = rows_at_once(&hidden, &weight);
    let of_block = |(hidden, targets)| cross_entropy(logits(hidden, weight.clone(), precision), targets);
    let blocks = in_blocks(hidden, targets, at_once).map(of_block).collect();
    joined(blocks, Tensor::cat)
}

/// The loss of each row, and the class of its largest logit.
pub(super) fn scores(
    hidden: Tensor<3>,
    weight: Tensor<2>,
    targets: Tensor<1, Int>,
    precision: Precision,
) -> (Tensor<1>, Tensor<1, Int>) {
    let at_once = rows_at_once(&hidden, &weight);
    let of_block = |(hidden, targets)| {
        let logits = logits(hidden, weight.clone(), precision);
        let guesses = logits.clone().argmax(1).squeeze_dim(1);
        (cross_entropy(logits, targets), guesses)
    };
    let (losses, guesses) = in_blocks(hidden, targets, at_once).map(of_block).unzip();
    (joined(losses, Tensor::cat), joined(guesses, Tensor::cat))
}

/// Rows whose logits exist at once: all where something is tracked, since the gradient keeps them.
fn rows_at_once(hidden: &Tensor<3>, weight: &Tensor<2>) -> usize {
    let rows = hidden.dims()[0] * hidden.dims()[1];
    let is_tracked = hidden.is_tracked() || weight.is_tracked();
    if is_tracked { rows } else { rows.min(rows_of_block(weight.dims()[1])) }
}

/// Blocks of rows of hidden states and their targets.
fn in_blocks(
    hidden: Tensor<3>,
    targets: Tensor<1, Int>,
    at_once: usize,
) -> impl Iterator<Item = (Tensor<3>, Tensor<1, Int>)> {
    let [batch, length, width] = hidden.dims();
    let rows = batch * length;
    blocks(rows, at_once).map(move |range| {
        if range.len() == rows {
            return (hidden.clone(), targets.clone());
        }
        let hidden = hidden.clone().reshape([1, rows, width]).slice_dim(1, range.clone());
        (hidden, targets.clone().slice_dim(0, range))
    })
}

/// Blocks of rows, at least one.
pub(super) fn blocks(rows: usize, at_once: usize) -> impl Iterator<Item = Range<usize>> {
    let at_once = at_once.max(1);
    (0..rows.max(1)).step_by(at_once).map(move |first| first..rows.min(first + at_once))
}

/// Rows of a block of logits, at least one.
pub(super) fn rows_of_block(classes: usize) -> usize {
    (LOGITS_BYTES / classes.saturating_mul(size_of::<f32>()).max(1)).max(1)
}

fn joined<T>(mut blocks: Vec<T>, cat: impl FnOnce(Vec<T>, usize) -> T) -> T {
    if blocks.len() == 1 { blocks.remove(0) } else { cat(blocks, 0) }
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
