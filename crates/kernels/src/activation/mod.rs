//! The activations of feed-forward layers: GELU, and `SwiGLU` with its gate.
//!
//! **Fused:** the whole formula, one pass over the input; `SwiGLU` reads gate and up where the projection has
//! left them side by side. Backward, the derivative and its product with the gradient.
//!
//! **Kept for the backward pass:** the input; sigmoids and error functions are computed again.
//!
//! **Bytes:** for n numbers of output, GELU moves at least `8 n` forward (n in, n out) and `12 n` backward
//! (input and gradient in, gradient out); `SwiGLU`, whose input is 2 n, `12 n` forward and `20 n` backward.
//!
//! `flex.rs` says how it is done on the CPU, `cube/` on the GPU. Half-precision numbers come out as they went in and are computed with in f32: `half.rs`.

#[cfg(feature = "gpu")]
mod cube;
pub(crate) mod flex;
mod gradient;
mod half;
mod reference;

use crate::autodiff::{self, CpuTensor};
use crate::precision::is_half;
use burn::tensor::Tensor;

/// `x Φ(x)`, with Φ the normal distribution function: GELU in its exact form, by the error function
/// (Hendrycks & Gimpel 2016; torch's default).
///
/// x `[batch, length, width]` -> the same shape and type.
pub fn gelu(x: Tensor<3>) -> Tensor<3> {
    if is_half(&x) {
        return half::activation(x, half::Kind::Gelu);
    }
    #[cfg(feature = "gpu")]
    if autodiff::gpu_kernel_applies(&x) && x.shape().num_elements() > 0 {
        return cube::gelu(x);
    }
    if !autodiff::cpu_kernel_applies(&x) {
        return reference::gelu(x);
    }
    let shape = x.dims();
    let input = CpuTensor::new(x);
    let x = autodiff::compact(input.data().clone());
    let output = autodiff::tensor_of(flex::gelu(&autodiff::values(&x)), shape);
    autodiff::record(&[input], output, || gradient::Gelu(x))
}

/// `silu(gate) * up` with `silu(x) = x / (1 + exp(-x))` (Shazeer 2020, "GLU variants improve transformer").
///
/// packed `[batch, length, 2 hidden]` = `[gate | up]` -> `[batch, length, hidden]` of the same type.
///
/// # Panics
/// The last dimension is odd, or 0.
pub fn swiglu(packed: Tensor<3>) -> Tensor<3> {
    let [batch, length, width] = packed.dims();
    assert!(width > 0 && width.is_multiple_of(2), "swiglu takes [gate | up], an even width, not {width}");
    if is_half(&packed) {
        return half::activation(packed, half::Kind::Swiglu);
    }
    #[cfg(feature = "gpu")]
    if autodiff::gpu_kernel_applies(&packed) && batch * length > 0 {
        return cube::swiglu(packed);
    }
    if !autodiff::cpu_kernel_applies(&packed) {
        return reference::swiglu(packed);
    }
    let input = CpuTensor::new(packed);
    let packed = autodiff::compact(input.data().clone());
    let output = flex::swiglu(&autodiff::values(&packed), width / 2);
    let output = autodiff::tensor_of(output, [batch, length, width / 2]);
    autodiff::record(&[input], output, || gradient::Swiglu(packed))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Precision;
    use crate::testing::{assert_matches_on, flat, list, numbers, tensor};
    use burn::tensor::{DType, Device};

    /// x arrives with its first two dimensions swapped, so that it does not lie contiguously.
    fn x(inputs: &[Tensor<1>], [batch, length, width]: [usize; 3]) -> Tensor<3> {
        inputs[0].clone().mul_scalar(4.0).reshape([length, batch, width]).swap_dims(0, 1)
    }

    #[test]
    fn both_agree_with_the_reference() {
        both_agree(&Device::flex(), &[[1, 1, 2], [2, 37, 6], [3, 50, 130]]);
    }

    pub(crate) fn both_agree(device: &Device, shapes: &[[usize; 3]]) {
        for &shape in shapes {
            let inputs = [numbers(1, shape.iter().product())];
            assert_matches_on(
                device,
                &format!("gelu {shape:?}"),
                &inputs,
                |inputs| gelu(x(inputs, shape)),
                |inputs| reference::gelu(x(inputs, shape)),
            );
            assert_matches_on(
                device,
                &format!("swiglu {shape:?}"),
                &inputs,
                |inputs| swiglu(x(inputs, shape)),
                |inputs| reference::swiglu(x(inputs, shape)),
            );
        }
    }

    /// A half-precision activation is that of f32 at the same numbers, rounded, and its gradient too.
    #[test]
    fn halves_are_computed_in_f32_and_rounded() {
        let device = Device::flex().autodiff();
        let shape = [2, 5, 6];
        for precision in [Precision::F16, Precision::Bf16] {
            for activation in [gelu, swiglu] {
                let leaf = || flat(numbers(1, 60), &device).mul_scalar(4.0).detach().require_grad();
                let half = |leaf: &Tensor<1>| leaf.clone().cast(precision.dtype()).reshape(shape);
                let (a, b) = (leaf(), leaf());
                let calls = autodiff::calls();
                let actual = activation(half(&a));
                assert_eq!(actual.dtype(), precision.dtype());
                assert!(autodiff::calls() > calls, "the fused form did not run");
                let expected = activation(half(&b).cast(DType::F32)).cast(precision.dtype());
                let weights = |y: &Tensor<3>| tensor::<3>(2, y.dims(), &device).cast(precision.dtype());
                let slope = |y: &Tensor<3>| (y.clone() * weights(y)).cast(DType::F32).sum().backward();
                let (a_slope, b_slope) = (slope(&actual), slope(&expected));
                assert_eq!(list(actual.cast(DType::F32)), list(expected.cast(DType::F32)));
                let [actual, expected] = [(a, a_slope), (b, b_slope)].map(|(x, g)| list(x.grad(&g).unwrap()));
                // The formulas differ by rounding errors of f32, which may tip a rounding to half.
                let off = precision.unit_roundoff() as f32 * 2.0;
                crate::testing::assert_close("gradient", &actual, &expected, off);
                assert!(expected.iter().any(|x| x.abs() > 0.5));
            }
        }
    }

    /// GELU at points, by scipy's erf in f64.
    #[test]
    fn gelu_is_the_exact_form() {
        let x = flat(vec![-3.0, -1.0, -0.1, 0.0, 0.5, 2.0], &Device::flex()).reshape([1, 1, 6]);
        let expected = [-0.004_049_694, -0.158_655_25, -0.046_017_216, 0.0, 0.345_731_23, 1.954_499_7];
        crate::testing::assert_close("gelu", &list(gelu(x)), &expected, 1e-7);
    }
}
