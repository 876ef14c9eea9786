//! Channels as vectors in the plane in plain tensor operations.

use burn::tensor::{Tensor, activation::softplus};

pub(super) fn polar(x: Tensor<4>, cos: Tensor<4>, sin: Tensor<4>) -> Tensor<4> {
    let length = softplus(x, 1.0);
    Tensor::cat(vec![length.clone() * cos, length * sin], 3)
}
