//! Tensors of bf16 made f32, for operations that compute in f32 alone.

use super::widened;
use crate::autodiff::{self, CpuTensor, Gradient, bf16_values, rounded_tensor};
use burn::tensor::{Bytes, DType, Tensor};
use burn_flex::{FlexTensor, Layout};

/// The same numbers in f32; the gradient is rounded to bf16.
pub(crate) fn widen_tensor<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let input = [CpuTensor::new(x)];
    let x = rounded_tensor(input[0].data().clone());
    let layout = Layout::contiguous(x.layout().shape().clone());
    let output = FlexTensor::new(Bytes::from_elems(widened(bf16_values(&x))), layout, DType::F32);
    autodiff::record(&input, output, || Widened)
}

/// What the gradient needs: nothing.
#[derive(Clone, Debug)]
struct Widened;

impl Gradient<1> for Widened {
    fn gradients(self, output: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        [Some(rounded_tensor(output))]
    }
}
