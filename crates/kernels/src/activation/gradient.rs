//! The gradients of the fused activations.

use super::flex;
use crate::autodiff::{Gradient, tensor_of, values};
use burn_flex::FlexTensor;

/// What the gradient of `gelu` needs: its input.
#[derive(Clone, Debug)]
pub(super) struct Gelu(pub(super) FlexTensor);

impl Gradient<1> for Gelu {
    fn gradients(self, output: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let shape = self.0.layout().shape().dims::<3>();
        [Some(tensor_of(flex::gelu_backward(&values(&self.0), &values(&output)), shape))]
    }
}

/// What the gradient of `swiglu` needs: its input.
#[derive(Clone, Debug)]
pub(super) struct Swiglu(pub(super) FlexTensor);

impl Gradient<1> for Swiglu {
    fn gradients(self, output: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let shape = self.0.layout().shape().dims::<3>();
        let gradient = flex::swiglu_backward(&values(&self.0), &values(&output), shape[2] / 2);
        [Some(tensor_of(gradient, shape))]
    }
}
