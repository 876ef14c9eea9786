//! The attention of a layer whose queries, keys and values are there, by the way that `route` chooses.

use super::blocks;
use super::described::{Pairs, described};
use super::rotations::Rotations;
use super::route::Route;
use super::sink::{beside, scaled, sharpened, sink, with_sink};
use burn::tensor::Tensor;
use longwave_kernels::{self as kernels, Precision, RelativeVectors, repeat_heads};
use longwave_position::Reading;
use longwave_position::encoding::{MapsByDistance, PositionMap, QueryBlock, ScoreForm};

/// Attention with every hook of the reading: q `[batch, heads, queries, d]` of the rows
/// `block.queries`, k and v `[batch, kv_heads, length, d]` of all rows, none of them rotated yet ->
/// `[batch, heads, queries, head_dim]`. `scale` multiplies `q.k` of a softmax.
///
/// What the encoding describes goes to the fused kernels; what it must compute from scores is read
/// one block of queries at a time.
pub fn attend(
    qkv: [Tensor<4>; 3],
    scale: f64,
    block: QueryBlock<'_>,
    reading: &Reading,
    rotations: &mut Rotations,
) -> Tensor<4> {
    attend_in(Precision::F32, qkv, scale, block, reading, rotations)
}

/// [`attend`] whose fused products are in a precision, see [`kernels::Attention::precision`].
pub(super) fn attend_in(
    precision: Precision,
    [q, k, v]: [Tensor<4>; 3],
    scale: f64,
    block: QueryBlock<'_>,
    reading: &Reading,
    rotations: &mut Rotations,
) -> Tensor<4> {
    let Pairs { maps, far } = match Route::choose(scale, block, reading, &q.device()) {
        Route::Linear => return linear([q, k, v], block, reading, rotations),
        Route::Blocks(_) => return blocks::attention([q, k, v], scale, block, reading, rotations),
        Route::Added(added, options) => {
            let [q, k] = plain([q, k], block, reading, rotations);
            let options = kernels::Attention { precision, terms: added.terms(&q, &k), ..options };
            return kernels::attention(q, k, v, &options);
        }
        Route::Reflections(options, factors) => {
            let q = scaled(q, block, reading);
            return kernels::path_attention(factors.map_or(q.clone(), |factors| q * factors), k, v, &options);
        }
        Route::Fused(pairs) => pairs,
    };
    let is_plain = far.is_none() && maps == (PositionMap::Identity, PositionMap::Identity);
    // Maps are described for rows at their own positions.
    let form = if is_plain || reading.layer_capabilities(block.rows.layer).adds_vectors() {
        reading.score_form(block)
    } else {
        ScoreForm::Plain
    };
    let options = kernels::Attention { precision, ..described(scale, block, reading, &q.device(), &form) };
    let mut at = |maps| blocks::at_positions([q.clone(), k.clone()], maps, block, reading, rotations);
    match far {
        None if is_plain && let Some(described) = described_maps(form, block, reading) => {
            let [q, k] = blocks::rotated([q, k], maps, block, reading, rotations);
            attend_by_distance([q, k, v], described, options, block, reading)
        }
        None => {
            let [q, k] = at(maps);
            with_sink([sharpened(q, block, reading), k, v], &options, block, reading)
        }
        Some((far, border)) => {
            let [near, far] = [maps, far].map(at).map(|[q, k]| [sharpened(q, block, reading), k]);
            match sink(block, reading) {
                None => kernels::attention_by_distance(near, far, v, border, &options),
                Some(sink) => {
                    beside(kernels::partial_attention_by_distance(near, far, v, border, &options), sink)
                }
            }
        }
    }
}

/// Features of queries and keys in place of a softmax of their scores, see [`kernels::linear_attention`]. Queries and keys are not
/// scaled first, as published.
fn linear(
    [q, k, v]: [Tensor<4>; 3],
    block: QueryBlock<'_>,
    reading: &Reading,
    rotations: &mut Rotations,
) -> Tensor<4> {
    let groups = q.dims()[1] / k.dims()[1];
    let positions = block.rows.positions;
    let tables = reading.rotation(block.rows.layer).map(|rotation| {
        let plain = (PositionMap::Identity, PositionMap::Identity);
        rotations.tables(rotation, plain, &positions.columns(block.queries.clone()), positions, &q.device())
    });
    let [k, v] = [k, v].map(|x| repeat_heads(x, groups));
    kernels::linear_attention(q, k, v, tables.as_ref(), block.queries.start)
}

/// q and k at their own positions, as they meet in the logits.
fn plain(
    qk: [Tensor<4>; 2],
    block: QueryBlock<'_>,
    reading: &Reading,
    rotations: &mut Rotations,
) -> [Tensor<4>; 2] {
    let maps = (PositionMap::Identity, PositionMap::Identity);
    let [q, k] = blocks::at_positions(qk, maps, block, reading, rotations);
    [scaled(q, block, reading), k]
}

/// What the maps of q and k do, where the layer can be read by it: learned log-n multiplies all of a query's maps, and of what
/// is described only q.
pub(super) fn described_maps(
    form: ScoreForm,
    block: QueryBlock<'_>,
    reading: &Reading,
) -> Option<MapsByDistance> {
    let learned = reading.layer(block.rows.layer).log_n.is_learned();
    match form {
        ScoreForm::Maps(maps) if !learned => Some(maps),
        _ => None,
    }
}

/// Attention with what the maps of q and k do, described by distance: the maps themselves are not called.
pub(super) fn attend_by_distance(
    [q, k, v]: [Tensor<4>; 3],
    MapsByDistance { query_bias, keys, key_bias }: MapsByDistance,
    options: kernels::Attention,
    block: QueryBlock<'_>,
    reading: &Reading,
) -> Tensor<4> {
    let [heads, dim] = query_bias.dims();
    let q = q + query_bias.reshape([1, heads, 1, dim]);
    let key_bias = match reading.head_factors(block.rows.layer, &q.device()) {
        Some(factors) => key_bias * factors.reshape([heads, 1]),
        None => key_bias,
    };
    let relative =
        RelativeVectors { keys: Some(keys), key_bias: Some(key_bias), ..RelativeVectors::default() };
    let options = kernels::Attention { terms: relative.into(), ..options };
    with_sink([sharpened(q, block, reading), k, v], &options, block, reading)
}

#[cfg(test)]
mod tests;
