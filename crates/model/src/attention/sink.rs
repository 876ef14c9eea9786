//! What a layer has learned about its softmax: factors on the queries of each head, and the logit of a sink.

use super::described::is_one;
use burn::tensor::activation::sigmoid;
use burn::tensor::{Device, Tensor};
use longwave_kernels::{self as kernels, PartialAttention};
use longwave_position::Reading;
use longwave_position::encoding::QueryBlock;
use longwave_position::reading::LogN;

/// q `[batch, heads, queries, d]` of the queries at hand, or their logits, times the learned factors of the layer, where it has
/// some.
pub(super) fn scaled(q: Tensor<4>, block: QueryBlock<'_>, reading: &Reading) -> Tensor<4> {
    match reading.learned_query_scale(block) {
        Some(factors) => q * factors.unsqueeze_dim(3),
        None => q,
    }
}

/// The same, and times what multiplies the logits of each head: for fused attention, whose temperature is one number.
pub(super) fn sharpened(q: Tensor<4>, block: QueryBlock<'_>, reading: &Reading) -> Tensor<4> {
    let q = scaled(q, block, reading);
    match reading.head_factors(block.rows.layer, &q.device()) {
        Some(factors) => q * by_head(factors),
        None => q,
    }
}

/// Whether the layer reads all keys at their own positions, and nothing acts on its scores after the encoding but biases:
/// without windows, temperatures, factors of heads and of logits, entropies and sinks.
pub(super) fn is_plain(reading: &Reading, block: QueryBlock<'_>, device: &Device) -> bool {
    let layer = block.rows.layer;
    reading.geometry(layer).is_plain()
        && reading.layer(layer).mask.window.is_none()
        && is_one(reading.layer(layer).temperature.shared())
        && reading.layer(layer).log_n != LogN::ByEntropy
        && reading.head_factors(layer, device).is_none()
        && !reading.scales_logits(layer, block.rows.positions)
        && sink(block, reading).is_none()
}

/// One number for each head, `[1, heads, 1, 1]`.
pub(super) fn by_head(factors: Tensor<1>) -> Tensor<4> {
    let [heads] = factors.dims();
    factors.reshape([1, heads, 1, 1])
}

/// The logits of the layer's sinks over its temperature, `[heads]`.
pub(super) fn sink(block: QueryBlock<'_>, reading: &Reading) -> Option<Tensor<1>> {
    let layer = block.rows.layer;
    let sink = reading.sink(layer)?;
    let sink = match reading.head_factors(layer, &sink.device()) {
        Some(factors) => sink * factors,
        None => sink,
    };
    let temperature = reading.layer(layer).temperature.shared();
    Some(if is_one(temperature) { sink } else { sink.div_scalar(temperature) })
}

/// Fused attention, with a sink where the layer has one.
pub(super) fn with_sink(
    [q, k, v]: [Tensor<4>; 3],
    options: &kernels::Attention,
    block: QueryBlock<'_>,
    reading: &Reading,
) -> Tensor<4> {
    match sink(block, reading) {
        None => kernels::attention(q, k, v, options),
        Some(sink) => beside(kernels::partial_attention(q, k, v, options), sink),
    }
}

/// Attention to all keys beside a sink of logit t: with l the log sum of the keys, they keep the share
/// `exp(l) / (exp(l) + exp(t)) = sigmoid(l - t)`.
pub(super) fn beside(keys: PartialAttention, sink: Tensor<1>) -> Tensor<4> {
    let sink = sink.unsqueeze_dim::<2>(1).unsqueeze::<3>(); // [1, heads, 1]
    keys.output * sigmoid(keys.log_sums - sink).unsqueeze_dim(3) // [batch, heads, queries, value_dim]
}
