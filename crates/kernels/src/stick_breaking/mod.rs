//! The weights of stick-breaking attention.
//!
//! `beta_j = sigmoid(z_j)` of the logit of a query and key j is the share of a stick that the key breaks off, the newest key
//! (the last one) first: `p_j = beta_j prod_{t>j} (1 - beta_t)`, and `rest = prod_t (1 - beta_t)` is left (Tan et al.
//! 2024, arXiv:2410.17980, section 3). A product of shares leaves f32 soon, so its logarithm is summed:
//! `ln p_j = ln sigmoid(z_j) + sum_{t>j} ln sigmoid(-z_t)`. A hidden logit is minus infinity: its share is 0, and it leaves
//! all.
//!
//! With dp and dr the gradients of p and the rest, `dz_j = p_j dp_j (1 - beta_j) - beta_j (r dr + sum_{t<j} p_t dp_t)`.
//!
//! **Fused:** all of it. Plain operations write some ten tensors of all scores, and again in the backward pass.
//!
//! **Kept for the backward pass:** the logits and both outputs.
//!
//! **Bytes:** for n scores at least `8 n` forward (logits in, weights out) and `16 n` backward (logits, weights and gradient
//! in, gradient out).

mod flex;
mod gradient;
mod reference;

use crate::autodiff::{self, CpuTensor};
use burn::tensor::Tensor;

/// The least logit: its share is 0 in f32, and what it leaves 1.
const LEAST: f32 = -1e4;

/// The weights of the keys, and what they leave.
#[derive(Clone, Debug)]
pub struct Shares {
    /// `[batch, heads, queries, keys]`.
    pub weights: Tensor<4>,
    /// `[batch, heads, queries, 1]`.
    pub rest: Tensor<4>,
}

/// The shares of logits `[batch, heads, queries, keys]`, minus infinity where a key is hidden; the last key is the newest.
pub fn stick_breaking(logits: Tensor<4>) -> Shares {
    let shape @ [batch, heads, queries, keys] = logits.dims();
    if shape.contains(&0) || !autodiff::cpu_kernel_applies(&logits) {
        return reference::stick_breaking(logits);
    }
    let input = [CpuTensor::new(logits)];
    let [logits] = input.each_ref().map(|input| autodiff::compact(input.data().clone()));
    let (weights, rest) = flex::forward(&autodiff::values(&logits), keys);
    let weights = autodiff::tensor_of(weights, shape);
    let rest = autodiff::tensor_of(rest, [batch, heads, queries, 1]);
    let kept = [weights.clone(), rest.clone()];
    let [weights, rest] = autodiff::record_joint(&input, [weights, rest], || {
        let [weights, rest] = kept;
        gradient::Saved { logits, weights, rest }
    });
    Shares { weights: weights.into_tensor(), rest: rest.into_tensor() }
}

#[cfg(test)]
mod tests;
