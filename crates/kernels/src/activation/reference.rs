//! What the activations compute, in plain tensor operations.

use burn::tensor::{Tensor, activation};

pub(super) fn gelu(x: Tensor<3>) -> Tensor<3> {
    activation::gelu(x)
}

pub(super) fn swiglu(packed: Tensor<3>) -> Tensor<3> {
    let [_, _, width] = packed.dims();
    let gate = packed.clone().slice_dim(2, 0..width / 2);
    let up = packed.slice_dim(2, width / 2..width);
    activation::silu(gate) * up
}
