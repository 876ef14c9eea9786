//! Vectors by count in plain tensor operations.

use crate::attention::Attention;
use burn::tensor::{Bool, Tensor, TensorData, activation::sigmoid};

/// Adds the products of queries with the vectors that they count to. The logits are those of q times `query_scale`.
pub(in crate::attention) fn add_counted(
    options: &Attention,
    q: &Tensor<4>,
    query_scale: Option<&Tensor<4>>,
    logits: Tensor<4>,
) -> Tensor<4> {
    let Some(counted) = &options.counted else { return logits };
    let vectors = &counted.vectors;
    let [_, _, queries, keys] = logits.dims();
    let ahead = TensorData::new(options.distances_of(queries, keys, |n| n < 0), [1, 1, queries, keys]);
    let ahead = Tensor::<4, Bool>::from_data(ahead, &logits.device()).expand(logits.dims());
    let gates =
        sigmoid(logits.clone().mul_scalar(counted.on_scaled(options.scale))).mask_fill(ahead.clone(), 0.0);
    let last = (vectors.dims()[0] - 1) as f64;
    // Keys ahead are hidden, whatever they count to.
    let counts = gates.flip([3]).cumsum(3).flip([3]).clamp_max(last).mask_fill(ahead, 0.0);
    let products = q.clone().matmul(vectors.clone().transpose().unsqueeze::<4>()); // [batch, heads, queries, positions]
    let products = match query_scale {
        Some(scale) => products * scale.clone(),
        None => products,
    };
    let low = counts.clone().detach().floor();
    let share = counts.clone() - low.clone();
    let below = products.clone().gather(3, low.int());
    let above = products.gather(3, counts.detach().ceil().int());
    logits + below.clone() + (above - below) * share
}
