//! What the activations compute, in plain tensor operations.

use burn::tensor::{Tensor, activation};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

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

/// The gradient of x from that of [`gelu`]: `output (Φ(x) + x φ(x))`, φ the normal density.
pub(super) fn gelu_gradient(x: Tensor<3>, output: Tensor<3>) -> Tensor<3> {
    let below = x.clone().mul_scalar(FRAC_1_SQRT_2).erf().add_scalar(1.0).mul_scalar(0.5);
    let density = (x.clone() * x.clone()).mul_scalar(-0.5).exp().mul_scalar(1.0 / (2.0 * PI).sqrt());
    output * (below + x * density)
}

/// The gradient of `[gate | up]` from that of [`swiglu`]: the gate receives `output up s (1 + gate (1 - s))`, s the
/// sigmoid of the gate, up receives `output gate s`.
pub(super) fn swiglu_gradient(packed: Tensor<3>, output: Tensor<3>) -> Tensor<3> {
    let [_, _, width] = packed.dims();
    let gate = packed.clone().slice_dim(2, 0..width / 2);
    let up = packed.slice_dim(2, width / 2..width);
    let s = activation::sigmoid(gate.clone());
    let slope = s.clone() * (gate.clone() * s.clone().neg().add_scalar(1.0)).add_scalar(1.0);
    Tensor::cat(vec![output.clone() * up * slope, output * gate * s], 2)
}
