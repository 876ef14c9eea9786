//! Vectors by distance in plain tensor operations.

use super::VectorTable;
use crate::attention::Attention;
use burn::tensor::{IndexingUpdateOp, Int, Tensor, TensorData};

/// The bucket of each query and key, `[batch, heads, queries, keys]`; any for keys ahead of the query.
fn buckets(options: &Attention, table: &VectorTable, like: [usize; 4], x: &Tensor<4>) -> Tensor<4, Int> {
    let [_, _, queries, keys] = like;
    let of = |distance: isize| i64::from(table.buckets[distance.max(0).cast_unsigned()]);
    let buckets = TensorData::new(options.distances_of(queries, keys, of), [1, 1, queries, keys]);
    Tensor::<4, Int>::from_data(buckets, &x.device()).expand(like)
}

/// `scale * (q_i · keys[n] + bias)`.
pub(in crate::attention) fn key_products(
    options: &Attention,
    q: &Tensor<4>,
    keys: usize,
) -> Option<Tensor<4>> {
    let table = options.relative.keys.as_ref()?;
    let [batch, heads, queries, _] = q.dims();
    let mut products = q.clone().matmul(table.vectors.clone().unsqueeze::<4>().swap_dims(2, 3)); // [batch, heads, queries, buckets]
    if let Some(bias) = &options.relative.key_bias {
        let [heads, buckets] = bias.dims();
        products = products + bias.clone().reshape([1, heads, 1, buckets]);
    }
    let buckets = buckets(options, table, [batch, heads, queries, keys], q);
    Some(products.gather(3, buckets).mul_scalar(options.scale))
}

/// Adds `scale * queries[n] · k_j`; k has as many heads as q.
pub(in crate::attention) fn add_queries(
    options: &Attention,
    queries: usize,
    k: &Tensor<4>,
    logits: Tensor<4>,
) -> Tensor<4> {
    let Some(table) = &options.relative.queries else { return logits };
    let [batch, heads, keys, _] = k.dims();
    let products = k.clone().matmul(table.vectors.clone().unsqueeze::<4>().swap_dims(2, 3)); // [batch, heads, keys, buckets]
    let buckets = buckets(options, table, [batch, heads, queries, keys], k).swap_dims(2, 3);
    logits + products.gather(3, buckets).swap_dims(2, 3).mul_scalar(options.scale)
}

/// Adds the vectors of values, weighted by the probabilities `[batch, heads, queries, keys]`, to the output.
pub(in crate::attention) fn add_values(
    options: &Attention,
    probabilities: Tensor<4>,
    output: Tensor<4>,
) -> Tensor<4> {
    let Some(table) = &options.relative.values else { return output };
    let [batch, heads, queries, keys] = probabilities.dims();
    let chosen = buckets(options, table, [batch, heads, queries, keys], &probabilities);
    let none = Tensor::zeros([batch, heads, queries, table.vectors.dims()[1]], &probabilities.device());
    let sums = none.scatter(3, chosen, probabilities, IndexingUpdateOp::Add);
    output + sums.matmul(table.vectors.clone().unsqueeze::<4>())
}
