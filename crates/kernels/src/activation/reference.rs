//! What the activations compute, in plain tensor operations.

use burn::tensor::{Tensor, activation};
use std::f64::consts::FRAC_1_SQRT_2;

/// By the error function itself: the gradient of burn's own `gelu` is that of the tanh approximation
/// on every device but the CPU.
pub(super) fn gelu(x: Tensor<3>) -> Tensor<3> {
    let below = x.clone().mul_scalar(FRAC_1_SQRT_2).erf().add_scalar(1.0).mul_scalar(0.5);
    x * below
}

pub(super) fn swiglu(packed: Tensor<3>) -> Tensor<3> {
    let [_, _, width] = packed.dims();
    let gate = packed.clone().slice_dim(2, 0..width / 2);
    let up = packed.slice_dim(2, width / 2..width);
    activation::silu(gate) * up
}
