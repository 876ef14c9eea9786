//! Tensors of bf16 made f32, for operations that compute in f32 alone.

use super::widened;
use crate::machine::autodiff::{CpuTensor, bf16_values, rounded_tensor};
use crate::op::{only, record};
use burn::tensor::{Bytes, DType, Tensor};
use burn_flex::{FlexTensor, Layout};

/// The same numbers in f32; the gradient is rounded to bf16.
pub(crate) fn widen_tensor<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let input = [CpuTensor::new(x)];
    let x = rounded_tensor(input[0].data().clone());
    let layout = Layout::contiguous(x.layout().shape().clone());
    let wide = FlexTensor::new(Bytes::from_elems(widened(bf16_values(&x))), layout, DType::F32);
    let [wide] = record(&input, [true], [wide], |output, _| [Some(rounded_tensor(only(output)))]);
    wide.into_tensor()
}
