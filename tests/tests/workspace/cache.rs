//! A text read piece by piece gives what one pass over it gives, for every encoding under every extension
//! that applies to it: both lists are walked, so none is forgotten.

use crate::common::models::{self, distance, extensions, noisy};
use burn::tensor::{Device, Int, Tensor};
use longwave_model::{Cache, Gpt};
use longwave_position::encodings::every;
use longwave_position::layout::TextLayout;
use longwave_position::reading::AttentionKind;
use longwave_position::{Lengths, Reading};

const TRAIN: usize = 16;
const LENGTH: usize = 40;
const LENGTHS: Lengths = Lengths { train: TRAIN, length: LENGTH };
/// A prompt shorter than the training length, single tokens, and pieces that cross it.
const PIECES: [usize; 7] = [9, 1, 1, 14, 1, 13, 1];

/// Every encoding and its variants, and what is only a matter of a cache: lists, stacks, and tables that reach the
/// length.
fn encodings() -> Vec<String> {
    let inline = |text: String| format!("{{ {} }}", text.replace('\n', ", "));
    let others = [
        "{ kind = 'learned', past_table = 'interpolate' }",
        "[{ kind = 'causal_conv', kernel = 3 }, { kind = 'recursive', variant = 'rnn' }, 'rope']",
        "{ kind = 'tupe', relative = 't5', table_size = 40 }",
        "{ kind = 'multiplicative', table_size = 40 }",
        "[{ kind = 'causal_conv', kernel = 3 }, 'fox', 'rope']",
        "{ kind = 'deberta', absolute_layers = 1, absolute = { past_table = 'interpolate' } }",
        "{ kind = 'mixed', layers = [{ kind = 'rope', window = 7 }, { kind = 'none', log_n = true }] }",
        "{ kind = 'mixed', layers = ['none', { encodings = ['causal_conv', 'fox'], window = 9, sinks = 1 }] }",
        "{ kind = 'mixed', layers = [{ kind = 'rope', window = 7, sinks = 1, log_n = 'learned' }, { kind = 'rope', log_n = 'learned' }] }",
        "['alibi', 'causal_conv', 'kerple']",
        "{ kind = 'transformer_xl', memory = 21, shared_key = true }",
    ];
    every().into_iter().map(inline).chain(others.map(str::to_owned)).collect()
}

/// A model whose every parameter is its initial one and some noise, so that none is without effect.
fn model(position: &str) -> Gpt {
    model_of(position, "")
}

fn model_of(position: &str, keys: &str) -> Gpt {
    let keys = format!("layers = 2\nwidth = 32\nheads = 4\nkv_heads = 2\n{keys}");
    noisy(models::gpt(&keys, &models::position(position), [16, TRAIN], 0, &Device::flex()), 3, 0.1)
}

fn tokens(length: usize) -> Tensor<2, Int> {
    models::tokens(2, (0..2 * length as i32).map(|i| (i * i + i / 7) % 16).collect())
}

fn in_one(model: &Gpt, reading: &Reading, length: usize) -> Tensor<3> {
    models::hidden(model, reading, tokens(length))
}

fn in_pieces(model: &Gpt, reading: &Reading, pieces: &[usize]) -> Tensor<3> {
    let length = pieces.iter().sum();
    let mut cache = Cache::new(model, reading, length);
    let rows = pieces.iter().map(|&count| {
        let start = cache.rows();
        model.read_on(tokens(length).slice_dim(1, start..start + count), &mut cache)
    });
    Tensor::cat(rows.collect(), 1)
}

#[test]
fn every_encoding_under_every_extension_reads_the_same_in_pieces() {
    for encoding in encodings() {
        let model = model(&encoding);
        for (extension, _) in extensions(&model, LENGTHS) {
            let Ok(reading) = extension.apply(&model.position, LENGTHS) else { continue };
            if reading.check(&reading.layout().positions(LENGTH)).is_ok() {
                let off = distance(in_one(&model, &reading, LENGTH), in_pieces(&model, &reading, &PIECES));
                assert!(off < 1e-4, "{encoding} with {extension:?}: {off}");
            }
        }
        // Within the training length every encoding has a reading.
        let short =
            distance(in_one(&model, &model.position, TRAIN), in_pieces(&model, &model.position, &[5, 1, 10]));
        assert!(short < 1e-4, "{encoding}: {short}");
    }
}

/// Every kind of weights and of scales, alone, with a rotation, with biases and with what the text forgets, under every
/// extension: each is another function, and is the same in pieces.
#[test]
fn every_kind_of_attention_reads_the_same_in_pieces() {
    let kinds = [
        "attention = 'linear'",
        "attention = 'stick_breaking'",
        "attention = { kind = 'stick_breaking', remainder = 'bias' }",
        "attention = 'entmax'",
        "attention = { kind = 'entmax', alpha = 2 }\nlog_n = 'power'",
        "attention = 'entmax'\nlog_n = 'adaptive'\nlog_n_bias = true",
        "attention = 'lssa'",
        "attention = { kind = 'lssar', power = 3 }",
    ];
    for keys in kinds {
        let mut read = 0;
        for encoding in
            ["'none'", "'rope'", "'alibi'", "['t5', 'rope']", "'fox'", "'shaw'", "'deberta'", "'dape'"]
        {
            if keys.contains("linear") && !["'none'", "'rope'"].contains(&encoding) {
                continue;
            }
            let model = model_of(encoding, keys);
            let softmax = model.position.clone().with_attention(AttentionKind::Softmax).unwrap();
            let whole = in_one(&model, &model.position, LENGTH);
            assert!(distance(whole, in_one(&model, &softmax, LENGTH)) > 1e-3, "{keys}, {encoding}");
            for (extension, _) in extensions(&model, LENGTHS) {
                let Ok(reading) = extension.apply(&model.position, LENGTHS) else { continue };
                if reading.check(&reading.layout().positions(LENGTH)).is_ok() {
                    let off =
                        distance(in_one(&model, &reading, LENGTH), in_pieces(&model, &reading, &PIECES));
                    assert!(off < 1e-4, "{keys}, {encoding} with {extension:?}: {off}");
                    read += 1;
                }
            }
        }
        assert!(read > 7, "{keys}: {read} readings");
    }
}

#[test]
fn gates_norms_and_convolutions_read_the_same_in_pieces() {
    let segments = models::extension("'segments'");
    for keys in [
        "attention_gate = 'channel'\nattention_gate_bias = true\nnorm_attention_output = true",
        "canon = ['feed_forward', 'attention']",
    ] {
        for encoding in ["'rope'", "'fox'", "{ kind = 'complex_order', complex = true }"] {
            let model = model_of(encoding, keys);
            let cut = segments.apply(&model.position, LENGTHS).unwrap();
            for reading in [&model.position, &cut] {
                let off = distance(in_one(&model, reading, LENGTH), in_pieces(&model, reading, &PIECES));
                assert!(off < 1e-4, "{encoding}: {off}");
            }
            // A later token changes nothing before it.
            let earlier = in_one(&model, &model.position, 30)
                - in_one(&model, &model.position, LENGTH).slice_dim(1, 0..30);
            assert!(earlier.slice_dim(0, 0..1).abs().max().into_scalar::<f32>() < 1e-4, "{encoding}");
        }
    }
}

#[test]
fn factors_of_heads_reach_every_piece() {
    for encoding in ["'none'", "'rope'", "['alibi', 'sink_logit']", "'shaw'", "'path'"] {
        let model = model(encoding);
        let heads = "{ kind = 'direct', temperature = [[0.5, 1.0, 2.0, 1.5], [1.0, 3.0, 1.0, 0.7]] }";
        let heads = models::extension(heads);
        let trained = model.position.clone().with_head_scale(1.7).unwrap();
        let reading = heads.apply(&trained, LENGTHS).unwrap();
        let whole = in_one(&model, &reading, LENGTH);
        let off = distance(whole.clone(), in_pieces(&model, &reading, &PIECES));
        assert!(off < 1e-4, "{encoding}: {off}");
        for other in [&model.position, &trained] {
            assert!(distance(whole.clone(), in_one(&model, other, LENGTH)) > 1e-3, "{encoding}");
        }
    }
}

#[test]
fn log_n_counts_the_rows_before_a_piece_whatever_their_positions() {
    // Nothing else reads positions here, so that drawn ones change nothing.
    let model = model("{ kind = 'mixed', layers = [{ kind = 'none', log_n = true }] }");
    let mut drawn = model.position.clone();
    drawn.set_layout(TextLayout::Drawn { max_position: 16 * LENGTH, seed: 0 });
    let (whole, pieces) = (in_one(&model, &drawn, LENGTH), in_pieces(&model, &drawn, &PIECES));
    let counted = in_one(&model, &model.position, LENGTH);
    assert!(distance(whole, counted.clone()) == 0.0);
    assert!(distance(pieces, counted) < 1e-5);
}

#[test]
fn a_dynamic_method_is_fixed_at_the_whole_length() {
    // Read in pieces, every row has the frequencies of the whole length, not of what was read so far.
    let model = model("'rope'");
    let dynamic = models::extension("'dynamic_ntk'");
    let at = |length| dynamic.apply(&model.position, Lengths { train: TRAIN, length }).unwrap();
    let whole = in_pieces(&model, &at(LENGTH), &PIECES);
    let short = in_one(&model, &at(TRAIN), LENGTH);
    assert!(distance(whole, short) > 1e-3);
}
