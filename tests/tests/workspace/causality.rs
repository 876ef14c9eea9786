//! Attention is causal, whatever the encoding, the extension and the length. A block of queries, or one text of a batch,
//! gives the same alone as with the rest.

use crate::common::models::{self, largest};
use crate::common::training::{self, LENGTH, LONGER};
use burn::tensor::{Device, Int, Tensor};
use longwave_model::Gpt;
use longwave_model::attention::{Rotations, attend};
use longwave_position::encoding::{QueryBlock, Rows};
use longwave_position::encodings;
use longwave_position::extension::Example;
use longwave_position::layout::TextLayout;
use longwave_position::{ExtensionConfig, Lengths, Reading};
use longwave_train::parameters;

/// A model with weights large enough that every token attends somewhere.
fn model(text: &str) -> Gpt {
    let model = training::model(text, &Device::flex());
    let names = parameters::list(&model);
    parameters::replace(model, |index, old| {
        let vector = names[index].shape.len() < 2 || names[index].name.starts_with("position.");
        if vector { old } else { old.mul_scalar(10.0) }
    })
}

/// A text of `length` tokens, one of them changed.
fn text(row: usize, length: usize, changed: Option<usize>) -> Vec<i32> {
    let token = |t: usize| ((t * t + 3 * t * row + row) % 11) as i32;
    (0..length).map(|t| if changed == Some(t) { 11 } else { token(t) }).collect()
}

fn hidden(model: &Gpt, reading: &Reading, texts: &[Vec<i32>]) -> Tensor<3> {
    models::hidden(model, reading, models::tokens(texts.len(), texts.concat()))
}

/// Every reading of a model at a length that is defined, with its name: every example of every extension that
/// applies, `direct` among them.
fn readings(model: &Gpt, length: usize) -> Vec<(String, Reading)> {
    let lengths = Lengths { train: LENGTH, length };
    let defined = |(extension, _): (ExtensionConfig, Example)| {
        let reading = extension.apply(&model.position, lengths).ok()?;
        reading.check(&reading.layout().positions(length)).ok()?;
        Some((format!("{} at {length} as {extension:?}", reading.name()), reading))
    };
    models::extensions(model, lengths).into_iter().filter_map(defined).collect()
}

#[test]
fn a_later_token_changes_nothing_before_it_and_a_text_reads_the_same_alone_whatever_reads_it() {
    let mut read = 0;
    for config in training::every() {
        let model = model(&config);
        for length in [LENGTH, LONGER] {
            let changed = length / 2;
            let texts = [text(0, length, None), text(0, length, Some(changed)), text(1, length, None)];
            for (name, reading) in readings(&model, length) {
                let together = hidden(&model, &reading, &texts);
                let row = |row: usize| together.clone().slice_dim(0, row..row + 1);
                let difference = row(1) - row(0);
                let earlier = largest(difference.clone().slice_dim(1, 0..changed));
                assert!(earlier < 1e-5, "{name} ({config}): {earlier}");
                // Rows that follow at once see it through any window.
                let later = largest(difference.slice_dim(1, changed + 1..changed + 3));
                assert!(
                    later > 1e-4,
                    "{name} ({config}): no later row changes ({later}), so this tests nothing"
                );
                let apart = largest(row(2) - hidden(&model, &reading, &texts[2..]));
                assert!(apart < 1e-4, "{name} ({config}): {apart} alone");
                read += 1;
            }
        }
    }
    assert!(read > 20 * encodings::kinds().len(), "{read} readings");
}

#[test]
fn queries_read_the_same_in_blocks_and_whole() {
    let (heads, dim, width) = (2, 8, 16);
    let init = longwave_position::Init::new(1, &Device::flex());
    for config in training::every() {
        let model = model(&config);
        for (name, reading) in readings(&model, LONGER) {
            // Segments are rows of their own: attention never meets a border.
            if matches!(reading.layout(), TextLayout::Segments { .. }) {
                continue;
            }
            let positions = reading.layout().positions(LONGER);
            let tokens = Tensor::<2, Int>::zeros([1, LONGER], &Device::flex());
            let input = init.normal::<3>("input", [1, LONGER, width], 1.0).val();
            let key_matrix = init.normal::<2>("key matrix", [width, heads * dim], 0.2).val();
            let [q, k, v] =
                ["q", "k", "v"].map(|name| init.normal::<4>(name, [1, heads, LONGER, dim], 1.0).val());
            let rows = Rows { key_matrix: Some(&key_matrix), ..Rows::new(1, &tokens, &positions) };
            let of = |queries: std::ops::Range<usize>| {
                let block = QueryBlock { rows, queries: &queries, input: &input };
                let q = q.clone().slice_dim(2, queries.clone());
                attend([q, k.clone(), v.clone()], 0.35, block, &reading, &mut Rotations::default())
            };
            let blocks = [0..1, 1..20, 20..37, 37..LONGER].map(of);
            let apart = largest(of(0..LONGER) - Tensor::cat(blocks.to_vec(), 2));
            assert!(apart < 2e-5, "{name} ({config}): {apart}");
        }
    }
}
