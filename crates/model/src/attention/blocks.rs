//! Attention one block of queries at a time, for encodings that need the scores themselves.
//!
//! It serves every hook: several geometries, any number of biases, the `scores` and `values` hooks.
//! Memory grows with the length, not its square: a block of queries is chosen so that its scores
//! take at most 64 MiB.

use super::Rotations;
use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Tensor, TensorData};
use longwave_kernels::rotate;
use longwave_position::encoding::{Geometry, Heads, PositionMap, QueryBlock, Rows};
use longwave_position::{Positions, Reading};
use std::ops::Range;

/// Scores computed at once: 64 MiB in f32.
const SCORES_AT_ONCE: usize = 1 << 24;

/// Attention of the queries at hand; see [`super::attend`].
pub(super) fn attention(
    [q, k, v]: [Tensor<4>; 3],
    scale: f64,
    block: QueryBlock<'_>,
    reading: &Reading,
    rotations: &mut Rotations,
) -> Tensor<4> {
    let [batch, heads, count, _] = q.dims();
    let [_, kv_heads, length, _] = k.dims();
    let geometry = reading.geometry(block.rows.layer);
    let entries: Vec<[Tensor<4>; 2]> = geometry
        .maps
        .iter()
        .map(|&maps| {
            let [q, k] = at_positions([q.clone(), k.clone()], maps, block, reading, rotations);
            [q, repeat_heads(k, heads / kv_heads)]
        })
        .collect();
    let v = repeat_heads(v, heads / kv_heads);
    let rows = (SCORES_AT_ONCE / (batch * heads * length * entries.len()).max(1)).max(1);
    let outputs = (0..count).step_by(rows).map(|first| {
        let end = (first + rows).min(count);
        let queries = block.queries.start + first..block.queries.start + end;
        let entries: Vec<[Tensor<4>; 2]> =
            entries.iter().map(|[q, k]| [q.clone().slice_dim(2, first..end), k.clone()]).collect();
        let block = QueryBlock { queries: &queries, ..block };
        one_block(&entries, &v, &geometry, scale, block, reading)
    });
    Tensor::cat(outputs.collect(), 2)
}

/// q of the queries at hand and k of all rows, rotated and mapped as one entry of the geometry reads
/// them.
pub(super) fn at_positions(
    [q, k]: [Tensor<4>; 2],
    (query_map, key_map): (PositionMap, PositionMap),
    block: QueryBlock<'_>,
    reading: &Reading,
    rotations: &mut Rotations,
) -> [Tensor<4>; 2] {
    let (device, rows) = (q.device(), block.rows);
    let query_positions = rows.positions.columns(block.queries.clone());
    let [q, k] = match reading.rotation(rows.layer) {
        Some(rotation) => {
            let q_table = rotations.table(rotation.clone(), query_map, &query_positions, &device);
            let k_table = rotations.table(rotation, key_map, rows.positions, &device);
            [rotate(q, &q_table), rotate(k, &k_table)]
        }
        None => [q, k],
    };
    let mapped = |positions: &Positions, map: PositionMap| positions.map(|position| map.at(position));
    let query_positions = mapped(&query_positions, query_map);
    let key_positions = mapped(rows.positions, key_map);
    let q = reading.map_query(q, Rows { positions: &query_positions, ..rows });
    let k = reading.map_key(k, Rows { positions: &key_positions, ..rows });
    [q, k]
}

/// The output of one block of queries, `[batch, heads, queries, head_dim]`.
fn one_block(
    entries: &[[Tensor<4>; 2]],
    v: &Tensor<4>,
    geometry: &Geometry,
    scale: f64,
    block: QueryBlock<'_>,
    reading: &Reading,
) -> Tensor<4> {
    let device = v.device();
    let (queries, keys) = (block.queries.len(), v.dims()[2]);
    let mut options = super::options(reading, scale, block, &device);
    options.bias = reading.bias(block);
    let mut scores = selected(entries, geometry, block).mul_scalar(options.scale);
    if let Some(scale) = &options.query_scale {
        let [rows, count] = scale.dims();
        scores = scores * scale.clone().reshape([rows, 1, count, 1]);
    }
    if let Some(bias) = options.bias_block(queries, keys, &device) {
        scores = scores + bias;
    }
    let [q, k] = &entries[0];
    let scores = reading.scores(scores, Heads { q, k }, block);
    let hidden: Tensor<4, Bool> = options.hidden(queries, keys, &device).unsqueeze();
    let probabilities = softmax(scores.mask_fill(hidden, f32::NEG_INFINITY), 3);
    let output = probabilities.clone().matmul(v.clone());
    match reading.values(&probabilities, block) {
        Some(addition) => output + addition,
        None => output,
    }
}

/// q.k of each pair, from the entry of the geometry that its positions choose.
fn selected(entries: &[[Tensor<4>; 2]], geometry: &Geometry, block: QueryBlock<'_>) -> Tensor<4> {
    let scores_of = |[q, k]: &[Tensor<4>; 2]| q.clone().matmul(k.clone().swap_dims(2, 3));
    let mut scores = scores_of(&entries[0]);
    for (index, entry) in entries.iter().enumerate().skip(1) {
        let chosen = chosen(geometry, index, block.rows.positions, block.queries, &scores);
        scores = scores.mask_where(chosen, scores_of(entry));
    }
    scores
}

/// `[batch, heads, queries, keys]`: true where the geometry chooses entry `index`.
fn chosen(
    geometry: &Geometry,
    index: usize,
    positions: &Positions,
    queries: &Range<usize>,
    like: &Tensor<4>,
) -> Tensor<4, Bool> {
    let keys = positions.length();
    let chosen: Vec<bool> = positions
        .values()
        .chunks(keys)
        .flat_map(|row| {
            let queries = &row[queries.clone()];
            queries.iter().flat_map(move |&i| row.iter().map(move |&j| (i, j)))
        })
        .map(|(i, j)| geometry.selector.entry(i, j) == index)
        .collect();
    let shape = [positions.rows(), 1, queries.len(), keys];
    Tensor::<4, Bool>::from_data(TensorData::new(chosen, shape), &like.device()).expand(like.dims())
}

/// `[batch, heads, ..]` -> `[batch, heads * times, ..]`, each head `times` times in a row.
fn repeat_heads(x: Tensor<4>, times: usize) -> Tensor<4> {
    if times == 1 {
        return x;
    }
    let [batch, heads, length, width] = x.dims();
    x.unsqueeze_dim::<5>(2).repeat_dim(2, times).reshape([batch, heads * times, length, width])
}
