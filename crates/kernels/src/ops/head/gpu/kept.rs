//! What the gradient of the head and its loss needs, in f32 and in half precision.

use super::half::HalfHead;
use super::launch::Gradients;
use crate::machine::autodiff::Primitive;

/// What the gradient needs.
#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "one per step; its tensors are handles")]
pub(in crate::ops::head) enum Kept {
    /// The gradients themselves, for the gradient 1 of the loss.
    Gradients(Gradients),
    /// What they are computed from.
    Rows(HalfHead),
}

impl Kept {
    pub(in crate::ops::head) fn gradients(
        self,
        output: Primitive,
        wanted: [bool; 2],
    ) -> [Option<Primitive>; 2] {
        match self {
            Self::Gradients(gradients) => gradients.times(output),
            Self::Rows(rows) => rows.gradients(output, wanted),
        }
    }
}
