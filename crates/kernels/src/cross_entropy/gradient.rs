//! The gradient of the fused loss.

use super::flex;
use crate::autodiff::{Gradient, tensor_of, values};
use burn_flex::FlexTensor;

/// What the gradient needs.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    /// `[rows, classes]`.
    pub(super) logits: FlexTensor,
    pub(super) targets: Vec<usize>,
    /// `[rows]`.
    pub(super) log_sums: Vec<f32>,
}

impl Gradient<1> for Saved {
    fn gradients(self, output: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let Self { logits, targets, log_sums } = self;
        let classes = logits.layout().shape()[1];
        let gradient = flex::backward(&values(&logits), classes, &targets, &log_sums, &values(&output));
        [Some(tensor_of(gradient, [targets.len(), classes]))]
    }
}
