//! What a reading describes for the fused kernels: pairs of position maps, masks, scales, biases and vectors.

use burn::tensor::{Device, Tensor};
use longwave_kernels::{self as kernels, Bias, Precision, Terms};
use longwave_position::encoding::{Geometry, PositionMap, QueryBlock, ScoreForm};
use longwave_position::{Positions, Reading};
use std::sync::Arc;

/// The position maps of q and k.
pub(super) type Maps = (PositionMap, PositionMap);

/// A geometry that fused attention can read: one pair of maps, or two chosen by distance.
pub(super) struct Pairs {
    pub(super) maps: Maps,
    /// Those of far pairs, and the first distance of these in rows.
    pub(super) far: Option<(Maps, usize)>,
}

impl Pairs {
    pub(super) fn of(geometry: &Geometry, positions: &Positions) -> Option<Self> {
        match geometry.maps[..] {
            [maps] => Some(Self { maps, far: None }),
            // Distances of rows are distances of positions only where these count up by one.
            [maps, far] if positions.consecutive() => {
                geometry.selector.near().map(|near| Self { maps, far: Some((far, near)) })
            }
            _ => None,
        }
    }
}

/// The options of fused attention, with the described bias and the vectors of a form.
pub(super) fn described(
    scale: f64,
    block: QueryBlock<'_>,
    reading: &Reading,
    device: &Device,
    form: &ScoreForm,
) -> kernels::Attention {
    let options = options(reading, scale, block, device);
    let layer = block.rows.layer;
    let temperature = reading.layer(layer).temperature.shared();
    let bias = divided(reading.bias(block), temperature);
    let bias = match reading.head_factors(layer, device) {
        Some(factors) => multiplied(bias, factors),
        None => bias,
    };
    let (terms, factor) = match form {
        ScoreForm::Vectors { terms, factor } => (terms.clone(), *factor),
        _ => (Terms::default(), 1.0),
    };
    let scale = options.scale * factor;
    let terms = if is_one(temperature) { terms } else { terms.at_temperature(temperature, scale) };
    kernels::Attention { scale: scale / temperature, bias, terms, ..options }
}

/// A bias over a temperature, still described; at 1 the bias itself.
pub(super) fn divided(bias: Bias, temperature: f64) -> Bias {
    if is_one(temperature) {
        return bias;
    }
    match bias {
        Bias::None => Bias::None,
        Bias::ByDistance(table) => Bias::ByDistance(table.div_scalar(temperature)),
        Bias::Slopes(slopes) => Bias::Slopes(slopes.div_scalar(temperature)),
        Bias::Pair { query, key } => {
            Bias::Pair { query: query.div_scalar(temperature), key: key.div_scalar(temperature) }
        }
        Bias::Block(block) => Bias::Block(block.div_scalar(temperature)),
    }
}

/// A bias times a number for each head `[heads]`, still described.
pub(super) fn multiplied(bias: Bias, factors: Tensor<1>) -> Bias {
    let [heads] = factors.dims();
    match bias {
        Bias::None => Bias::None,
        Bias::ByDistance(table) => Bias::ByDistance(table * factors.reshape([heads, 1])),
        Bias::Slopes(slopes) => Bias::Slopes(slopes * factors),
        Bias::Pair { query, key } => {
            let factors = factors.reshape([1, heads, 1]);
            Bias::Pair { query: query * factors.clone(), key: key * factors }
        }
        Bias::Block(block) => Bias::Block(block * factors.reshape([1, heads, 1, 1])),
    }
}

/// Whether a temperature changes nothing.
pub(super) fn is_one(temperature: f64) -> bool {
    (temperature - 1.0).abs() < f64::EPSILON
}

/// Scales and masks of the queries at hand, without a bias and before the temperature. A mask that cannot be described by
/// index is left to the caller.
pub(super) fn options(
    reading: &Reading,
    scale: f64,
    block: QueryBlock<'_>,
    device: &Device,
) -> kernels::Attention {
    let layer = reading.layer(block.rows.layer);
    let mask = layer.mask.by_index(block.rows.positions).unwrap_or_default();
    kernels::Attention {
        normaliser: reading.attention().normaliser().unwrap_or_else(|| Arc::new(kernels::Softmax)),
        scale: scale * layer.logit_scale,
        bias: Bias::None,
        terms: Terms::default(),
        window: mask.window,
        sinks: mask.sinks,
        query_scale: reading.query_scale(block, device),
        query_offset: block.queries.start,
        distances: 0..usize::MAX,
        precision: Precision::F32,
    }
}
