//! Stick-breaking attention: weights that older keys cannot change.
//!
//! `beta_ij = sigmoid(z_ij)` of the logit of a query and a key is the share of a stick that the key breaks off, and the
//! nearest key comes first: `p_ij = beta_ij prod_{j<t<i} (1 - beta_it)`. What no key takes is
//! `rest_i = prod (1 - beta_it) = 1 - sum_j p_ij`. A query does not see its own key, as published, unless `attend_current`
//! says so; the rest then goes to its own value (`remainder`), to a learned vector of the head, or nowhere (Tan et al.
//! 2024, arXiv:2410.17980, section 3; the authors' `sb_ref.py`; the vector is that of dolomite-engine). Positions enter
//! through the order of the keys alone, and any encoding may change the logits besides.
//!
//! Queries are read in blocks ([`super::blocks`]), each with all its keys, and one kernel computes the weights of a block
//! ([`stick_breaking`](longwave_kernels::stick_breaking())).

use burn::tensor::{Bool, Tensor, TensorData};
use longwave_kernels::device::constant;
use longwave_kernels::{Shares, stick_breaking};
use longwave_position::reading::StickBreaking;
use std::ops::Range;

/// The shares of scores `[batch, heads, queries, keys]` of some queries, minus infinity where a key is hidden.
pub(super) fn shares(scores: Tensor<4>, stick: StickBreaking, queries: &Range<usize>) -> Shares {
    if stick.attend_current {
        return stick_breaking(scores);
    }
    let shape @ [_, _, count, keys] = scores.dims();
    let is_own: Vec<bool> =
        queries.clone().flat_map(|query| (0..keys).map(move |key| key == query)).collect();
    let is_own: Tensor<4, Bool> = constant(TensorData::new(is_own, [1, 1, count, keys]), &scores.device());
    stick_breaking(scores.mask_fill(is_own.expand(shape), f32::NEG_INFINITY))
}

#[cfg(test)]
mod tests;
