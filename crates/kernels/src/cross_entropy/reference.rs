//! What the loss computes, in plain tensor operations.

use burn::tensor::{Int, Tensor};

pub(crate) fn cross_entropy(logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
    // The maximum only keeps exp in range; the value does not depend on it, so neither does the gradient.
    let largest = logits.clone().detach().max_dim(1);
    let sum = (logits.clone() - largest.clone()).exp().sum_dim(1);
    let picked = logits.gather(1, targets.unsqueeze_dim(1));
    (sum.log() + largest - picked).squeeze_dim(1)
}
