//! Attention one block of queries at a time, for encodings that need the scores themselves.
//!
//! It serves every hook: geometries of any kind, at any positions, any number of biases, the `scores` and
//! `values` hooks.
//! Memory grows with the length, not its square: a block of queries is chosen so that its scores
//! take at most 64 MiB.

use super::rotations::Rotations;
use super::sink::{by_head, scaled, sink};
use burn::tensor::{Bool, Tensor, TensorData};
use longwave_kernels::device::constant;
use longwave_kernels::{Normaliser, Softmax, add_to_first_channels, normalise, repeat_heads, rotate};
use longwave_position::encoding::{Geometry, Heads, LayerInput, PositionMap, QueryBlock, Rows};
use longwave_position::reading::{AttentionKind, LogN, entropy_factor};
use longwave_position::{Positions, Reading};
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

/// What some queries of a layer give to keys.
#[derive(Clone, Debug)]
pub struct Probabilities<'a> {
    /// The layer, from 0.
    pub layer: usize,
    pub queries: Range<usize>,
    /// The place of the first key in the text; the others follow.
    pub first_key: usize,
    /// `[batch, heads, queries, keys]`. Those of a query add up to 1, or to less where a sink or the rest of a stick takes
    /// the others; a hidden key has 0.
    pub values: &'a Tensor<4>,
    /// What they are made of, of the same shape: minus infinity where a query does not see a key, whatever hides it.
    pub logits: &'a Tensor<4>,
    /// q `[batch, heads, queries, d]` of these queries and k `[batch, heads, keys, d]` of the keys, before they are turned.
    pub projected: &'a [Tensor<4>; 2],
    /// The same as scores multiply them, at their positions: for each pair of maps of the layer's geometry, which
    /// [`Selector::entry`](longwave_position::encoding::Selector::entry) chooses by the positions of a query and a key.
    pub mapped: &'a [[Tensor<4>; 2]],
}

/// Sees what a block of queries gives to keys, with places among the rows at hand; its error ends the pass.
pub(super) type See<'a, E> = dyn FnMut(Probabilities<'_>) -> Result<(), E> + 'a;

/// Scores computed at once: 64 MiB in f32.
const SCORES_AT_ONCE: usize = 1 << 24;

/// Numbers per score that other weights than a softmax's hold at once in plain operations.
const PLAIN_WEIGHTS: usize = 4;

/// Queries read at once where keys after the block are left out: fewer queries, fewer keys in vain.
const QUERIES_AT_ONCE: usize = 128;

/// Attention of the queries at hand; see [`super::attend`].
pub(super) fn attention(
    [q, k, v]: [Tensor<4>; 3],
    scale: f64,
    block: QueryBlock<'_>,
    reading: &Reading,
    rotations: &mut Rotations,
) -> Tensor<4> {
    let Ok(output) =
        in_blocks::<Infallible>([q, k, v], reading.attention(), scale, block, reading, rotations, None);
    output
}

/// The same for what queries give to keys, which `see` sees of every block of queries; its error ends the pass.
pub(super) fn attention_seen<E>(
    qkv: [Tensor<4>; 3],
    scale: f64,
    block: QueryBlock<'_>,
    reading: &Reading,
    rotations: &mut Rotations,
    see: &mut See<'_, E>,
) -> Result<(), E> {
    in_blocks(qkv, reading.attention().of_keys(), scale, block, reading, rotations, Some(see)).map(|_| ())
}

fn in_blocks<E>(
    [q, k, v]: [Tensor<4>; 3],
    kind: AttentionKind,
    scale: f64,
    block: QueryBlock<'_>,
    reading: &Reading,
    rotations: &mut Rotations,
    mut see: Option<&mut See<'_, E>>,
) -> Result<Tensor<4>, E> {
    let [batch, heads, count, _] = q.dims();
    let [_, kv_heads, length, _] = k.dims();
    let geometry = reading.geometry(block.rows.layer);
    let whole_rows = reading.needs_scores(block.rows.layer, block.rows.positions)
        || reading.layer_capabilities(block.rows.layer).adds_vectors();
    let whole_logits = reading.scales_logits(block.rows.layer, block.rows.positions);
    let entries: Vec<[Tensor<4>; 2]> = geometry
        .maps
        .iter()
        .map(|&maps| {
            let [q, k] = at_positions([q.clone(), k.clone()], maps, block, reading, rotations);
            [if whole_logits { q } else { scaled(q, block, reading) }, repeat_heads(k, heads / kv_heads)]
        })
        .collect();
    let projected = see.is_some().then(|| [q, repeat_heads(k, heads / kv_heads)]);
    let v = repeat_heads(v, heads / kv_heads);
    let held = entries.len().max(reading.layer_capabilities(block.rows.layer).scratch_per_score);
    let normaliser = kind.normaliser().unwrap_or_else(|| Arc::new(Softmax));
    let held = if normaliser.is_softmax() { held } else { held.max(PLAIN_WEIGHTS) };
    let rows = (SCORES_AT_ONCE / (batch * heads * length * held).max(1)).max(1);
    let rows = if whole_rows { rows } else { rows.min(QUERIES_AT_ONCE) };
    let mut outputs = Vec::new();
    for first in (0..count).step_by(rows) {
        let end = (first + rows).min(count);
        let queries = block.queries.start + first..block.queries.start + end;
        // An encoding that computes with scores has them all; else no later key needs to be read.
        let keys = if whole_rows { length } else { queries.end };
        let here =
            |[q, k]: &[Tensor<4>; 2]| [q.clone().slice_dim(2, first..end), k.clone().slice_dim(2, 0..keys)];
        let entries: Vec<[Tensor<4>; 2]> = entries.iter().map(here).collect();
        let v = v.clone().slice_dim(2, 0..keys);
        let block = QueryBlock { queries: &queries, ..block };
        let logits = logits(&entries, &geometry, scale, block, reading);
        let shown = projected.as_ref().map(|projected| (logits.clone(), here(projected)));
        let given = probabilities(logits, &normaliser, block, reading);
        if let (Some(see), Some((logits, projected))) = (&mut see, shown) {
            see(Probabilities {
                layer: block.rows.layer,
                queries: queries.clone(),
                first_key: 0,
                values: &given,
                logits: &seen_alone(logits, kind, block),
                projected: &projected,
                mapped: &entries,
            })?;
        }
        let output = given.clone().matmul(v.clone());
        outputs.push(match reading.values(&given, block) {
            Some(addition) => add_to_first_channels(output, addition),
            None => output,
        });
    }
    Ok(Tensor::cat(outputs, 2))
}

/// The least logit that learned factors scale: it has no share, and minus infinity would give the factors no gradient.
const LEAST: f32 = -1e30;
/// No learned factor or temperature makes a logit smaller by more.
const LARGEST_FACTOR: f32 = 1e6;

/// q of the queries at hand and k of all rows, rotated and mapped as one entry of the geometry reads
/// them.
pub(super) fn at_positions(
    [q, k]: [Tensor<4>; 2],
    (query_map, key_map): (PositionMap, PositionMap),
    block: QueryBlock<'_>,
    reading: &Reading,
    rotations: &mut Rotations,
) -> [Tensor<4>; 2] {
    let rows = block.rows;
    let query_positions = rows.positions.columns(block.queries.clone());
    let [q, k] = rotated([q, k], (query_map, key_map), block, reading, rotations);
    let mapped = |positions: &Positions, map: PositionMap| positions.map(|position| map.at(position));
    let query_positions = mapped(&query_positions, query_map);
    let key_positions = mapped(rows.positions, key_map);
    let input = |first| Some(LayerInput { all: block.input, first });
    let of_queries = Rows { positions: &query_positions, input: input(block.queries.start), ..rows };
    let of_keys = Rows { positions: &key_positions, input: input(0), ..rows };
    reading.map_heads([q, k], [of_queries, of_keys])
}

/// q of the queries at hand and k of all rows, rotated as one entry of the geometry reads them.
pub(super) fn rotated(
    [q, k]: [Tensor<4>; 2],
    maps: (PositionMap, PositionMap),
    block: QueryBlock<'_>,
    reading: &Reading,
    rotations: &mut Rotations,
) -> [Tensor<4>; 2] {
    let (device, rows) = (q.device(), block.rows);
    let Some(rotation) = reading.rotation(rows.layer) else { return [q, k] };
    let query_positions = rows.positions.columns(block.queries.clone());
    let [q_table, k_table] = rotations.tables(rotation, maps, &query_positions, rows.positions, &device);
    [rotate(q, &q_table), rotate(k, &k_table)]
}

/// What one block of queries gives to the keys, before it is normalised, `[batch, heads, queries, keys]`.
fn logits(
    entries: &[[Tensor<4>; 2]],
    geometry: &Geometry,
    scale: f64,
    block: QueryBlock<'_>,
    reading: &Reading,
) -> Tensor<4> {
    let [_, k] = &entries[0];
    let device = k.device();
    let (queries, keys) = (block.queries.len(), k.dims()[2]);
    let mut options = super::described::options(reading, scale, block, &device);
    options.bias = reading.bias(block);
    let mut entries = entries.to_vec();
    if let Some(scale) = &options.query_scale {
        let [rows, count] = scale.dims();
        for [q, _] in &mut entries {
            *q = q.clone() * scale.clone().reshape([rows, 1, count, 1]);
        }
    }
    let scores = selected(&entries, geometry, block).mul_scalar(options.scale);
    let [q, k] = &entries[0];
    let mut scores = reading.scores(scores, Heads { q, k, scale: options.scale }, block);
    if let Some(bias) = options.bias_block(queries, keys, &device) {
        let held = bias.dims()[3];
        scores = scores + if held > keys { bias.slice_dim(3, 0..keys) } else { bias };
    }
    if reading.scales_logits(block.rows.layer, block.rows.positions) {
        scores = scaled(scores.clamp_min(LEAST), block, reading);
    }
    // Last, so that hooks see the scores that they were trained on.
    let temperature = reading.layer(block.rows.layer).temperature.shared();
    if !super::described::is_one(temperature) {
        scores = scores.div_scalar(temperature);
    }
    if let Some(factors) = reading.head_factors(block.rows.layer, &device) {
        scores = scores * by_head(factors);
    }
    let later: Tensor<4, Bool> = options.hidden(queries, keys, &device).unsqueeze();
    let scores = scores.mask_fill(later, f32::NEG_INFINITY);
    let mask = reading.layer(block.rows.layer).mask;
    if mask.by_index(block.rows.positions).is_some() {
        return scores;
    }
    let hidden = pairs(block, keys, |query, key| mask.hides(query, key), &scores);
    scores.mask_fill(hidden, f32::NEG_INFINITY)
}

/// What one block of queries gives to the keys, `[batch, heads, queries, keys]`, of its logits.
fn probabilities(
    mut scores: Tensor<4>,
    normaliser: &Arc<dyn Normaliser>,
    block: QueryBlock<'_>,
    reading: &Reading,
) -> Tensor<4> {
    let [batch, heads, queries, keys] = scores.dims();
    let first = block.queries.start;
    let sink = sink(block, reading);
    if let Some(sink) = &sink {
        // One more column, whose share goes to no value.
        let column = sink.clone().reshape([1, heads, 1, 1]).expand([batch, heads, queries, 1]);
        scores = Tensor::cat(vec![scores, column], 3);
    }
    if reading.layer(block.rows.layer).log_n == LogN::ByEntropy {
        // Of a softmax alone, as it is checked.
        let factor = entropy_factor(normalise(scores.clone(), normaliser, first));
        scores = scores * factor;
    }
    let weights = normalise(scores, normaliser, first);
    if sink.is_some() { weights.slice_dim(3, 0..keys) } else { weights }
}

/// The logits with minus infinity for every key that a query does not see: also where learned factors have scaled such a logit, and
/// for a stick that is not broken at the query's own key.
fn seen_alone(logits: Tensor<4>, kind: AttentionKind, block: QueryBlock<'_>) -> Tensor<4> {
    let scaled = logits.clone().lower_elem(0.5 * LEAST / LARGEST_FACTOR);
    let logits = logits.mask_fill(scaled, f32::NEG_INFINITY);
    if kind.sees_own_key() {
        return logits;
    }
    let keys = logits.dims()[3];
    let own = block.queries.clone().flat_map(|query| (0..keys).map(move |key| key == query)).collect();
    let own = TensorData::new::<bool, _>(own, [1, 1, block.queries.len(), keys]);
    let own = constant::<4, Bool>(own, &logits.device()).expand(logits.dims());
    logits.mask_fill(own, f32::NEG_INFINITY)
}

/// q.k of each pair, from the entry of the geometry that its positions choose.
fn selected(entries: &[[Tensor<4>; 2]], geometry: &Geometry, block: QueryBlock<'_>) -> Tensor<4> {
    let scores_of = |[q, k]: &[Tensor<4>; 2]| q.clone().matmul(k.clone().swap_dims(2, 3));
    let mut scores = scores_of(&entries[0]);
    for (index, entry) in entries.iter().enumerate().skip(1) {
        let keys = scores.dims()[3];
        let chosen = pairs(block, keys, |query, key| geometry.selector.entry(query, key) == index, &scores);
        scores = scores.mask_where(chosen, scores_of(entry));
    }
    scores
}

/// `[batch, heads, queries, keys]`: whether `holds` for the positions of each query at hand and each of the
/// first keys.
fn pairs(
    block: QueryBlock<'_>,
    keys: usize,
    holds: impl Fn(f64, f64) -> bool,
    like: &Tensor<4>,
) -> Tensor<4, Bool> {
    let (positions, queries) = (block.rows.positions, block.queries);
    let mut held = Vec::with_capacity(positions.rows() * queries.len() * keys);
    for row in positions.values().chunks(positions.length()) {
        for &query in &row[queries.clone()] {
            held.extend(row[..keys].iter().map(|&key| holds(query, key)));
        }
    }
    let shape = [positions.rows(), 1, queries.len(), keys];
    constant::<4, Bool>(TensorData::new(held, shape), &like.device()).expand(like.dims())
}

#[cfg(test)]
mod tests;
