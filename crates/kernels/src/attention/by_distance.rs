//! Attention whose scores come from one pair of q and k where tokens are near, and from another where they are far.
//!
//! Each pair reads its own range of distances. The kernel of the CPU takes both ranges in one call: a block of queries
//! has a column of logits for each key of either range, so that one softmax, one product with v and one backward pass
//! serve both, and v gets one gradient. That is the work of plain attention, but for the keys on the border: where it
//! runs through a block they have a column in both ranges.

use super::op::Attend;
use super::options::Attention;
use super::spec::{PartialAttention, QkRange, Shape};
use burn::tensor::Tensor;
use std::ops::Range;

/// Attention with two rotations chosen by distance: `ReRoPE`, Leaky `ReRoPE`, Self-Extend.
///
/// `near` and `far` are q `[batch, heads, queries, head_dim]` and k `[batch, key_heads, keys, head_dim]`; `border` is
/// the first far distance, in tokens. The distances of the options limit both.
///
/// # Panics
/// As [`attention`](super::attention()), the two pairs have different shapes, or there are vectors by distance or by count,
/// which would have two queries and keys to choose from.
pub fn attention_by_distance(
    near: [Tensor<4>; 2],
    far: [Tensor<4>; 2],
    v: Tensor<4>,
    border: usize,
    options: &Attention,
) -> Tensor<4> {
    partial_attention_by_distance(near, far, v, border, options).output
}

/// [`attention_by_distance`] with the log of each row's sum of exp(logits), which has a gradient too.
///
/// # Panics
/// As [`attention_by_distance`].
pub fn partial_attention_by_distance(
    near: [Tensor<4>; 2],
    far: [Tensor<4>; 2],
    v: Tensor<4>,
    border: usize,
    options: &Attention,
) -> PartialAttention {
    let shape = Shape::of(&near[0], &near[1], &v);
    assert_eq!(shape, Shape::of(&far[0], &far[1], &v), "attention: near and far of different shapes");
    assert!(options.terms.is_empty(), "attention: vectors by distance or by count with two pairs of q and k");
    options.check(&shape);
    let Range { start, end } = options.distances;
    // The distances below this one occur.
    let reach = end.min(options.query_offset + shape.queries);
    let range = |[q, k]: [Tensor<4>; 2], distances| QkRange { q, k, distances };
    let ranges = match border {
        _ if border <= start => vec![range(far, start..end)],
        _ if border >= reach => vec![range(near, start..end)],
        // Nearest last: the columns that a row sees end with its own key.
        _ => vec![range(far, border..end), range(near, start..border)],
    };
    let op = Attend {
        options: options.clone(),
        ranges: ranges.iter().map(|range| range.distances.clone()).collect(),
        shape,
        partial: true,
    };
    op.run(ranges, v)
}
