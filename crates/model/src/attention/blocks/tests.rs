//! What the fused attention reads of two rotations is what plain operations read, block by block.

use super::*;
use crate::attention::attend;
use crate::attention::described::Pairs;
use crate::attention::route::is_described;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Int};
use longwave_position::encoding::{Dimensions, Selector};
use longwave_position::reading::{
    AttentionKind, EntmaxKeys, LogN, LssarKeys, Mask, Remainder, StickBreaking, Temperature,
};
use longwave_position::{ExtensionConfig, Init, Lengths, PositionConfig};
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

fn value(text: &str) -> toml::Value {
    format!("value = {text}").parse::<toml::Table>().unwrap().remove("value").unwrap()
}

fn reading(encoding: &str, log_n: LogN) -> Reading {
    PositionConfig::from_value(&value(encoding), "position")
        .and_then(|config| config.build("position", &SIZES, &Init::new(0, &Device::flex()), log_n))
        .unwrap()
}

fn extended(encoding: &str, extension: &str) -> Reading {
    let extension = ExtensionConfig::from_value(&value(extension), "extend").unwrap();
    extension
        .apply(&reading(encoding, LogN::Off), Lengths { train: TRAIN, length: LENGTH })
        .unwrap_or_else(|error| panic!("{encoding}: {error}"))
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
    let device = Device::flex().autodiff();
    let tokens = Tensor::<2, Int>::zeros([1, LENGTH], &device);
    let input = Tensor::zeros([1, LENGTH, HEADS * DIM], &device);
    let rows = Rows::new(0, &tokens, positions);
    let block = QueryBlock { rows, queries: &queries, input: &input };
    [
        differentiated(&queries, |qkv| attend(qkv, 0.4, block, reading, &mut Rotations::default())),
        differentiated(&queries, |qkv| attention(qkv, 0.4, block, reading, &mut Rotations::default())),
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
                let largest = plain.iter().fold(1.0_f32, |most, x| most.max(x.abs()));
                for (a, b) in fused.iter().zip(plain) {
                    let off = (a - b).abs();
                    assert!(off <= 5e-6 * largest, "{what}, {start}, {queries:?}, {index}: {a} {b}");
                }
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
    let position = PositionConfig::from_value(&value("['rope', 'sink_logit']"), "position").unwrap();
    let log_n = LogN::Learned { row: 0, bias: true, scale_bias: false };
    let mut reading = position.build("position", &SIZES, &Init::new(0, &device), log_n).unwrap();
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
            parameter_gradients(&reading, &(output * weights).sum().backward())
        };
        let qkv = || qkv(&queries, &device).map(Tensor::detach);
        let fused = gradients_of(attend(qkv(), 0.4, block, &reading, &mut Rotations::default()));
        let plain = gradients_of(attention(qkv(), 0.4, block, &reading, &mut Rotations::default()));
        assert_eq!(fused.len(), 3 * HEADS, "the sink's logit, s and b of each head");
        // Each is a sum over all queries, so that terms as large as the largest may cancel.
        let largest = plain.iter().fold(1.0_f32, |most, x| most.max(x.abs()));
        for (a, b) in fused.iter().zip(&plain) {
            assert!((a - b).abs() <= 5e-6 * largest, "{window:?}: {fused:?} {plain:?}");
        }
        assert!(plain.iter().all(|gradient| gradient.abs() > 1e-4), "{plain:?}");
    }
}

fn parameter_gradients(reading: &Reading, gradients: &Gradients) -> Vec<f32> {
    let all = parameter_gradients_of(reading, gradients);
    assert_eq!(all.len(), reading.num_params(), "every parameter takes part");
    all
}

/// Those of the parameters that take part, in the order of the fields.
fn parameter_gradients_of(reading: &Reading, gradients: &Gradients) -> Vec<f32> {
    struct Slopes<'a>(&'a Gradients, Vec<f32>);
    impl ModuleVisitor for Slopes<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = param.val().grad(self.0) {
                self.1.extend(gradient.into_data().try_to_vec::<f32>().unwrap());
            }
        }
    }
    let mut slopes = Slopes(gradients, Vec::new());
    reading.visit(&mut slopes);
    slopes.1
}

/// Temperatures of heads and trained factors: fused attention and plain operations agree, and both multiply the logits
/// of each head as one number for all heads does.
#[test]
fn every_head_has_its_own_temperature_on_every_path() {
    let device = Device::flex().autodiff();
    let positions = Positions::range(0..LENGTH);
    let tokens = Tensor::<2, Int>::zeros([1, LENGTH], &device);
    let input = Init::new(6, &device).normal("input", [1, LENGTH, HEADS * DIM], 1.0).val().detach();
    let key_matrix = Init::new(6, &device).normal("keys", [HEADS * DIM, KV_HEADS * DIM], 0.3).val().detach();
    let weights = Init::new(4, &device).normal("weights", [1, HEADS, LENGTH - 9, DIM], 1.0).val().detach();
    let queries = 9..LENGTH;
    let rerope = extended("'rope'", "{ kind = 'rerope', window = 'L/2' }").geometry(0);
    let (temperatures, trained) = (vec![0.5, 1.0, 2.0, 1.25], 1.5);
    for (encoding, geometry) in [
        ("'none'", None),
        ("'rope'", None),
        ("'rope'", Some(rerope)),
        ("['alibi', 'rope']", None),
        ("['t5', 'sink_logit']", None),
        ("'fire'", None),
        ("'fox'", None),
        ("['fox', 'alibi']", None),
        ("'shaw'", None),
        ("'deberta'", None),
        ("'transformer_xl'", None),
        ("'cope'", None),
        ("'path'", None),
    ] {
        let config = PositionConfig::from_value(&value(encoding), "position").unwrap();
        let plain = config.build("position", &SIZES, &Init::new(0, &device), LogN::Off).unwrap();
        let with = |temperature, factors: bool| {
            let plain = plain.clone();
            let mut reading = if factors { plain.with_head_scale(trained).unwrap() } else { plain };
            let layer = &mut reading.layers_mut()[0];
            (layer.temperature, layer.geometry) = (temperature, geometry.clone());
            reading
        };
        let rows = Rows { key_matrix: Some(&key_matrix), ..Rows::new(0, &tokens, &positions) };
        let block = QueryBlock { rows, queries: &queries, input: &input };
        let qkv = || qkv(&queries, &device).map(Tensor::detach);
        let fused = |reading: &Reading| attend(qkv(), 0.4, block, reading, &mut Rotations::default());
        let blocks = |reading: &Reading| attention(qkv(), 0.4, block, reading, &mut Rotations::default());
        let apart = |a: Tensor<4>, b: Tensor<4>| (a - b).abs().max().into_scalar::<f32>();
        let both = with(Temperature::Heads(temperatures.clone()), true);
        let off = apart(fused(&both), blocks(&both));
        assert!(off < 1e-5, "{encoding}: {off}");
        for (head, temperature) in temperatures.iter().enumerate() {
            let of_head = |x: Tensor<4>| x.slice_dim(1, head..head + 1);
            let alone = with(Temperature::All(temperature / trained), false);
            let off = apart(of_head(fused(&both)), of_head(fused(&alone)));
            assert!(off < 1e-5, "{encoding}, head {head}: {off}");
        }
        // The gradient of the factors, against the other path and against a difference.
        let loss = |output: Tensor<4>| (output * weights.clone()).sum();
        let gradient = |output: Tensor<4>| {
            let factors = both.head_factors(0, &device).unwrap();
            assert_eq!(factors.dims(), [HEADS]);
            let all = parameter_gradients_of(&both, &loss(output).backward());
            all[all.len() - HEADS..].to_vec()
        };
        let (ours, plain_ones) = (gradient(fused(&both)), gradient(blocks(&both)));
        let colder = |factor: f64| {
            let scaled = temperatures.iter().map(|temperature| temperature / factor).collect();
            loss(fused(&with(Temperature::Heads(scaled), true))).into_scalar::<f32>()
        };
        let slope = (colder(1.01) - colder(0.99)) / 0.02;
        let sum = ours.iter().sum::<f32>() * trained as f32;
        assert!((sum - slope).abs() < 0.02 * slope.abs().max(0.5), "{encoding}: {sum} {slope}");
        for (a, b) in ours.iter().zip(&plain_ones) {
            assert!((a - b).abs() < 1e-4, "{encoding}: {ours:?} {plain_ones:?}");
        }
    }
}

/// Adds noise to every parameter, so that vectors that start at 0 do something.
struct Noise(Init, usize);

impl ModuleMapper for Noise {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        self.1 += 1;
        let noise = self.0.normal(&format!("noise {}", self.1), param.dims(), 0.3).val();
        Param::from_tensor(param.val() + noise)
    }
}

/// Counts read the gates of training at any temperature, keys between sinks and window, and the keys of a cache.
#[test]
fn counted_vectors_on_every_path() {
    let init = Init::new(6, &Device::flex());
    for encoding in ["{ kind = 'cope', npos = 9 }", "{ kind = 'cope', npos = 9, gate_scaled = false }"] {
        for (temperature, mask) in [
            (1.0, Mask::default()),
            (1.7, Mask::default()),
            (0.6, Mask { window: Some(12), sinks: 0 }),
            (0.6, Mask { window: Some(12), sinks: 3 }),
        ] {
            let mut reading = reading(encoding, LogN::Off).map(&mut Noise(init.clone(), 0));
            let layer = &mut reading.layers_mut()[0];
            (layer.temperature, layer.mask) = (Temperature::All(temperature), mask);
            let tokens = Tensor::<2, Int>::zeros([1, LENGTH], &Device::flex());
            for positions in [Positions::range(0..LENGTH), Positions::range(0..LENGTH).map(|m| 1.5 * m)] {
                let by_index = mask.by_index(&positions).is_some();
                assert_eq!(is_described(&reading, Rows::new(0, &tokens, &positions)), by_index);
                for queries in [0..LENGTH, 11..LENGTH, LENGTH - 1..LENGTH] {
                    let [fused, plain] = both(&reading, &positions, queries.clone());
                    for (a, b) in fused.iter().flatten().zip(plain.iter().flatten()) {
                        assert!((a - b).abs() <= 2e-5, "{encoding}, {temperature}, {queries:?}: {a} {b}");
                    }
                }
            }
        }
    }
}

/// What an encoding describes by distance is scaled by log-n as its maps are.
#[test]
fn log_n_scales_what_is_described_by_distance() {
    let device = Device::flex();
    let positions = Positions::range(0..LENGTH);
    let tokens = Tensor::<2, Int>::zeros([1, LENGTH], &device);
    let init = Init::new(6, &device);
    let input = init.normal("input", [1, LENGTH, HEADS * DIM], 1.0).val();
    let key_matrix = init.normal("keys", [HEADS * DIM, KV_HEADS * DIM], 0.3).val();
    let scales =
        [LogN::Learned { row: 0, bias: false, scale_bias: false }, LogN::Trained { train_length: TRAIN }];
    let encodings =
        ["'transformer_xl'", "'shaw'", "'deberta'", "'cope'", "{ kind = 'cope', gate_scaled = false }"];
    for (encoding, log_n) in encodings.into_iter().flat_map(|encoding| scales.map(|log_n| (encoding, log_n)))
    {
        let reading = reading(encoding, log_n).map(&mut Noise(init.clone(), 0));
        let rows = Rows { key_matrix: Some(&key_matrix), ..Rows::new(0, &tokens, &positions) };
        let block = QueryBlock { rows, queries: &(0..LENGTH), input: &input };
        let qkv = || qkv(&(0..LENGTH), &device);
        let fused = attend(qkv(), 0.4, block, &reading, &mut Rotations::default());
        let plain = attention(qkv(), 0.4, block, &reading, &mut Rotations::default());
        let off = (fused - plain).abs().max().into_scalar::<f32>();
        assert!(off < 1e-5, "{encoding}, {log_n:?}: {off}");
    }
}

/// Fused attention by every kind of weights is that in blocks, with the gradients, whatever the encoding describes.
#[test]
fn every_kind_of_weights_goes_with_what_is_described() {
    let init = Init::new(6, &Device::flex());
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
                let mut reading = reading.map(&mut Noise(init.clone(), 0));
                reading.layers_mut()[0].mask = mask;
                for queries in [0..LENGTH, 11..LENGTH, LENGTH - 1..LENGTH] {
                    let [fused, plain] = both(&reading, &Positions::range(0..LENGTH), queries.clone());
                    for (a, b) in fused.iter().zip(&plain) {
                        let largest = b.iter().fold(1.0_f32, |largest, b| largest.max(b.abs()));
                        let off = a.iter().zip(b).fold(0.0_f32, |off, (a, b)| off.max((a - b).abs()));
                        assert!(off <= 3e-5 * largest, "{kind:?}, {encoding}, {mask:?}, {queries:?}: {off}");
                    }
                }
            }
        }
        let mut reading = extended("'rope'", "{ kind = 'rerope', window = 'L/2' }");
        reading = reading.with_attention(kind).unwrap();
        hold(&format!("{kind:?}"), &reading);
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
