//! What the fused attention reads is what plain operations read, block by block.

mod described;
mod reflected;

use super::*;
use crate::attention::attend;
use crate::attention::described::Pairs;
use crate::attention::route::is_described;
use crate::testing::{self, with_noise};
use burn::module::Module;
use burn::tensor::{Device, Gradients, Int};
use longwave_position::encoding::{Dimensions, Selector};
use longwave_position::parameter;
use longwave_position::reading::{
    AttentionKind, EntmaxKeys, LogN, LssarKeys, Mask, Remainder, StickBreaking, Temperature,
};
use longwave_position::{Init, Lengths};
use std::ops::Range;

const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const DIM: usize = 8;
const TRAIN: usize = 16;
const LENGTH: usize = 53;
const SIZES: Dimensions = Dimensions {
    layers: 1,
    width: HEADS * DIM,
    heads: HEADS,
    kv_heads: KV_HEADS,
    head_dim: DIM,
    train_length: TRAIN,
    vocab_size: 16,
};

fn reading(encoding: &str, log_n: LogN) -> Reading {
    testing::reading(encoding, &SIZES, log_n, &Device::flex())
}

fn extended(encoding: &str, extension: &str) -> Reading {
    testing::extended(&reading(encoding, LogN::Off), extension, Lengths { train: TRAIN, length: LENGTH })
}

/// q of the queries, k and v of all rows.
fn qkv(queries: &Range<usize>, device: &Device) -> [Tensor<4>; 3] {
    let init = Init::new(3, device);
    let tensor = |name, heads, rows| init.normal(name, [1, heads, rows, DIM], 1.0).val();
    [
        tensor("q", HEADS, LENGTH).slice_dim(2, queries.clone()),
        tensor("k", KV_HEADS, LENGTH),
        tensor("v", KV_HEADS, LENGTH),
    ]
}

fn fused(qkv: [Tensor<4>; 3], block: QueryBlock<'_>, reading: &Reading) -> Tensor<4> {
    attend(qkv, 0.4, block, reading, &mut Rotations::default())
}

fn plain(qkv: [Tensor<4>; 3], block: QueryBlock<'_>, reading: &Reading) -> Tensor<4> {
    attention(qkv, 0.4, block, reading, &mut Rotations::default())
}

/// Each number is off by at most `tolerance` of the largest, which counts as at least 1.
#[track_caller]
fn assert_near(what: &str, found: &[f32], expected: &[f32], tolerance: f32) {
    let largest = expected.iter().fold(1.0_f32, |most, x| most.max(x.abs()));
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= tolerance * largest, "{what}: {a} {b}");
    }
}

/// The output of an attention, and the gradients of q, k and v.
fn differentiated(queries: &Range<usize>, attention: impl Fn([Tensor<4>; 3]) -> Tensor<4>) -> Vec<Vec<f32>> {
    let device = Device::flex().autodiff();
    let leaves = qkv(queries, &device).map(|x| x.detach().require_grad());
    let output = attention(leaves.clone());
    let weights = Init::new(4, &device).normal("weights", output.dims(), 1.0).val().detach();
    let gradients = (output.clone() * weights).sum().backward();
    let list = |x: Tensor<4>| x.into_data().try_to_vec::<f32>().unwrap();
    let gradients = leaves.map(|leaf| Tensor::from_inner(leaf.grad(&gradients).unwrap()));
    [vec![list(output)], gradients.map(list).to_vec()].concat()
}

/// Reads the same q, k and v in both ways.
fn both(reading: &Reading, positions: &Positions, queries: Range<usize>) -> [Vec<Vec<f32>>; 2] {
    let input = Tensor::zeros([1, LENGTH, HEADS * DIM], &Device::flex().autodiff());
    both_of(reading, positions, queries, input)
}

/// The same where the encoding reads an input.
fn both_of(
    reading: &Reading,
    positions: &Positions,
    queries: Range<usize>,
    input: Tensor<3>,
) -> [Vec<Vec<f32>>; 2] {
    let tokens = Tensor::<2, Int>::zeros([1, LENGTH], &input.device());
    let rows = Rows::new(0, &tokens, positions);
    let block = QueryBlock { rows, queries: &queries, input: &input };
    [
        differentiated(&queries, |qkv| fused(qkv, block, reading)),
        differentiated(&queries, |qkv| plain(qkv, block, reading)),
    ]
}

#[track_caller]
fn hold(what: &str, reading: &Reading) {
    for start in [0, 300] {
        let positions = Positions::range(start..start + LENGTH);
        let tokens = Tensor::<2, Int>::zeros([1, LENGTH], &Device::flex());
        let pairs = Pairs::of(&reading.geometry(0), &positions);
        assert!(pairs.is_some_and(|pairs| pairs.far.is_some()), "{what}: two rotations");
        assert!(is_described(reading, Rows::new(0, &tokens, &positions)), "{what}: by index");
        // All rows, the last ones, and one alone, as a cache reads them.
        for queries in [0..LENGTH, 11..LENGTH, LENGTH - 1..LENGTH] {
            let [fused, plain] = both(reading, &positions, queries.clone());
            for (index, (fused, plain)) in fused.iter().zip(&plain).enumerate() {
                assert_near(&format!("{what}, {start}, {queries:?}, {index}"), fused, plain, 5e-6);
            }
        }
    }
}

#[test]
fn extensions_by_distance() {
    let extensions = [
        "{ kind = 'rerope', window = 'L/2' }",
        "{ kind = 'rerope', window = 1 }",
        "{ kind = 'leaky_rerope' }",
        "{ kind = 'leaky_rerope', k = 0.5 }",
        "{ kind = 'self_extend', group = 6 }",
        "{ kind = 'sinks', n_sink = 3, window = 9 }",
        "{ kind = 'lambda_mask', n_global = 2, window = 9 }",
    ];
    for encoding in ["'rope'", "'xpos'", "'pope'", "'transformer_xl'"] {
        for extension in extensions {
            hold(&format!("{encoding} {extension}"), &extended(encoding, extension));
        }
    }
}

/// A geometry beside log-n, a factor on q.k, a temperature, a window and a bias, each kind that is described.
#[test]
fn scales_and_biases_beside_two_rotations() {
    let geometry =
        extended("'rope'", "{ kind = 'leaky_rerope', k = 3.0, allow_untrained = true }").geometry(0);
    let later = LogN::PostHoc { train_length: TRAIN };
    let learned = LogN::Learned { row: 0, bias: true, scale_bias: false };
    for (encoding, log_n) in [
        ("'rope'", later),
        ("['alibi', 'rope']", later),
        ("['fox', 'rope']", later),
        ("['t5', 'rope']", later),
        ("'rope'", learned),
        ("['rope', 'sink_logit']", later),
        ("['alibi', 'sink_logit', 'rope']", learned),
    ] {
        let mut reading = reading(encoding, log_n);
        let layer = &mut reading.layers_mut()[0];
        layer.geometry = Some(geometry.clone());
        layer.logit_scale = 1.3;
        layer.temperature = Temperature::All(1.7);
        hold(encoding, &reading);
        reading.layers_mut()[0].mask.window = Some(20);
        hold(&format!("{encoding}, window"), &reading);
    }
}

/// The learned numbers of sinks and of log-n scaling get the same gradients from fused attention, with one rotation or
/// two, and from plain operations.
#[test]
fn sinks_and_learned_log_n_have_the_gradients_of_plain_operations() {
    let device = Device::flex().autodiff();
    let log_n = LogN::Learned { row: 0, bias: true, scale_bias: false };
    let mut reading = testing::reading("['rope', 'sink_logit']", &SIZES, log_n, &device);
    let geometry = extended("'rope'", "{ kind = 'rerope', window = 'L/2' }").geometry(0);
    let positions = Positions::range(0..LENGTH);
    let tokens = Tensor::<2, Int>::zeros([1, LENGTH], &device);
    let input = Tensor::zeros([1, LENGTH, HEADS * DIM], &device);
    let queries = 9..LENGTH;
    for (geometry, window) in [(None, None), (None, Some(20)), (Some(geometry), None)] {
        let layer = &mut reading.layers_mut()[0];
        (layer.geometry, layer.mask.window, layer.temperature) = (geometry, window, Temperature::All(1.3));
        let block = QueryBlock { rows: Rows::new(0, &tokens, &positions), queries: &queries, input: &input };
        let gradients_of = |output: Tensor<4>| {
            let weights = Init::new(4, &device).normal("weights", output.dims(), 1.0).val().detach();
            parameter_gradients(&reading, &mut (output * weights).sum().backward())
        };
        let qkv = || qkv(&queries, &device).map(Tensor::detach);
        let fused = gradients_of(fused(qkv(), block, &reading));
        let plain = gradients_of(plain(qkv(), block, &reading));
        assert_eq!(fused.len(), 3 * HEADS, "the sink's logit, s and b of each head");
        // Each is a sum over all queries, so that terms as large as the largest may cancel.
        assert_near(&format!("{window:?}"), &fused, &plain, 5e-6);
        assert!(plain.iter().all(|gradient| gradient.abs() > 1e-4), "{plain:?}");
    }
}

fn parameter_gradients(reading: &Reading, gradients: &mut Gradients) -> Vec<f32> {
    let all = parameter_gradients_of(reading, gradients);
    assert_eq!(all.len(), reading.num_params(), "every parameter takes part");
    all
}

/// Those of the parameters that take part, in the order of the fields.
fn parameter_gradients_of(reading: &Reading, gradients: &mut Gradients) -> Vec<f32> {
    let taken = parameter::gradients(reading, gradients).into_iter().flatten();
    taken.flat_map(|gradient| gradient.into_data().try_to_vec::<f32>().unwrap()).collect()
}

/// Fused attention by every kind of weights is that in blocks, with the gradients, whatever the encoding describes.
#[test]
fn every_kind_of_weights_goes_with_what_is_described() {
    let stick =
        |attend_current, remainder| AttentionKind::StickBreaking(StickBreaking { attend_current, remainder });
    let kinds = [
        AttentionKind::Entmax(EntmaxKeys::default()),
        AttentionKind::Entmax(EntmaxKeys { alpha: 1.25 }),
        AttentionKind::Lssa,
        AttentionKind::Lssar(LssarKeys { power: 3 }),
        stick(false, Remainder::Value),
        stick(true, Remainder::Drop),
    ];
    let encodings = [
        "'none'",
        "'rope'",
        "'alibi'",
        "'t5'",
        "'fox'",
        "'shaw'",
        "'deberta'",
        "'cope'",
        "'transformer_xl'",
        "'pope'",
    ];
    let window = Mask { window: Some(9), sinks: 0 };
    for kind in kinds {
        for encoding in encodings {
            for mask in [Mask::default(), window] {
                let reading = reading(encoding, LogN::Off).with_attention(kind).unwrap();
                let mut reading = with_noise(reading, 6, 0.3);
                reading.layers_mut()[0].mask = mask;
                for queries in [0..LENGTH, 11..LENGTH, LENGTH - 1..LENGTH] {
                    let [fused, plain] = both(&reading, &Positions::range(0..LENGTH), queries.clone());
                    for (a, b) in fused.iter().zip(&plain) {
                        let what = format!("{kind:?}, {encoding}, {mask:?}, {queries:?}");
                        assert_near(&what, a, b, 3e-5);
                    }
                }
            }
        }
        let mut reading = extended("'rope'", "{ kind = 'rerope', window = 'L/2' }");
        reading = reading.with_attention(kind).unwrap();
        hold(&format!("{kind:?}"), &reading);
    }
}

/// A learned rest of a stick adds up the weights in a channel of ones, which stands behind those that `shaw` adds to.
#[test]
fn values_may_be_wider_than_the_vectors_that_are_added_to_them() {
    let stick = StickBreaking { attend_current: false, remainder: Remainder::Bias };
    let reading = reading("'shaw'", LogN::Off).with_attention(AttentionKind::StickBreaking(stick)).unwrap();
    let reading = with_noise(reading, 6, 0.3);
    let positions = Positions::range(0..LENGTH);
    let input = Tensor::zeros([1, LENGTH, HEADS * DIM], &Device::flex().autodiff());
    let tokens = Tensor::<2, Int>::zeros([1, LENGTH], &input.device());
    for queries in [0..LENGTH, LENGTH - 1..LENGTH] {
        let block = QueryBlock { rows: Rows::new(0, &tokens, &positions), queries: &queries, input: &input };
        let wide = |[q, k, v]: [Tensor<4>; 3]| {
            let ones = v.ones_like().slice_dim(3, 0..1);
            [q, k, Tensor::cat(vec![v, ones], 3)]
        };
        let found = differentiated(&queries, |qkv| fused(wide(qkv), block, &reading));
        let expected = differentiated(&queries, |qkv| plain(wide(qkv), block, &reading));
        for (a, b) in found.iter().zip(&expected) {
            assert_near(&format!("{queries:?}"), a, b, 3e-5);
        }
        let first = differentiated(&queries, |qkv| fused(wide(qkv), block, &reading).slice_dim(3, 0..DIM));
        let narrow = differentiated(&queries, |qkv| fused(qkv, block, &reading));
        assert_near(&format!("{queries:?}"), &first[0], &narrow[0], 1e-6);
    }
}

#[test]
fn borders_between_whole_distances() {
    let mut reading = extended("'rope'", "'self_extend'");
    let mut geometry = reading.geometry(0);
    for near in [-1.0, 0.0, 0.5, 7.0, 7.25, 52.0, 1e6, f64::INFINITY] {
        geometry.selector = Selector::Distance { near };
        reading.layers_mut()[0].geometry = Some(geometry.clone());
        hold(&format!("near {near}"), &reading);
    }
}

/// Where an index is no position, and where chunks choose, blocks read, whatever their number.
#[test]
fn what_is_not_by_index_stays_in_blocks() {
    let apart = Positions::range(0..LENGTH).map(|position| 0.5 * position);
    let consecutive = Positions::range(0..LENGTH);
    let rerope = extended("'rope'", "'rerope'");
    let chunks = extended("'rope'", "'dual_chunk'");
    for (reading, positions) in [(&rerope, &apart), (&chunks, &consecutive)] {
        assert!(Pairs::of(&reading.geometry(0), positions).is_none());
        let [read, plain] = both(reading, positions, 0..LENGTH);
        assert_eq!(read, plain);
    }
}

/// A mask that leaves a query no key, not even its own: the output and the gradients are zeros.
#[test]
fn rows_that_see_no_key_give_zeros() {
    // Half positions: such a mask is asked pair by pair.
    let positions = Positions::range(0..LENGTH).map(|position| 0.5 * position);
    for encoding in ["'rope'", "'alibi'"] {
        let mut reading = reading(encoding, LogN::Off);
        reading.layers_mut()[0].mask = Mask { window: Some(0), sinks: 0 };
        for found in both(&reading, &positions, 0..LENGTH) {
            assert!(found.iter().flatten().all(|x| *x == 0.0), "{encoding}");
        }
    }
}
