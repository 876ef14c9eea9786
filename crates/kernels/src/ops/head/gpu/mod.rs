//! The head and its loss on the GPU, by blocks of rows whose logits take [`super::LOGITS_BYTES`] at most.
//!
//! For each block burn's product makes the logits. One launch, a cube for a row, adds up their exponentials and then turns
//! them into their gradient where they lie, in a second pass over the row; two more products make those of hidden states
//! and weights. The gradient of the loss is on the device, and nobody waits to learn that it is 1: both gradients are
//! multiplied by it. `half.rs` has half precision.

// What the macros make of kernels is theirs.
#![allow(clippy::too_many_arguments, clippy::pedantic)]

mod half;
mod launch;
#[cfg(test)]
mod tests;

use super::HeadLoss;
use crate::Precision;
use crate::machine::autodiff::Primitive;
use crate::ops::cross_entropy::gpu::{UNITS, picked, row_log_sum, weighted_slope};
use burn_cubecl::cubecl;
use cubecl::prelude::*;
use half::HalfHead;
use launch::Gradients;

#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "one per step; its tensors are handles")]
pub(super) enum Kept {
    /// The gradients themselves, for the gradient 1 of the loss.
    Gradients(Gradients),
    /// What they are computed from, in half precision.
    Rows(HalfHead),
}

impl Kept {
    pub(super) fn gradients(self, output: Primitive, wanted: [bool; 2]) -> [Option<Primitive>; 2] {
        match self {
            Self::Gradients(gradients) => gradients.times(output),
            Self::Rows(rows) => rows.gradients(output, wanted),
        }
    }
}

/// [`head_loss`](crate::head_loss) of hidden states and weights that the kernels support.
pub(super) fn head_loss(inputs: [Primitive; 2], head: HeadLoss, wanted: [bool; 2]) -> (Primitive, Kept) {
    if head.precision == Precision::F32 {
        let (loss, gradients) = launch::head_loss(inputs, head, wanted);
        return (loss, Kept::Gradients(gradients));
    }
    let rows = HalfHead::new(inputs, head);
    (rows.loss(), Kept::Rows(rows))
}

/// The losses of rows, each times its weight or else all times one share, and the gradient of their sum in the place of the
/// logits.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
fn head_kernel<N: Size>(
    logits: &mut [Vector<f32, N>],
    targets: &[i32],
    weights: &[f32],
    losses: &mut [f32],
    rows: usize,
    share: f32,
    nan: f32,
    #[comptime] weighted: bool,
    #[comptime] vectors: usize,
) {
    let row = CUBE_POS;
    if row >= rows {
        terminate!();
    }
    if comptime!(weighted) {
        loss_and_slope::<N>(logits, targets, losses, row, weights[row], nan, vectors);
    } else {
        loss_and_slope::<N>(logits, targets, losses, row, share, nan, vectors);
    }
}

#[cube]
fn loss_and_slope<N: Size>(
    logits: &mut [Vector<f32, N>],
    targets: &[i32],
    losses: &mut [f32],
    row: usize,
    share: f32,
    nan: f32,
    #[comptime] vectors: usize,
) {
    let from = row * vectors;
    let target = targets[row];
    let log_sum = row_log_sum::<N>(&*logits, from, vectors);
    if UNIT_POS == 0 {
        losses[row] = share * (log_sum - picked::<N>(&*logits, from, target, nan, vectors));
    }
    // The target's logit has been read.
    sync_cube();
    let mut at = UNIT_POS as usize;
    while at < vectors {
        logits[from + at] = weighted_slope::<N>(logits[from + at], log_sum, share, target, at);
        at += UNITS;
    }
}
