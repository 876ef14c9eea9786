//! What attention computes, in plain tensor operations.

use super::counted::reference::add_counted;
use super::normaliser::softmax::plain as plain_softmax;
use super::relative::reference::{add_queries, add_values, key_products};
use super::{Attention, Bias, NOTHING_SEEN, PartialAttention, Shape};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};

/// Logits computed at once where no gradient needs them all: 64 MiB in f32.
const LOGITS_AT_ONCE: usize = 1 << 24;

pub(super) fn attention(qkv: [Tensor<4>; 3], options: &Attention, shape: &Shape) -> Tensor<4> {
    let outputs = in_blocks(qkv, options, shape, |[q, k, v], options| {
        let logits = logits(q, k, options); // [batch, heads, queries, keys]
        let probabilities = options.normaliser.plain(logits, options.query_offset);
        add_values(options, probabilities.clone(), probabilities.matmul(v))
    });
    Tensor::cat(outputs, 2)
}

/// Attention by another normaliser than the softmax, whose parts cannot be merged: all logits at once, each pair's from the q and
/// k of its range of distances.
pub(super) fn attention_in_two(
    [q, k, v]: [Tensor<4>; 3],
    [other_q, other_k]: [Tensor<4>; 2],
    [options, other]: [Attention; 2],
    shape: &Shape,
) -> Tensor<4> {
    let group = shape.heads / shape.key_heads;
    let [k, v, other_k] = [k, v, other_k].map(|x| repeat_heads(x, group));
    let device = q.device();
    let hidden = hidden(&options, shape.queries, shape.keys, &device).unsqueeze::<4>();
    let logits = logits(q, k, &options);
    let hidden = hidden.expand(logits.dims());
    let logits = logits.mask_where(hidden, self::logits(other_q, other_k, &other));
    options.normaliser.plain(logits, options.query_offset).matmul(v)
}

pub(super) fn partial_attention(qkv: [Tensor<4>; 3], options: &Attention, shape: &Shape) -> PartialAttention {
    let parts = in_blocks(qkv, options, shape, |[q, k, v], options| {
        let logits = logits(q, k, options);
        let probabilities = plain_softmax(logits.clone());
        (add_values(options, probabilities.clone(), probabilities.matmul(v)), log_sums(logits))
    });
    let (outputs, log_sums) = parts.into_iter().unzip();
    PartialAttention { output: Tensor::cat(outputs, 2), log_sums: Tensor::cat(log_sums, 2) }
}

/// What `read` makes of each block of queries, with equal head counts: all queries are one block if a gradient needs
/// the logits.
fn in_blocks<T>(
    [q, k, v]: [Tensor<4>; 3],
    options: &Attention,
    shape: &Shape,
    read: impl Fn([Tensor<4>; 3], &Attention) -> T,
) -> Vec<T> {
    let Shape { batch, heads, key_heads, queries, keys, .. } = *shape;
    let rows = (LOGITS_AT_ONCE / (batch * heads * keys).max(1)).max(1);
    let tracked = [&q, &k, &v].into_iter().any(Tensor::is_tracked)
        || bias_is_tracked(&options.bias)
        || options.relative.is_tracked()
        || options.counted.as_ref().is_some_and(|counted| counted.vectors.is_tracked());
    let (k, v) = (repeat_heads(k, heads / key_heads), repeat_heads(v, heads / key_heads));
    if tracked || rows >= queries {
        return vec![read([q, k, v], options)];
    }
    let block = |first: usize| {
        let count = rows.min(queries - first);
        let end = options.keys_end(first, count, keys);
        let q = q.clone().slice_dim(2, first..first + count);
        let [k, v] = [&k, &v].map(|x| x.clone().slice_dim(2, 0..end));
        read([q, k, v], &rows_of(options, first, count, end))
    };
    (0..queries).step_by(rows).map(block).collect()
}

fn bias_is_tracked(bias: &Bias) -> bool {
    match bias {
        Bias::None => false,
        Bias::ByDistance(table) => table.is_tracked(),
        Bias::Slopes(slopes) => slopes.is_tracked(),
        Bias::Pair { query, key } => query.is_tracked() || key.is_tracked(),
        Bias::Block(block) => block.is_tracked(),
    }
}

/// The same options for `count` query rows from row `first`, and the keys `0..end`.
fn rows_of(options: &Attention, first: usize, count: usize, end: usize) -> Attention {
    let rows = first..first + count;
    let bias = match &options.bias {
        Bias::Pair { query, key } => Bias::Pair {
            query: query.clone().slice_dim(2, rows.clone()),
            key: key.clone().slice_dim(2, 0..end),
        },
        Bias::Block(block) => Bias::Block(block.clone().slice_dim(2, rows.clone()).slice_dim(3, 0..end)),
        other => other.clone(),
    };
    Attention {
        bias,
        query_scale: options.query_scale.clone().map(|scale| scale.slice_dim(1, rows)),
        query_offset: options.query_offset + first,
        ..options.clone()
    }
}

/// `[batch, heads, ..]` -> `[batch, heads * times, ..]`, each head `times` times in a row.
pub fn repeat_heads(x: Tensor<4>, times: usize) -> Tensor<4> {
    if times == 1 {
        return x;
    }
    let [batch, heads, length, width] = x.dims();
    x.unsqueeze_dim::<5>(2).repeat_dim(2, times).reshape([batch, heads * times, length, width])
}

/// `[batch, heads, queries, keys]`: minus infinity where a key is hidden.
pub(super) fn logits(q: Tensor<4>, k: Tensor<4>, options: &Attention) -> Tensor<4> {
    let (queries, keys) = (q.dims()[2], k.dims()[2]);
    let device = q.device();
    let mut logits = q.clone().matmul(k.clone().swap_dims(2, 3)).mul_scalar(options.scale);
    if let Some(products) = key_products(options, &q, keys) {
        logits = logits + products;
    }
    let query_scale = options.query_scale.as_ref().map(|scale| {
        let [rows, columns] = scale.dims();
        scale.clone().reshape([rows, 1, columns, 1])
    });
    if let Some(scale) = &query_scale {
        logits = logits * scale.clone();
    }
    let logits = add_counted(options, &q, query_scale.as_ref(), logits);
    let mut logits = add_queries(options, queries, &k, logits);
    if let Some(bias) = bias_block(options, queries, keys, &device) {
        logits = logits + bias;
    }
    logits.mask_fill(hidden(options, queries, keys, &device).unsqueeze(), f32::NEG_INFINITY)
}

/// The log of each row's sum of exp(logits), `[batch, heads, queries]`.
fn log_sums(logits: Tensor<4>) -> Tensor<3> {
    let largest = logits.clone().detach().max_dim(3);
    let none = largest.clone().lower_elem(f32::MIN);
    let largest = largest.mask_fill(none.clone(), 0.0);
    let sums = (logits - largest.clone()).exp().sum_dim(3).mask_fill(none.clone(), 1.0);
    (sums.log() + largest).mask_fill(none, NOTHING_SEEN).squeeze_dim(3)
}

/// The bias that broadcasts to `[batch, heads, queries, keys]`.
pub(super) fn bias_block(
    options: &Attention,
    queries: usize,
    keys: usize,
    device: &Device,
) -> Option<Tensor<4>> {
    match &options.bias {
        Bias::None => None,
        Bias::ByDistance(table) => {
            let [heads, distances] = table.dims();
            // Distances that are hidden may lie past the table; any entry serves there.
            let index =
                options.distances_of(queries, keys, |n| n.clamp(0, distances.cast_signed() - 1) as i64);
            let index = Tensor::<1, Int>::from_data(TensorData::new(index, [queries * keys]), device);
            Some(table.clone().select(1, index).reshape([1, heads, queries, keys]))
        }
        Bias::Slopes(slopes) => {
            let distances = options.distances_of(queries, keys, |n| n.max(0) as f32);
            let distances = Tensor::<4>::from_data(TensorData::new(distances, [1, 1, queries, keys]), device);
            let heads = slopes.dims()[0];
            Some(distances * slopes.clone().neg().reshape([1, heads, 1, 1]))
        }
        Bias::Pair { query, key } => {
            Some(query.clone().unsqueeze_dim::<4>(3) - key.clone().unsqueeze_dim::<4>(2))
        }
        Bias::Block(block) => Some(block.clone()),
    }
}

/// `[queries, keys]`: true where the query may not see the key.
pub(super) fn hidden(options: &Attention, queries: usize, keys: usize, device: &Device) -> Tensor<2, Bool> {
    let sinks = options.sinks;
    let hidden: Vec<bool> = (0..queries)
        .flat_map(|row| {
            let position = options.query_offset + row;
            (0..keys).map(move |j| {
                let distance = position.saturating_sub(j);
                let outside = options.window.is_some_and(|window| distance >= window) && j >= sinks;
                j > position || outside || !options.distances.contains(&distance)
            })
        })
        .collect();
    Tensor::from_data(TensorData::new(hidden, [queries, keys]), device)
}
