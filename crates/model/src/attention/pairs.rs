//! Attention whose logits are a network of all heads' scores, where nothing else acts on them.

use super::described::{is_one, options};
use super::sink::sink;
use burn::tensor::Device;
use longwave_kernels::{Bias, PairAttention};
use longwave_position::Reading;
use longwave_position::encoding::{PairTerms, QueryBlock};

/// What fused attention needs, if it can read the layer: without windows and sinks, other biases, and factors of queries and
/// heads. Anything else is read one block of queries at a time.
pub(super) fn described(
    scale: f64,
    block: QueryBlock<'_>,
    reading: &Reading,
    device: &Device,
) -> Option<PairAttention> {
    let layer = block.rows.layer;
    if !reading.geometry(layer).is_plain() || reading.layer(layer).mask.window.is_some() {
        return None;
    }
    let PairTerms { bias, network } = reading.pair_terms(block)?;
    let options = options(reading, scale, block, device);
    let alone = is_one(reading.layer(layer).temperature.shared())
        && reading.head_factors(layer, device).is_none()
        && options.query_scale.is_none()
        && sink(block, reading).is_none()
        && matches!(reading.bias(block), Bias::None);
    alone.then(|| PairAttention { scale: options.scale, bias, network, first: block.queries.start })
}
