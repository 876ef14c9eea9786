//! What every encoding and extension must leave true of the model.

use crate::common::models::{self, distance};
use burn::tensor::{Device, Int, Tensor};
use longwave_core::Error;
use longwave_model::{Gpt, Pass};
use longwave_position::encoding::{Geometry, PositionMap, Selector};
use longwave_position::encodings;
use longwave_position::sampling::TrainingPositions;
use longwave_position::{Lengths, Positions, Reading};
use longwave_train::parameters;

const LENGTH: usize = 24;

/// Mixed stacks of two layers: each kind of hook on its own, in both orders, with windows and log-n.
const STACKS: &[&str] = &[
    "{ kind = 'mixed', layers = [{ kind = 'rope', window = 7 }, { kind = 'none', log_n = true }] }",
    "{ kind = 'mixed', layers = ['none', { encodings = ['learned', 'rope'], window = 'L/2', sinks = 2 }] }",
    "{ kind = 'mixed', layers = [{ kind = 't5', window = 5 }, { encodings = ['kerple', 'xpos'] }] }",
    "{ kind = 'mixed', layers = [{ encodings = ['rope', 'sink_logit'], window = 7, log_n = 'learned' }, { kind = 'none', log_n = 'learned' }] }",
    "{ kind = 'mixed', layers = ['deberta', { kind = 'pope', window = 9, sinks = 1 }] }",
    "{ kind = 'mixed', layers = [{ kind = 'complex_order' }, { kind = 'cope', window = 6 }] }",
];

/// Every encoding by name, and the stacks.
fn all() -> Vec<&'static str> {
    encodings::kinds().iter().map(|entry| entry.kind).chain(STACKS.iter().copied()).collect()
}

fn model(position: &str) -> Gpt {
    let quoted = if position.starts_with('{') { position.to_owned() } else { format!("'{position}'") };
    models::gpt("size = 'nano'", &models::position(&quoted), [50, LENGTH], 0, &Device::flex())
}

fn tokens(change: Option<usize>) -> Tensor<2, Int> {
    let id = |i: usize| if Some(i) == change { 49 } else { (i * i % 50) as i32 };
    models::tokens(1, (0..LENGTH).map(id).collect())
}

fn logits(model: &Gpt, reading: &Reading, positions: &Positions, tokens: Tensor<2, Int>) -> Tensor<3> {
    let pass = Pass { tokens, positions, reading, dropout: None };
    model.logits(model.hidden(&pass))
}

/// The same model read one block of queries at a time: two entries that agree leave nothing to choose.
fn by_block(model: &Gpt) -> Reading {
    let mut reading = model.position.clone();
    for layer in reading.layers_mut() {
        layer.geometry = Some(Geometry {
            maps: vec![(PositionMap::Identity, PositionMap::Identity); 2],
            selector: Selector::Distance { near: 5.0 },
        });
    }
    reading
}

#[test]
fn a_later_token_changes_nothing_earlier() {
    let positions = Positions::range(0..LENGTH);
    for kind in all() {
        let model = model(kind);
        for reading in [model.position.clone(), by_block(&model)] {
            let before = logits(&model, &reading, &positions, tokens(None));
            let after = logits(&model, &reading, &positions, tokens(Some(15)));
            let earlier = |x: &Tensor<3>| x.clone().slice_dim(1, 0..15);
            assert!(distance(earlier(&before), earlier(&after)) == 0.0, "{kind}");
            assert!(distance(before, after) > 0.0, "{kind}");
        }
    }
}

#[test]
fn reading_by_blocks_is_the_same_attention() {
    let positions = Positions::range(0..LENGTH);
    for kind in all() {
        let model = model(kind);
        let whole = logits(&model, &model.position, &positions, tokens(None));
        let blocks = logits(&model, &by_block(&model), &positions, tokens(None));
        let off = distance(whole, blocks);
        assert!(off < 1e-5, "{kind}: {off}");
    }
}

#[test]
fn a_relative_encoding_does_not_see_where_the_text_begins() {
    for kind in ["none", "rope", "{ kind = 'mixed', layers = [{ kind = 'rope', window = 7 }, 'none'] }"] {
        let model = model(kind);
        let at = |start: usize| {
            logits(&model, &model.position, &Positions::range(start..start + LENGTH), tokens(None))
        };
        let off = distance(at(0), at(5000));
        assert!(off < 2e-5, "{kind}: {off}");
    }
}

#[test]
fn trained_log_n_counts_rows_where_positions_are_drawn() {
    let keys = "size = 'nano'\nlog_n = true";
    let model = |kind: &str| models::gpt(keys, &models::position(kind), [50, LENGTH], 0, &Device::flex());
    let lengths = Lengths { train: LENGTH, length: LENGTH };
    let draw = |text: &str| {
        let table: toml::Table = text.parse().unwrap();
        longwave_core::config::read::<TrainingPositions>(&table, "train.positions")
            .unwrap()
            .draw(0, 3, 2, lengths)
            .positions
    };
    let both = || Tensor::cat(vec![tokens(None), tokens(Some(3))], 0);
    let read = |model: &Gpt, positions: &Positions| logits(model, &model.position, positions, both());
    let plain = Positions::range(0..LENGTH);
    let none = model("'none'");
    for text in [
        "kind = 'randpos'",
        "kind = 'pose'",
        "kind = 'offset'\nmax_position = 4096",
        "kind = 'segments'\ncount = 2\nmax_position = 99",
    ] {
        assert_ne!(draw(text), plain);
        let off = distance(read(&none, &draw(text)), read(&none, &plain));
        assert!(off == 0.0, "{text}: nothing else reads positions ({off})");
    }
    let rope = model("'rope'");
    let off = distance(read(&rope, &draw("kind = 'offset'\nmax_position = 4096")), read(&rope, &plain));
    assert!(off < 2e-5, "a shift is nothing to see for rope: {off}");
    // A piece of a text that begins further on sees what lies before it.
    let piece = Positions::range(1000..1000 + LENGTH);
    assert!(distance(read(&none, &piece), read(&none, &plain)) > 1e-3);
}

#[test]
fn an_absolute_one_does() {
    let model = model("sinusoidal");
    let at = |start: usize| {
        logits(&model, &model.position, &Positions::range(start..start + LENGTH), tokens(None))
    };
    assert!(distance(at(0), at(5000)) > 1e-3);
}

#[test]
fn a_windowed_layer_hears_of_nothing_before_its_window() {
    // Both layers with a window of 4: a token hears from 2 (4 - 1) = 6 tokens back and no further.
    let stack =
        |second: &str| format!("{{ kind = 'mixed', layers = [{{ kind = 'rope', window = 4 }}, {second}] }}");
    let positions = Positions::range(0..LENGTH);
    for (second, reaches) in [("{ kind = 'none', window = 4 }", 6), ("'none'", LENGTH)] {
        let model = model(&stack(second));
        let before = logits(&model, &model.position, &positions, tokens(None));
        let after = logits(&model, &model.position, &positions, tokens(Some(5)));
        let moved = (before - after).abs().max_dim(2).into_data().try_to_vec::<f32>().unwrap();
        for (index, moved) in moved.into_iter().enumerate() {
            assert_eq!(moved > 0.0, (5..=5 + reaches).contains(&index), "{second} at {index}");
        }
    }
}

/// The place of a parameter among all of a model.
fn place(model: &Gpt, name: &str) -> usize {
    let all = parameters::list(model);
    all.iter().position(|parameter| parameter.name.ends_with(name)).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn a_shared_key_matrix_is_one_of_its_own_with_the_same_values_and_both_gradients() {
    const LAYERS: usize = 2;
    let device = Device::flex().autodiff();
    let [width, heads, head_dim] = [32_usize, 4, 8];
    for kv_heads in [4_usize, 2] {
        let columns = (heads + 2 * kv_heads) * head_dim;
        let keys = format!("layers = {LAYERS}\nwidth = {width}\nheads = {heads}\nkv_heads = {kv_heads}");
        let fresh = |shared: bool| {
            let position = models::position(&format!("{{ kind = 'transformer_xl', shared_key = {shared} }}"));
            models::gpt(&keys, &position, [50, LENGTH], 3, &device)
        };
        let shared = parameters::replace(fresh(true), |_, old| old.mul_scalar(5.0));
        let qkv = |layer: usize| format!("blocks.{layer}.attention.qkv");
        // The keys of a packed projection, one for every query head: [width, heads head_dim].
        let keys_of = |packed: Tensor<1>| {
            let packed = packed.reshape([width, columns]);
            let of_head = |head: usize| {
                let first = (heads + head * kv_heads / heads) * head_dim;
                packed.clone().slice_dim(1, first..first + head_dim)
            };
            Tensor::cat((0..heads).map(of_head).collect(), 1)
        };
        let values = parameters::values(&shared);
        let separate = fresh(false);
        let w_r = place(&separate, ".w_r");
        let names: Vec<String> = parameters::list(&separate).into_iter().map(|p| p.name).collect();
        let separate = parameters::replace(separate, |index, _| {
            if index != w_r {
                return values[place(&shared, &names[index])].clone();
            }
            let of_layer = |layer| keys_of(values[place(&shared, &qkv(layer))].clone());
            Tensor::cat((0..LAYERS).map(of_layer).collect(), 0).flatten(0, 1)
        });

        let loss = |model: &Gpt| {
            let tokens = Tensor::<2, Int>::from_data(tokens(None).into_data(), &device);
            let hidden = models::hidden(model, &model.position, tokens.clone());
            model.nll_of(hidden, tokens, 0..LENGTH).mean()
        };
        let (ours, theirs) = (loss(&shared), loss(&separate));
        let off: f32 = (ours.clone() - theirs.clone()).abs().into_scalar();
        assert!(off < 1e-6, "{off}");
        let ours = parameters::gradients(&shared, &mut ours.backward());
        let theirs = parameters::gradients(&separate, &mut theirs.backward());
        let largest = |x: Tensor<2>| x.abs().max().into_scalar::<f32>();
        for layer in 0..LAYERS {
            // What waves add to the gradient of keys, summed over the query heads that share a key head.
            let own = theirs[w_r].clone().reshape([LAYERS, width, heads * head_dim]);
            let own =
                own.slice_dim(0, layer..layer + 1).reshape([width, kv_heads, heads / kv_heads, head_dim]);
            let expected = own.sum_dim(2).reshape([width, kv_heads * head_dim]);
            let of = |model: &Gpt, gradients: &[Tensor<1>]| gradients[place(model, &qkv(layer))].clone();
            let added = (of(&shared, &ours) - of(&separate, &theirs)).reshape([width, columns]);
            let keys = heads * head_dim..(heads + kv_heads) * head_dim;
            let size = largest(expected.clone());
            assert!(size > 1e-4, "{size}");
            assert!(largest(added.clone().slice_dim(1, keys.clone()) - expected) < 1e-4 * size + 1e-7);
            for others in [0..keys.start, keys.end..columns] {
                assert!(largest(added.clone().slice_dim(1, others)) < 1e-4 * size + 1e-7);
            }
        }
    }
}

/// One very long text must be stoppable before all of it is read.
#[test]
fn a_reading_can_be_stopped_between_blocks() {
    let model = model("rope");
    let positions = Positions::range(0..LENGTH);
    for reading in [model.position.clone(), by_block(&model)] {
        let pass = Pass { tokens: tokens(None), positions: &positions, reading: &reading, dropout: None };
        let mut calls = 0;
        let mut score = |limit: usize| {
            calls = 0;
            let scores = model.score(&pass, tokens(None), 0..LENGTH, &mut || {
                calls += 1;
                if calls > limit { Err(Error::interrupted("stopped")) } else { Ok(()) }
            });
            (scores.map(|(nll, _)| nll), calls)
        };
        let (whole, calls) = score(usize::MAX);
        assert_eq!(calls, model.blocks.len());
        let nll = model.nll(&pass, tokens(None), 0..LENGTH);
        let apart: f32 = (whole.unwrap() - nll).abs().max().into_scalar();
        assert!(apart == 0.0, "{apart}");
        let (stopped, calls) = score(1);
        assert_eq!((stopped.unwrap_err().exit_code(), calls), (130, 2));
    }
}
