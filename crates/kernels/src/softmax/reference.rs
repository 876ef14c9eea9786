//! What the softmax computes, in plain tensor operations.

use burn::tensor::Tensor;

/// burn's softmax, but for the rows that are minus infinity throughout.
pub(crate) fn softmax<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    // The largest score only keeps exp in range; the value does not depend on it, so neither does the gradient.
    let largest = x.clone().detach().max_dim(D - 1);
    let none = largest.clone().lower_elem(f32::MIN);
    let exp = (x - largest.mask_fill(none.clone(), 0.0)).exp();
    let sum = exp.clone().sum_dim(D - 1).mask_fill(none, 1.0);
    exp / sum
}
