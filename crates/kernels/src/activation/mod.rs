//! The activations of feed-forward layers: GELU, and `SwiGLU` with its gate.
//!
//! **Fused:** the whole formula, one pass over the input; `SwiGLU` reads gate and up where the projection has
//! left them side by side. Backward, the derivative and its product with the gradient.
//!
//! **Kept for the backward pass:** the input; sigmoids and error functions are computed again.
//!
//! **Bytes:** for n numbers of output, GELU moves at least `8 n` forward (n in, n out) and `12 n` backward
//! (input and gradient in, gradient out); `SwiGLU`, whose input is 2 n, `12 n` forward and `20 n` backward.

mod autodiff;
mod flex;
mod reference;

use crate::tape::{self, Input};
use burn::tensor::Tensor;

/// `x Φ(x)`, with Φ the normal distribution function: GELU in its exact form, by the error function
/// (Hendrycks & Gimpel 2016; torch's default).
///
/// x `[batch, length, width]` -> the same shape.
pub fn gelu(x: Tensor<3>) -> Tensor<3> {
    if !(tape::fused() && tape::on_cpu(&x)) {
        return reference::gelu(x);
    }
    let shape = x.dims();
    let input = Input::new(x);
    let x = tape::compact(input.data().clone());
    let output = tape::tensor_of(flex::gelu(&tape::values(&x)), shape);
    tape::record(&[input], output, || autodiff::Gelu(x))
}

/// `silu(gate) * up` with `silu(x) = x / (1 + exp(-x))` (Shazeer 2020, "GLU variants improve transformer").
///
/// packed `[batch, length, 2 hidden]` = `[gate | up]` -> `[batch, length, hidden]`.
///
/// # Panics
/// The last dimension is odd, or 0.
pub fn swiglu(packed: Tensor<3>) -> Tensor<3> {
    let [batch, length, width] = packed.dims();
    assert!(width > 0 && width.is_multiple_of(2), "swiglu takes [gate | up], an even width, not {width}");
    if !(tape::fused() && tape::on_cpu(&packed)) {
        return reference::swiglu(packed);
    }
    let input = Input::new(packed);
    let packed = tape::compact(input.data().clone());
    let output = flex::swiglu(&tape::values(&packed), width / 2);
    let output = tape::tensor_of(output, [batch, length, width / 2]);
    tape::record(&[input], output, || autodiff::Swiglu(packed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{flat, hold_against, list, numbers};
    use burn::tensor::Device;

    /// x arrives with its first two dimensions exchanged, so that it does not lie contiguously.
    fn x(inputs: &[Tensor<1>], [batch, length, width]: [usize; 3]) -> Tensor<3> {
        inputs[0].clone().mul_scalar(4.0).reshape([length, batch, width]).swap_dims(0, 1)
    }

    #[test]
    fn both_agree_with_the_reference() {
        for shape in [[1, 1, 2], [2, 37, 6], [3, 50, 130]] {
            let inputs = [numbers(1, shape.iter().product())];
            hold_against(
                &format!("gelu {shape:?}"),
                &inputs,
                |inputs| gelu(x(inputs, shape)),
                |inputs| reference::gelu(x(inputs, shape)),
            );
            hold_against(
                &format!("swiglu {shape:?}"),
                &inputs,
                |inputs| swiglu(x(inputs, shape)),
                |inputs| reference::swiglu(x(inputs, shape)),
            );
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
