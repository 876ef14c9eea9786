//! Vector-Jacobian products: a backward pass that starts with given gradients.

use crate::machine::autodiff::{self, CpuTensor, tensor_of};
use crate::op::record;
use burn::tensor::Tensor;

/// A `[1]` tensor whose backward pass starts each output at the gradient given with it, of its shape.
///
/// `with_gradients(..).backward()` computes the vector-Jacobian product of whatever made the outputs. On
/// the CPU nothing else is computed on the way, so that an operation's gradient can be timed alone; on
/// other devices it is the sum of the products of outputs and gradients, with that sum's own passes.
///
/// # Panics
/// A gradient has another shape than its output.
pub fn with_gradients<const N: usize, const D: usize>(pairs: [(Tensor<D>, Tensor<D>); N]) -> Tensor<1> {
    for (output, gradient) in &pairs {
        assert_eq!(output.dims(), gradient.dims(), "with_gradients: a gradient of another shape");
    }
    if pairs
        .iter()
        .all(|(output, gradient)| autodiff::is_f32_on_cpu(output) && autodiff::is_f32_on_cpu(gradient))
    {
        let gradients = pairs.each_ref().map(|(_, gradient)| CpuTensor::new(gradient.clone()).into_data());
        let outputs = pairs.map(|(output, _)| CpuTensor::new(output));
        let start = move |_, _| gradients.map(Some);
        let [start] = record::<_, _, N, 1>(&outputs, [true; N], [tensor_of(vec![0.0], [1])], start);
        return start.into_tensor();
    }
    let sums = pairs.map(|(output, gradient)| {
        let gradient = if gradient.is_autodiff() { gradient } else { Tensor::from_inner(gradient) };
        (output * gradient).sum()
    });
    Tensor::cat(sums.to_vec(), 0).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, list, tensor};
    use burn::tensor::Device;

    #[test]
    fn the_backward_pass_starts_at_what_is_given() {
        let device = Device::flex();
        let x = tensor::<2>(1, [3, 4], &device);
        let [g, h] = [2, 3].map(|seed| tensor::<2>(seed, [3, 4], &device));
        let leaf = Tensor::<2>::from_inner(x.clone()).require_grad();
        let outputs = (leaf.clone().mul_scalar(3.0), leaf.clone().square());
        let gradients = with_gradients([(outputs.0, g.clone()), (outputs.1, h.clone())]).backward();
        let expected = g.mul_scalar(3.0) + h * x.mul_scalar(2.0);
        assert_close("gradient", &list(leaf.grad(&gradients).unwrap()), &list(expected), 1e-6);
    }

    #[test]
    #[should_panic(expected = "a gradient of another shape")]
    fn another_shape_is_rejected() {
        let device = Device::flex();
        let _ = with_gradients([(tensor::<2>(1, [3, 4], &device), tensor::<2>(1, [4, 3], &device))]);
    }
}
