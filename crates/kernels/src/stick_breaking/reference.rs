//! Stick-breaking in plain tensor operations.

use super::{LEAST, Shares};
use burn::tensor::{Tensor, activation::log_sigmoid};

pub(super) fn stick_breaking(logits: Tensor<4>) -> Shares {
    let [batch, heads, queries, keys] = logits.dims();
    let z = logits.clamp_min(LEAST);
    let left = log_sigmoid(z.clone().neg());
    let mut newer = Tensor::zeros([batch, heads, queries, 1], &left.device());
    if keys > 1 {
        // Newest first, and without the key itself.
        let sums = left.clone().flip([3]).cumsum(3).slice_dim(3, 0..keys - 1);
        newer = Tensor::cat(vec![newer, sums], 3).flip([3]);
    }
    Shares { weights: (log_sigmoid(z) + newer).exp(), rest: left.sum_dim(3).exp() }
}
