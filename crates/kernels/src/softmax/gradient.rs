//! The gradient of the fused softmax.

use super::flex;
use crate::autodiff::{Gradient, tensor_of, values};
use burn_flex::FlexTensor;

/// What the gradient needs.
#[derive(Clone, Debug)]
pub(super) struct Saved<const D: usize> {
    pub(super) output: FlexTensor,
}

impl<const D: usize> Gradient<1> for Saved<D> {
    fn gradients(self, gradient: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let shape = self.output.layout().shape().dims::<D>();
        let gradient = flex::backward(&values(&self.output), &values(&gradient), shape[D - 1]);
        [Some(tensor_of(gradient, shape))]
    }
}
