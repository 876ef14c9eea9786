//! The scores that an encoding describes, on every path: by heads, by counts and by distance.

use super::*;
use longwave_position::encoding::PositionUse;

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
        let bare = testing::reading(encoding, &SIZES, LogN::Off, &device);
        let with = |temperature, factors: bool| {
            let bare = bare.clone();
            let mut reading = if factors { bare.with_head_scale(trained).unwrap() } else { bare };
            let layer = &mut reading.layers_mut()[0];
            (layer.temperature, layer.geometry) = (temperature, geometry.clone());
            reading
        };
        let rows = Rows { key_matrix: Some(&key_matrix), ..Rows::new(0, &tokens, &positions) };
        let block = QueryBlock { rows, queries: &queries, input: &input };
        let qkv = || qkv(&queries, &device).map(Tensor::detach);
        let fused = |reading: &Reading| fused(qkv(), block, reading);
        let blocks = |reading: &Reading| plain(qkv(), block, reading);
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
            let all = parameter_gradients_of(&both, &mut loss(output).backward());
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

/// Counts read the gates of training at any temperature, keys between sinks and window, and the keys of a cache.
#[test]
fn counted_vectors_on_every_path() {
    for encoding in ["{ kind = 'cope', npos = 9 }", "{ kind = 'cope', npos = 9, gate_scaled = false }"] {
        for (temperature, mask) in [
            (1.0, Mask::default()),
            (1.7, Mask::default()),
            (0.6, Mask { window: Some(12), sinks: 0 }),
            (0.6, Mask { window: Some(12), sinks: 3 }),
        ] {
            let mut reading = with_noise(reading(encoding, LogN::Off), 6, 0.3);
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
        let reading = with_noise(reading(encoding, log_n), 6, 0.3);
        let rows = Rows { key_matrix: Some(&key_matrix), ..Rows::new(0, &tokens, &positions) };
        let block = QueryBlock { rows, queries: &(0..LENGTH), input: &input };
        let qkv = || qkv(&(0..LENGTH), &device);
        let off =
            (fused(qkv(), block, &reading) - plain(qkv(), block, &reading)).abs().max().into_scalar::<f32>();
        assert!(off < 1e-5, "{encoding}, {log_n:?}: {off}");
    }
}

/// What a layer's encodings say of shifts is what its attention does: terms made of q and k read them rotated, so that a rotation beside
/// them shows where the text stands.
#[test]
fn what_reads_rotated_queries_and_keys_sees_a_shift_of_all_positions() {
    let device = Device::flex();
    let tokens = Tensor::<2, Int>::zeros([1, LENGTH], &device);
    let input = Init::new(6, &device).normal("input", [1, LENGTH, HEADS * DIM], 1.0).val();
    let queries = 0..LENGTH;
    for (encoding, moves) in [
        ("['rope', 'cope']", true),
        ("['shaw', 'rope']", true),
        ("['rope', 'deberta']", true),
        ("['rope', { kind = 'grape_a', gate = 'both' }]", true),
        ("['rope', 'pope']", true),
        ("['rope', 'transformer_xl']", true),
        ("[{ kind = 'xpos', centre = 0 }, 'shaw']", true),
        ("['rope', 'dape']", false),
        ("['rope', 'scale_invariant', 'alibi']", false),
        ("['xpos', 'fox']", false),
        ("'cope'", false),
        ("'pope'", false),
    ] {
        let reading = with_noise(reading(encoding, LogN::Off), 1, 0.3);
        let at = |start: usize| {
            let positions = Positions::range(start..start + LENGTH);
            let rows = Rows::new(0, &tokens, &positions);
            fused(qkv(&queries, &device), QueryBlock { rows, queries: &queries, input: &input }, &reading)
        };
        let off = (at(0) - at(50)).abs().max().into_scalar::<f32>();
        assert!(if moves { off > 1e-2 } else { off < 1e-4 }, "{encoding}: {off}");
        assert_eq!(reading.position_use() == PositionUse::Positions, moves, "{encoding}");
    }
}

/// The centre of a decay moves with the text, where none is given.
#[test]
fn the_decay_of_a_text_does_not_see_what_follows() {
    const SHORT: usize = 30;
    let device = Device::flex();
    let input = Init::new(6, &device).normal("input", [1, LENGTH, HEADS * DIM], 1.0).val();
    let moving = "{ kind = 'xpos', scale_base = 64.0 }";
    for list in [
        moving.to_owned(),
        format!("{moving}, 'dape'"),
        format!("{moving}, 'scale_invariant', 'fox'"),
        format!("{moving}, {{ kind = 'tupe', table_size = 64 }}"),
        "{ kind = 'xpos', scale_base = 64.0, centre = 0 }, 'shaw'".to_owned(),
    ] {
        let reading = with_noise(reading(&format!("[{list}]"), LogN::Off), 1, 0.3);
        let of = |length: usize| {
            let (queries, positions) = (0..length, Positions::range(0..length));
            let tokens = Tensor::<2, Int>::zeros([1, length], &device);
            let input = input.clone().slice_dim(1, 0..length);
            let rows = Rows::new(0, &tokens, &positions);
            let qkv = qkv(&(0..LENGTH), &device).map(|x| x.slice_dim(2, 0..length));
            fused(qkv, QueryBlock { rows, queries: &queries, input: &input }, &reading)
        };
        let off = (of(LENGTH).slice_dim(2, 0..SHORT) - of(SHORT)).abs().max().into_scalar::<f32>();
        assert!(off < 1e-5, "{list}: {off}");
    }
}
