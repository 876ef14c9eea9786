//! What attention computes, in plain tensor operations.

use super::{Attention, Bias, Far, Shape};
use crate::softmax::plain_softmax;
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};

/// Logits computed at once where no gradient needs them all: 64 MiB in f32.
const LOGITS_AT_ONCE: usize = 1 << 24;

pub(super) fn attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    options: &Attention,
    shape: &Shape,
) -> Tensor<4> {
    let Shape { batch, heads, key_heads, queries, keys, .. } = *shape;
    let rows = (LOGITS_AT_ONCE / (batch * heads * keys).max(1)).max(1);
    let far = options.far.iter().flat_map(|far| [&far.q, &far.k]);
    let tracked =
        [&q, &k, &v].into_iter().chain(far).any(Tensor::is_tracked) || bias_is_tracked(&options.bias);
    let (k, v) = (repeat_heads(k, heads / key_heads), repeat_heads(v, heads / key_heads));
    let far = options.far.clone().map(|far| Far { k: repeat_heads(far.k, heads / key_heads), ..far });
    let options = &Attention { far, ..options.clone() };
    if tracked || rows >= queries {
        return attend(q, k, v, options);
    }
    let blocks = (0..queries).step_by(rows).map(|first| {
        let count = rows.min(queries - first);
        let end = options.keys_end(first, count, keys);
        attend(
            q.clone().slice_dim(2, first..first + count),
            k.clone().slice_dim(2, 0..end),
            v.clone().slice_dim(2, 0..end),
            &rows_of(options, first, count, end),
        )
    });
    Tensor::cat(blocks.collect(), 2)
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
    let far = options.far.clone().map(|far| Far {
        q: far.q.slice_dim(2, rows.clone()),
        k: far.k.slice_dim(2, 0..end),
        near: far.near,
    });
    Attention {
        bias,
        far,
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

/// q, k and v with equal head counts, all queries at once.
fn attend(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, options: &Attention) -> Tensor<4> {
    let (queries, keys) = (q.dims()[2], k.dims()[2]);
    let device = q.device();
    let mut logits = q.matmul(k.swap_dims(2, 3));
    if let Some(Far { q, k, near }) = &options.far {
        let chosen = distances_of(options, queries, keys, |n| usize::try_from(n).is_ok_and(|n| n >= *near));
        let chosen = Tensor::<2, Bool>::from_data(TensorData::new(chosen, [queries, keys]), &device);
        let far = q.clone().matmul(k.clone().swap_dims(2, 3));
        logits = logits.mask_where(chosen.unsqueeze::<4>().expand(far.dims()), far);
    }
    let mut logits = logits.mul_scalar(options.scale);
    if let Some(scale) = &options.query_scale {
        let [rows, columns] = scale.dims();
        logits = logits * scale.clone().reshape([rows, 1, columns, 1]);
    }
    if let Some(bias) = bias_block(options, queries, keys, &device) {
        logits = logits + bias;
    }
    let logits = logits.mask_fill(hidden(options, queries, keys, &device).unsqueeze(), f32::NEG_INFINITY);
    plain_softmax(logits).matmul(v)
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
                distances_of(options, queries, keys, |n| n.clamp(0, distances.cast_signed() - 1) as i64);
            let index = Tensor::<1, Int>::from_data(TensorData::new(index, [queries * keys]), device);
            Some(table.clone().select(1, index).reshape([1, heads, queries, keys]))
        }
        Bias::Slopes(slopes) => {
            let distances = distances_of(options, queries, keys, |n| n.max(0) as f32);
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

/// `map(i - j)` for every query and key, row by row.
fn distances_of<T>(options: &Attention, queries: usize, keys: usize, map: impl Fn(isize) -> T) -> Vec<T> {
    (0..queries)
        .flat_map(|row| (0..keys).map(move |j| (options.query_offset + row).cast_signed() - j.cast_signed()))
        .map(map)
        .collect()
}

/// `[queries, keys]`: true where the query may not see the key.
pub(super) fn hidden(options: &Attention, queries: usize, keys: usize, device: &Device) -> Tensor<2, Bool> {
    let sinks = options.sinks;
    let hidden: Vec<bool> = (0..queries)
        .flat_map(|row| {
            let position = options.query_offset + row;
            (0..keys).map(move |j| {
                let far = options.window.is_some_and(|window| position.saturating_sub(j) >= window);
                j > position || (far && j >= sinks)
            })
        })
        .collect();
    Tensor::from_data(TensorData::new(hidden, [queries, keys]), device)
}
