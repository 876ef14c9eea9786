//! The numbers of CPU tensors as slices, and tensors of numbers.

use crate::machine::bf16::rounded;
use crate::machine::matmul::Matrix;
use crate::machine::simd::Number;
use burn::tensor::{Bytes, DType, Element, Int, Shape, Tensor, bf16};
use burn_flex::{FlexTensor, Layout};
use std::borrow::Cow;

/// A type of numbers that CPU tensors hold.
pub(crate) trait Stored: Number + Element {
    /// The numbers of a tensor of f32 or bf16 in row-major order; copied only if they do not lie so.
    fn numbers(tensor: &FlexTensor) -> Cow<'_, [Self]>;
}

impl Stored for f32 {
    fn numbers(tensor: &FlexTensor) -> Cow<'_, [Self]> {
        values(tensor)
    }
}

impl Stored for bf16 {
    fn numbers(tensor: &FlexTensor) -> Cow<'_, [Self]> {
        match (tensor.dtype(), tensor.as_slice::<Self>()) {
            (DType::BF16, Some(numbers)) => Cow::Borrowed(numbers),
            _ => Cow::Owned(bf16_values(&rounded_tensor(tensor.clone())).to_vec()),
        }
    }
}

/// Computes with the type of a tensor's numbers, bf16 or f32.
macro_rules! with_type {
    ($tensor:expr, $type:ident => $result:expr) => {
        if $tensor.dtype() == burn::tensor::DType::BF16 {
            type $type = burn::tensor::bf16;
            $result
        } else {
            type $type = f32;
            $result
        }
    };
}
pub(crate) use with_type;

/// A tensor to keep, whose numbers lie in row-major order; copied only if they do not.
pub(crate) fn stored(tensor: FlexTensor) -> FlexTensor {
    let lies = with_type!(tensor, T => tensor.as_slice::<T>().is_some());
    if lies { tensor } else { tensor.to_contiguous() }
}

/// A new tensor of row-major values.
pub(crate) fn tensor_of<T: Stored>(values: Vec<T>, shape: impl Into<Shape>) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(values), Layout::contiguous(shape.into()), T::dtype())
}

/// The values of a tensor of f32 or bf16 in bf16 and in row-major order; copied only if they do not lie so.
pub(crate) fn rounded_tensor(tensor: FlexTensor) -> FlexTensor {
    match tensor.dtype() {
        DType::BF16 if tensor.as_slice::<bf16>().is_some() => tensor,
        DType::BF16 => tensor.to_contiguous(),
        _ => {
            let halves = Bytes::from_elems(rounded(&values(&tensor)));
            FlexTensor::new(halves, Layout::contiguous(tensor.layout().shape().clone()), DType::BF16)
        }
    }
}

/// The values of a [`rounded_tensor`].
///
/// # Panics
/// It is none.
pub(crate) fn bf16_values(tensor: &FlexTensor) -> &[bf16] {
    tensor.as_slice::<bf16>().expect("bf16 in row-major order")
}

/// A new tensor whose axis n is axis `axes[n]` of the row-major values of shape `shape`.
pub(crate) fn permuted_tensor_of<const D: usize>(
    values: Vec<f32>,
    shape: [usize; D],
    axes: [usize; D],
) -> FlexTensor {
    tensor_of(values, shape).permute(&axes)
}

/// The values of a tensor in row-major order; copied only if they do not lie so.
pub(crate) fn values(tensor: &FlexTensor) -> Cow<'_, [f32]> {
    match tensor.as_slice::<f32>() {
        Some(values) => Cow::Borrowed(values),
        None => Cow::Owned(tensor.to_contiguous().storage::<f32>().to_vec()),
    }
}

/// The same values in row-major order in a buffer of their own length, for writing in place; copied
/// only if they do not lie so.
pub(crate) fn compact(tensor: FlexTensor) -> FlexTensor {
    let count = tensor.layout().num_elements();
    let whole = tensor.as_slice::<f32>().is_some() && tensor.storage::<f32>().len() == count;
    if whole {
        return tensor;
    }
    let copy = Bytes::from_elems(values(&tensor).into_owned());
    FlexTensor::new(copy, Layout::contiguous(tensor.layout().shape().clone()), DType::F32)
}

/// A view of a tensor with D axes, the last of which lies contiguously; copied if it does not.
pub(crate) struct View<const D: usize> {
    tensor: FlexTensor,
    strides: [usize; D],
}

impl<const D: usize> View<D> {
    pub(crate) fn new(tensor: &FlexTensor) -> Self {
        let strides = tensor.layout().strides();
        let last = tensor.layout().shape()[D - 1];
        let direct = strides.iter().all(|stride| *stride >= 0) && (strides[D - 1] == 1 || last <= 1);
        let tensor = if direct { tensor.clone() } else { tensor.to_contiguous() };
        let mut strides: [usize; D] = std::array::from_fn(|axis| tensor.layout().strides()[axis] as usize);
        strides[D - 1] = 1;
        Self { tensor, strides }
    }

    /// All values from the start of the view; index it with [`Self::strides`].
    pub(crate) fn data(&self) -> &[f32] {
        &self.tensor.storage::<f32>()[self.tensor.layout().start_offset()..]
    }

    /// The distance between neighbours along each axis.
    pub(crate) fn strides(&self) -> [usize; D] {
        self.strides
    }
}

impl View<4> {
    /// `[rows, width]` of a head of `[batch, heads, length, width]`, from row `first` on.
    pub(crate) fn head_rows(
        &self,
        batch: usize,
        head: usize,
        first: usize,
        rows: usize,
        width: usize,
    ) -> Matrix<'_> {
        let [of_batch, of_head, of_row, _] = self.strides;
        let from = batch * of_batch + head * of_head + first * of_row;
        Matrix::new(&self.data()[from..], rows, width, of_row)
    }
}

/// Class numbers below `classes`, as a slice.
///
/// # Panics
/// A number is negative or not below `classes`.
pub(crate) fn indices(tensor: Tensor<1, Int>, classes: usize) -> Vec<usize> {
    tensor
        .into_data()
        .iter::<i64>()
        .map(|index| match usize::try_from(index) {
            Ok(index) if index < classes => index,
            _ => panic!("class {index} of {classes} classes"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::autodiff::CpuTensor;
    use crate::testing::{list, tensor};
    use burn::tensor::Device;

    #[test]
    fn views_read_what_lies_contiguously_and_copy_the_rest() {
        let device = Device::flex();
        let x = tensor::<3>(1, [2, 3, 4], &device);
        let permuted = CpuTensor::new(x.clone().swap_dims(0, 1)).into_data();
        assert_eq!(View::<3>::new(&permuted).strides(), [4, 12, 1]);
        let sliced = CpuTensor::new(x.clone().slice([1..2, 1..3, 1..3])).into_data();
        let view = View::<3>::new(&sliced);
        assert_eq!((view.strides()[1], view.data()[0]), (4, list(x.clone())[12 + 4 + 1]));
        let across = CpuTensor::new(x.swap_dims(1, 2)).into_data();
        assert_eq!(View::<3>::new(&across).strides(), [12, 3, 1]);
        assert_eq!(compact(sliced).storage::<f32>().len(), 4);
    }
}
