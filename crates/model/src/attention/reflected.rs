//! Attention whose keys the rows between them and a query reflect, where nothing else but gates acts on the scores.

use super::described::options;
use burn::tensor::{Device, Tensor};
use longwave_kernels::{Bias, PathAttention, Reflections};
use longwave_position::Reading;
use longwave_position::encoding::QueryBlock;

/// What fused attention needs, and what multiplies the queries (`[1 or batch, 1, queries, 1]`) before it, if it can read the layer:
/// without windows and sinks, other biases than gates, and factors of heads. Anything else is read one block of queries at
/// a time.
pub(super) fn described(
    reflections: Reflections,
    scale: f64,
    block: QueryBlock<'_>,
    reading: &Reading,
    device: &Device,
) -> Option<(PathAttention, Option<Tensor<4>>)> {
    let gates = match reading.bias(block) {
        Bias::None => None,
        Bias::Pair { query, key } => Some([query, key]),
        _ => return None,
    };
    let options = options(reading, scale, block, device);
    let factors = options.query_scale.map(|factors| {
        let [rows, count] = factors.dims();
        factors.reshape([rows, 1, count, 1])
    });
    let first = block.queries.start;
    Some((PathAttention { scale: options.scale, reflections, gates, first }, factors))
}
