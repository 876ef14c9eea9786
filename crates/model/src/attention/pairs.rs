//! Attention whose logits are a network of all heads' scores, where nothing else acts on them.

use super::described::options;
use burn::tensor::Device;
use longwave_kernels::{Bias, PairAttention};
use longwave_position::Reading;
use longwave_position::encoding::{PairTerms, QueryBlock};

/// What fused attention needs, if it can read the layer: without windows and sinks, other biases, and factors of queries and
/// heads. Anything else is read one block of queries at a time.
pub(super) fn described(
    PairTerms { bias, network }: PairTerms,
    scale: f64,
    block: QueryBlock<'_>,
    reading: &Reading,
    device: &Device,
) -> Option<PairAttention> {
    let options = options(reading, scale, block, device);
    let alone = options.query_scale.is_none() && matches!(reading.bias(block), Bias::None);
    alone.then(|| PairAttention { scale: options.scale, bias, network, first: block.queries.start })
}
