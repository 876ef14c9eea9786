//! The probabilities that are shown are those of the forward pass: times the values they are its output.

use super::*;
use crate::ModelConfig;
use crate::testing::{self, extended, with_noise};
use burn::tensor::{Device, Int, TensorData};
use longwave_kernels::repeat_heads;
use longwave_position::encoding::QueryBlock;
use longwave_position::reading::{AttentionKind, Remainder, StickBreaking};
use longwave_position::{Init, Lengths, Positions};

const TRAIN: usize = 16;
const LENGTH: usize = 40;
const BATCH: usize = 2;
const HEADS: usize = 4;
const VOCABULARY: usize = 20;

/// A model of two layers, four heads and two of keys, and how it is read.
fn model(position: &str, keys: &str, extension: &str) -> (Gpt, Reading) {
    let sizes = "layers = 2\nwidth = 32\nheads = 4\nkv_heads = 2\n";
    let table = format!("{sizes}{keys}").parse().unwrap();
    let config: ModelConfig = longwave_core::config::read(&table, "model").unwrap();
    let resolved = config.resolve(VOCABULARY, TRAIN).unwrap();
    let model = Gpt::new(&resolved, &testing::position(position), &Init::new(0, &Device::flex())).unwrap();
    let model = with_noise(model, 7, 0.2);
    let reading = extended(&model.position, extension, Lengths { train: TRAIN, length: LENGTH });
    (model, reading)
}

fn tokens(length: usize) -> Tensor<2, Int> {
    let ids: Vec<i32> = (0..BATCH * length).map(|at| ((7 * at + at * at / 3) % VOCABULARY) as i32).collect();
    Tensor::from_data(TensorData::new(ids, [BATCH, length]), &Device::flex())
}

fn numbers<const D: usize>(x: &Tensor<D>) -> Vec<f32> {
    x.clone().into_data().try_to_vec().unwrap()
}

/// The probabilities of every layer, `[batch, heads, length, length]`: 0 for keys that are not shown.
fn probabilities(model: &Gpt, reading: &Reading, length: usize) -> Vec<Tensor<4>> {
    let positions = reading.layout().positions(length);
    let pass = Pass { tokens: tokens(length), positions: &positions, reading, dropout: None };
    let mut all = vec![vec![0.0_f32; BATCH * HEADS * length * length]; model.blocks.len()];
    let mut next = vec![0; model.blocks.len()];
    let mut watch = |shown: &Probabilities<'_>| {
        assert_eq!(shown.queries.start, next[shown.layer], "queries come in order");
        next[shown.layer] = shown.queries.end;
        let [batch, heads, queries, keys] = shown.values.dims();
        assert_eq!((batch, heads, queries), (BATCH, HEADS, shown.queries.len()));
        for (row, given) in numbers(shown.values).chunks(keys).enumerate() {
            let to = (row / queries * length + shown.queries.start + row % queries) * length;
            all[shown.layer][to + shown.first_key..][..keys].copy_from_slice(given);
        }
        Ok(())
    };
    model.watch_attention(&pass, 0, &mut watch).unwrap();
    assert!(next.iter().all(|&end| end == length), "every query is shown: {next:?}");
    let shape = [BATCH, HEADS, length, length];
    all.into_iter().map(|of| Tensor::from_data(TensorData::new(of, shape), &Device::flex())).collect()
}

/// The stream after the attention of a layer, from its input and its probabilities.
fn stream(model: &Gpt, reading: &Reading, layer: usize, x: &Tensor<3>, given: &Tensor<4>) -> Tensor<3> {
    let (block, length) = (&model.blocks[layer], x.dims()[1]);
    let attention = &block.attention;
    let input = block.attention_input(x.clone());
    let (_, _, v) = attention.unrotated(attention.packed(input.clone(), attention.qkv_matrix()));
    let v = repeat_heads(v, 2);
    let mut heads = given.clone().matmul(v.clone());
    let (tokens, positions) = (tokens(length), reading.layout().positions(length));
    let rows = Rows::new(layer, &tokens, &positions);
    if let Some(addition) = reading.values(given, QueryBlock { rows, queries: &(0..length), input: &input }) {
        heads = heads + addition;
    }
    let rest = given.clone().sum_dim(3).neg().add_scalar(1.0);
    match (reading.attention(), &attention.remainder) {
        (_, Some(learned)) => heads = heads + rest * learned.val().reshape([1, HEADS, 1, 8]),
        (AttentionKind::StickBreaking(StickBreaking { remainder: Remainder::Value, .. }), _) => {
            heads = heads + rest * v;
        }
        _ => {}
    }
    attention.joined(heads, input, Some(x.clone()))
}

/// Sums of the rows of probabilities, `[batch, heads, length]`.
fn sums(given: &Tensor<4>) -> Vec<f32> {
    numbers(&given.clone().sum_dim(3))
}

const STICK: &str = "attention = { kind = 'stick_breaking', remainder =";

/// The families: position, keys of the model, extension.
const CASES: &[[&str; 3]] = &[
    ["'rope'", "", "'direct'"],
    ["'rope'", "qk_norm = 'rms'", "'yarn'"],
    ["'rope'", "qk_norm = 'cosine'", "{ kind = 'linear', temperature = 0.5 }"],
    ["'rope'", "log_n = true", "'ntk'"],
    ["['rope', 'sink_logit']", "", "{ kind = 'direct', temperature_law = 'entropy' }"],
    ["'rope'", "attention_gate = 'head'\ncanon = ['attention']\nnorm_attention_output = true", "'direct'"],
    ["'rope'", "log_n = 'learned'\nlog_n_bias = true", "'direct'"],
    ["'rope'", "log_n = 'adaptive'\nlog_n_bias = true", "'direct'"],
    ["'none'", "log_n = 'power'\nattention = 'entmax'", "'direct'"],
    ["'rope'", "attention = { kind = 'entmax', alpha = 1.2 }", "'self_extend'"],
    ["'cope'", "attention = { kind = 'entmax', alpha = 2 }", "'direct'"],
    ["'alibi'", "attention = 'lssa'", "'direct'"],
    ["'rope'", "", "{ kind = 'rerope', window = 'L/2' }"],
    ["'rope'", "", "'self_extend'"],
    ["'rope'", "", "'dual_chunk'"],
    ["'rope'", "", "'randpos'"],
    ["'alibi'", "", "'direct'"],
    ["['alibi', 'rope']", "", "'direct'"],
    ["'shaw'", "", "'direct'"],
    ["'deberta'", "", "'direct'"],
    ["'cope'", "", "'direct'"],
    ["'fire'", "", "'direct'"],
    ["'fox'", "", "'direct'"],
    ["'path'", "", "'direct'"],
    ["{ kind = 'wall', scalar_gate = true }", "log_n = true", "'direct'"],
    ["['rope', 'grape_a']", "", "'direct'"],
    ["'bam'", "log_n = { kind = 'learned', scale_bias = true }", "'direct'"],
    ["'transformer_xl'", "", "'direct'"],
    ["{ kind = 'transformer_xl', shared_key = true }", "", "'self_extend'"],
    ["['t5', 'sink_logit']", "", "'direct'"],
    ["['rope', 'sink_logit']", "", "'rerope'"],
    ["'sinusoidal'", "norm = 'layer_norm'", "'direct'"],
];

#[track_caller]
fn hold(what: &str, model: &Gpt, reading: &Reading) -> Vec<Tensor<4>> {
    let given = probabilities(model, reading, LENGTH);
    let positions = reading.layout().positions(LENGTH);
    let pass = Pass { tokens: tokens(LENGTH), positions: &positions, reading, dropout: None };
    let mut input = None;
    let Ok(_) = model.hidden_watched::<std::convert::Infallible>(&pass, &mut |place, x| {
        match place {
            Place::Input(_) => input = Some(x.clone()),
            Place::Attention(layer) => {
                let expected = stream(model, reading, layer, input.as_ref().unwrap(), &given[layer]);
                let size: f32 = x.clone().abs().max().into_scalar();
                let off: f32 = (x.clone() - expected).abs().max().into_scalar();
                assert!(off < 1e-5 * size.max(1.0), "{what}, layer {layer}: {off} of {size}");
            }
            _ => {}
        }
        Ok(())
    });
    for (layer, given) in given.iter().enumerate() {
        let numbers = numbers(given);
        for (row, given) in numbers.chunks(LENGTH).enumerate() {
            let query = row % LENGTH;
            assert!(given.iter().all(|p| (0.0..=1.00001).contains(p)), "{what}, layer {layer}: {given:?}");
            assert!(given[query + 1..].iter().all(|p| *p == 0.0), "{what}: later keys are hidden");
        }
        // All keys alike would hide mistakes.
        let last = &numbers[(LENGTH - 1) * LENGTH..LENGTH * LENGTH];
        let most = last.iter().fold(0.0_f32, |most, p| most.max(*p));
        assert!(most > 1.3 / LENGTH as f32, "{what}, layer {layer}: {last:?}");
    }
    given
}

#[test]
fn probabilities_times_values_are_the_output() {
    for [position, keys, extension] in CASES {
        let (model, reading) = model(position, keys, extension);
        let what = format!("{position} {keys} {extension}");
        let has_sink = position.contains("sink_logit");
        for given in hold(&what, &model, &reading) {
            let sums = sums(&given);
            assert!(
                sums.iter().all(|sum| *sum < 1.00001 && (has_sink || *sum > 0.99999)),
                "{what}: {sums:?}"
            );
            assert!(!has_sink || sums.iter().any(|sum| *sum < 0.9), "{what}: the sink takes a share");
        }
    }
}

#[test]
fn the_rest_of_a_stick_goes_to_no_key() {
    for (remainder, position) in [("'value'", "'rope'"), ("'bias'", "'none'"), ("'drop'", "'alibi'")] {
        let (model, reading) = model(position, &format!("{STICK} {remainder} }}"), "'direct'");
        for given in hold(remainder, &model, &reading) {
            let own: Vec<f32> = numbers(&given);
            let own = |query: usize| own[query * LENGTH + query];
            assert!((0..LENGTH).all(|query| own(query) == 0.0), "a query does not see itself");
            let sums = sums(&given);
            assert_eq!(sums[0], 0.0, "the first query has no key");
            assert!(
                sums.iter().all(|sum| *sum < 1.00001) && sums[1] < 0.99,
                "one key leaves something: {sums:?}"
            );
        }
    }
}

#[test]
fn nothing_is_given_to_hidden_keys() {
    let stack = "{ kind = 'mixed', layers = [{ kind = 't5', window = 5, sinks = 2 }, { kind = 'none', window = 9 }] }";
    let masks = |position: &str, extension: &str, of: [(usize, usize); 2]| {
        let (model, reading) = model(position, "", extension);
        let given = hold(&format!("{position} {extension}"), &model, &reading);
        for (layer, (window, sinks)) in of.into_iter().enumerate() {
            for (row, given) in numbers(&given[layer]).chunks(LENGTH).enumerate() {
                let query = row % LENGTH;
                for (key, p) in given.iter().enumerate().take(query + 1) {
                    let hidden = query - key >= window && key >= sinks;
                    assert_eq!(*p == 0.0, hidden, "{position}, layer {layer}, {query} to {key}: {p}");
                }
            }
        }
    };
    masks(stack, "'direct'", [(5, 2), (9, 0)]);
    masks("'rope'", "'window'", [(TRAIN, 0); 2]);
    masks("'rope'", "{ kind = 'sinks', n_sink = 3, window = 9 }", [(9, 3); 2]);
}

/// A temperature and a factor for each head.
#[test]
fn heads_may_have_factors() {
    let (model, reading) = model(
        "'rope'",
        "",
        "{ kind = 'direct', temperature = [[0.5, 1.0, 2.0, 1.5], [1.0, 3.0, 0.7, 0.9]] }",
    );
    hold("temperatures", &model, &reading);
    let reading = reading.with_head_scale(1.7).unwrap();
    hold("factors", &model, &reading);
}

/// Longer than a block of queries.
#[test]
fn long_texts_come_in_blocks() {
    let (model, reading) = model("'rope'", "", "'direct'");
    let long = probabilities(&model, &reading, 300);
    let short = probabilities(&model, &reading, LENGTH);
    for (long, short) in long.iter().zip(&short) {
        assert!(sums(long).iter().all(|sum| (sum - 1.0).abs() < 1e-5));
        // Rows of a batch differ but for the first: its beginning is the same text.
        let first = |x: &Tensor<4>| x.clone().slice([0..1, 0..HEADS, 0..LENGTH, 0..LENGTH]);
        let off: f32 = (first(long) - first(short)).abs().max().into_scalar();
        assert!(off < 1e-6, "{off}");
    }
}

/// In layer 0 the keys of a memory are those of the text as one, of which a query sees fewer.
#[test]
fn segments_see_their_memory_alone() {
    let (model, plain) = model("'transformer_xl'", "", "'direct'");
    let whole = numbers(&probabilities(&model, &plain, LENGTH)[0]);
    for (layout, memory) in
        [(TextLayout::Recurrent { length: 12, memory: 7 }, 7), (TextLayout::Segments { length: 12 }, 0)]
    {
        let mut reading = plain.clone();
        reading.set_layout(layout);
        let given = numbers(&probabilities(&model, &reading, LENGTH)[0]);
        for (row, (given, whole)) in given.chunks(LENGTH).zip(whole.chunks(LENGTH)).enumerate() {
            let query = row % LENGTH;
            let first = (query / 12 * 12).saturating_sub(memory);
            let sum: f32 = whole[first..=query].iter().sum();
            for key in 0..LENGTH {
                let expected = if (first..=query).contains(&key) { whole[key] / sum } else { 0.0 };
                assert!((given[key] - expected).abs() < 1e-5, "{layout:?}: {query} to {key}");
            }
        }
    }
}

#[test]
fn linear_attention_has_none() {
    let (model, reading) = model("'rope'", "attention = 'linear'", "'direct'");
    let positions = Positions::range(0..LENGTH);
    let pass = Pass { tokens: tokens(LENGTH), positions: &positions, reading: &reading, dropout: None };
    let error = model.watch_attention(&pass, 0, &mut |_| panic!("nothing is shown")).unwrap_err();
    assert!(error.message().contains("`model.attention = \"linear\"` has no attention probabilities"));
}

#[test]
fn an_error_ends_the_pass() {
    let (model, reading) = model("'rope'", "", "'direct'");
    let positions = Positions::range(0..LENGTH);
    let pass = Pass { tokens: tokens(LENGTH), positions: &positions, reading: &reading, dropout: None };
    let mut shown = 0;
    let result = model.watch_attention(&pass, 0, &mut |_| {
        shown += 1;
        Err(Error::interrupted("enough"))
    });
    assert_eq!((result.unwrap_err().message(), shown), ("enough", 1));
}

#[test]
fn later_queries_alone_are_shown_as_among_all() {
    for [position, keys, extension] in
        [["'rope'", "", "{ kind = 'rerope', window = 'L/2' }"], ["'cope'", "", "'direct'"]]
    {
        let (model, reading) = model(position, keys, extension);
        let positions = reading.layout().positions(LENGTH);
        let pass = Pass { tokens: tokens(LENGTH), positions: &positions, reading: &reading, dropout: None };
        let all = probabilities(&model, &reading, LENGTH);
        let first = LENGTH - 5;
        let mut layers = 0;
        let mut watch = |shown: &Probabilities<'_>| {
            assert_eq!((shown.queries.clone(), shown.first_key), (first..LENGTH, 0));
            let expected = all[shown.layer].clone().slice_dim(2, first..LENGTH);
            let off = (shown.values.clone() - expected).abs().max().into_scalar::<f32>();
            assert!(off < 1e-6, "{position} {extension}: {off}");
            layers += 1;
            Ok(())
        };
        model.watch_attention(&pass, first, &mut watch).unwrap();
        assert_eq!(layers, model.blocks.len());
    }
}
