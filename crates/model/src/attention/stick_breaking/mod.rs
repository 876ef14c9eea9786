//! Stick-breaking attention: weights that older keys cannot change.
//!
//! `beta_ij = sigmoid(z_ij)` of the logit of a query and a key is the share of a stick that the key breaks off, and the
//! nearest key comes first: `p_ij = beta_ij prod_{j<t<i} (1 - beta_it)`. What no key takes is
//! `rest_i = prod (1 - beta_it) = 1 - sum_j p_ij`. A query does not see its own key, as published, unless `attend_current`
//! says so; the rest then goes to its own value (`remainder`), to a learned vector of the head, or nowhere (Tan et al.
//! 2024, arXiv:2410.17980, section 3; the authors' `sb_ref.py`; the vector is that of dolomite-engine). Positions enter
//! through the order of the keys alone, and any encoding may change the logits besides.
//!
//! A product of shares leaves f32 soon, so its logarithm is summed from the nearest key on:
//! `ln p_ij = ln sigmoid(z_ij) + sum_{j<t<i} ln sigmoid(-z_it)`. Queries are read in blocks ([`super::blocks`]), each with
//! all its keys.

use burn::tensor::{Tensor, activation::log_sigmoid};

/// The logit of a hidden key: its share is 0 in f32, and what it leaves 1.
const HIDDEN: f64 = -1e4;

/// The weights of the keys and what they leave.
pub(super) struct Shares {
    /// `[batch, heads, queries, keys]`.
    pub(super) weights: Tensor<4>,
    /// `[batch, heads, queries, 1]`.
    pub(super) rest: Tensor<4>,
}

/// The shares of logits `[batch, heads, queries, keys]`, minus infinity where a key is hidden; the last key is the newest.
pub(super) fn shares(logits: Tensor<4>) -> Shares {
    let [batch, heads, queries, keys] = logits.dims();
    let z = logits.clamp_min(HIDDEN);
    let left = log_sigmoid(z.clone().neg());
    let mut newer = Tensor::zeros([batch, heads, queries, 1], &left.device());
    if keys > 1 {
        // Newest first, and without the key itself.
        let sums = left.clone().flip([3]).cumsum(3).slice_dim(3, 0..keys - 1);
        newer = Tensor::cat(vec![newer, sums], 3).flip([3]);
    }
    Shares { weights: (log_sigmoid(z) + newer).exp(), rest: left.sum_dim(3).exp() }
}

#[cfg(test)]
mod tests;
