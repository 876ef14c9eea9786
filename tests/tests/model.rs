//! What every encoding and extension must leave true of the model.

#![allow(clippy::unwrap_used, missing_docs)]

use burn::tensor::{Device, Int, Tensor};
use longwave_model::config::NamedSize;
use longwave_model::{Gpt, ModelConfig, Pass};
use longwave_position::encoding::{Geometry, PositionMap, Selector};
use longwave_position::encodings::ENCODINGS;
use longwave_position::{Init, PositionConfig, Positions, Reading};

const LENGTH: usize = 24;

fn model(kind: &str) -> Gpt {
    let config = ModelConfig { size: NamedSize::Nano, ..ModelConfig::default() };
    let position = PositionConfig::from_value(&toml::Value::String(kind.into()), "position").unwrap();
    Gpt::new(&config.resolve(50, LENGTH).unwrap(), &position, &Init::new(0, &Device::flex())).unwrap()
}

fn tokens(change: Option<usize>) -> Tensor<2, Int> {
    let ids: Vec<i32> = (0..LENGTH)
        .map(|i| (i * i % 50) as i32)
        .enumerate()
        .map(|(i, id)| if Some(i) == change { 49 } else { id })
        .collect();
    Tensor::<1, Int>::from_data(ids.as_slice(), &Device::flex()).reshape([1, LENGTH])
}

fn logits(model: &Gpt, reading: &Reading, positions: &Positions, tokens: Tensor<2, Int>) -> Tensor<3> {
    let pass = Pass { tokens, positions, reading, dropout: None };
    model.logits(model.hidden(&pass))
}

fn distance(a: Tensor<3>, b: Tensor<3>) -> f32 {
    (a - b).abs().max().into_scalar()
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
    for entry in ENCODINGS {
        let model = model(entry.kind);
        for reading in [model.position.clone(), by_block(&model)] {
            let before = logits(&model, &reading, &positions, tokens(None));
            let after = logits(&model, &reading, &positions, tokens(Some(15)));
            let earlier = |x: &Tensor<3>| x.clone().slice_dim(1, 0..15);
            assert!(distance(earlier(&before), earlier(&after)) == 0.0, "{}", entry.kind);
            assert!(distance(before, after) > 0.0, "{}", entry.kind);
        }
    }
}

#[test]
fn reading_by_blocks_is_the_same_attention() {
    let positions = Positions::range(0..LENGTH);
    for entry in ENCODINGS {
        let model = model(entry.kind);
        let whole = logits(&model, &model.position, &positions, tokens(None));
        let blocks = logits(&model, &by_block(&model), &positions, tokens(None));
        let off = distance(whole, blocks);
        assert!(off < 1e-5, "{}: {off}", entry.kind);
    }
}

#[test]
fn a_relative_encoding_does_not_see_where_the_text_begins() {
    for kind in ["none", "rope"] {
        let model = model(kind);
        let at = |start: usize| {
            logits(&model, &model.position, &Positions::range(start..start + LENGTH), tokens(None))
        };
        let off = distance(at(0), at(5000));
        assert!(off < 2e-5, "{kind}: {off}");
    }
}

#[test]
fn an_absolute_one_does() {
    let model = model("sinusoidal");
    let at = |start: usize| {
        logits(&model, &model.position, &Positions::range(start..start + LENGTH), tokens(None))
    };
    assert!(distance(at(0), at(5000)) > 1e-3);
}
