//! The gradient of the fused loss.

use super::flex;
use crate::autodiff::{Gradient, bf16_tensor_of, bf16_values, tensor_of, values};
use burn::tensor::DType;
use burn_flex::FlexTensor;

/// What the gradient needs.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    /// `[rows, classes]`, of f32 or bf16.
    pub(super) logits: FlexTensor,
    pub(super) targets: Vec<usize>,
    /// `[rows]`.
    pub(super) log_sums: Vec<f32>,
}

impl Gradient<1> for Saved {
    fn gradients(self, output: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let Self { logits, targets, log_sums } = self;
        let classes = logits.layout().shape()[1];
        let shape = [targets.len(), classes];
        let output = values(&output);
        let gradient = if logits.dtype() == DType::BF16 {
            let gradient = flex::backward(bf16_values(&logits), classes, &targets, &log_sums, &output);
            bf16_tensor_of(gradient, shape)
        } else {
            tensor_of(flex::backward(&values(&logits), classes, &targets, &log_sums, &output), shape)
        };
        [Some(gradient)]
    }
}
