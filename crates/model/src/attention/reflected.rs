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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::route::Route;
    use crate::attention::{Rotations, attend, blocks};
    use crate::testing;
    use burn::module::{Module, ModuleMapper, Param};
    use burn::tensor::Int;
    use longwave_position::encoding::{Dimensions, Rows};
    use longwave_position::reading::{LogN, Mask, Temperature};
    use longwave_position::{Init, Positions};

    const SIZES: Dimensions = Dimensions {
        layers: 1,
        width: 32,
        heads: 4,
        kv_heads: 2,
        head_dim: 8,
        train_length: 16,
        vocab_size: 16,
    };
    const LENGTH: usize = 53;

    /// Makes every parameter so large that it matters.
    struct Louder;

    impl ModuleMapper for Louder {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            Param::from_tensor(param.val().mul_scalar(15.0))
        }
    }

    fn reading(encoding: &str, log_n: LogN) -> Reading {
        testing::reading(encoding, &SIZES, log_n, &Device::flex()).map(&mut Louder)
    }

    /// The same queries read at once and block by block, and whether they could be read at once.
    fn both(reading: &Reading, queries: std::ops::Range<usize>) -> ([Tensor<4>; 2], bool) {
        let device = Device::flex();
        let init = Init::new(3, &device);
        let tensor = |name, heads, rows| init.normal(name, [2, heads, rows, SIZES.head_dim], 1.0).val();
        let q = tensor("q", SIZES.heads, LENGTH).slice_dim(2, queries.clone());
        let qkv = || [q.clone(), tensor("k", SIZES.kv_heads, LENGTH), tensor("v", SIZES.kv_heads, LENGTH)];
        let input = init.normal("input", [2, LENGTH, SIZES.width], 1.0).val();
        let (tokens, positions) =
            (Tensor::<2, Int>::zeros([2, LENGTH], &device), Positions::range(0..LENGTH));
        let rows = Rows::new(0, &tokens, &positions);
        let block = QueryBlock { rows, queries: &queries, input: &input };
        let read = [
            attend(qkv(), 0.4, block, reading, &mut Rotations::default()),
            blocks::attention(qkv(), 0.4, block, reading, &mut Rotations::default()),
        ];
        (read, matches!(Route::choose(0.4, block, reading, &device), Route::Reflections(..)))
    }

    #[test]
    fn read_at_once_as_block_by_block() {
        for (encoding, log_n, at_once) in [
            ("'path'", LogN::Off, true),
            ("['path', 'fox']", LogN::Off, true),
            ("['path', 'fox']", LogN::PostHoc { train_length: 16 }, true),
            ("'path'", LogN::Learned { row: 0, bias: true, scale_bias: false }, true),
            // A bias by distance, and two biases.
            ("['path', 'alibi']", LogN::Off, false),
            ("['path', 'fox', 'alibi']", LogN::Off, false),
        ] {
            let reading = reading(encoding, log_n);
            for queries in [0..LENGTH, 11..LENGTH, LENGTH - 1..LENGTH] {
                let ([fused, plain], is_described) = both(&reading, queries.clone());
                assert_eq!(is_described, at_once, "{encoding}, {log_n:?}");
                let off = (fused - plain).abs().max().into_scalar::<f32>();
                assert!(off < 2e-5, "{encoding}, {log_n:?}, {queries:?}: {off}");
            }
        }
    }

    #[test]
    fn windows_and_temperatures_are_left_to_blocks() {
        let mut reading = reading("'path'", LogN::Off);
        reading.layers_mut()[0].mask = Mask { window: Some(9), sinks: 0 };
        assert!(!both(&reading, 0..LENGTH).1);
        reading.layers_mut()[0].mask = Mask::default();
        reading.layers_mut()[0].temperature = Temperature::All(1.5);
        assert!(!both(&reading, 0..LENGTH).1);
    }
}
