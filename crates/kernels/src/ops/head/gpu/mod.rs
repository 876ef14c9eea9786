//! The head and its loss on the GPU, by blocks of rows whose logits take [`super::LOGITS_BYTES`] at most.
//!
//! For each block burn's product makes the logits. One launch, a cube for a row, adds up their exponentials and then turns
//! them into their gradient where they lie, in a second pass over the row; two more products make those of hidden states
//! and weights. The gradient of the loss is on the device, and nobody waits to learn that it is 1: both gradients are
//! multiplied by it. `half.rs` has half precision.

mod half;
mod launch;
#[cfg(test)]
mod tests;

use super::HeadLoss;
use crate::Precision;
use crate::machine::autodiff::Primitive;
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
