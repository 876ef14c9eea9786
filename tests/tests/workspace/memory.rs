//! A memory of the segment before (Transformer-XL): what is carried, what is not, and where it is one long
//! reading.

use crate::common::models::{self, hidden, largest};
use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_model::{Gpt, ModelConfig, Pass, SegmentMemory};
use longwave_position::layout::TextLayout;
use longwave_position::reading::LogNKind;
use longwave_position::{Init, Lengths, Positions, Reading};

const SEGMENT: usize = 8;
const LENGTH: usize = 3 * SEGMENT;
const VOCABULARY: usize = 40;

fn model(layers: usize, memory: usize, device: &Device) -> Gpt {
    let position = models::position(&format!("{{ kind = 'xlnet', memory = {memory} }}"));
    assert_eq!(position.name(), "transformer_xl");
    let keys = format!("layers = {layers}\nwidth = 32\nheads = 4");
    models::gpt(&keys, &position, [VOCABULARY, SEGMENT], 0, device)
}

fn tokens(change: Option<usize>, device: &Device) -> Tensor<2, Int> {
    let ids: Vec<i32> = (0..LENGTH).map(|i| if Some(i) == change { 39 } else { i as i32 }).collect();
    Tensor::from_data(TensorData::new(ids, [1, LENGTH]), device)
}

/// The same weights in one pass over everything.
fn long(model: &Gpt) -> Reading {
    let mut reading = model.position.clone();
    reading.set_layout(TextLayout::Contiguous);
    reading
}

#[test]
fn a_memory_that_holds_all_is_one_long_reading_at_any_depth() {
    let device = Device::flex();
    for layers in [1, 3] {
        let model = model(layers, LENGTH, &device);
        let segments = hidden(&model, &model.position, tokens(None, &device));
        let off = largest(segments - hidden(&model, &long(&model), tokens(None, &device)));
        assert!(off < 1e-5, "{layers} layers: {off}");
    }
}

#[test]
fn with_one_layer_a_segment_is_the_end_of_a_reading_that_begins_at_its_memory() {
    let device = Device::flex();
    for memory in [3, SEGMENT, SEGMENT + 5] {
        let last = LENGTH - SEGMENT..LENGTH;
        let off = |layers: usize| {
            let model = model(layers, memory, &device);
            let segments = hidden(&model, &model.position, tokens(None, &device)).slice_dim(1, last.clone());
            let seen = tokens(None, &device).slice_dim(1, last.start - memory..LENGTH);
            let alone = hidden(&model, &long(&model), seen).slice_dim(1, memory..memory + SEGMENT);
            largest(segments - alone)
        };
        assert!(off(1) < 1e-5, "memory {memory}: {}", off(1));
        // A second layer hears more: what it keeps of the segment before has heard of earlier ones.
        assert!(off(2) > 1e-4, "memory {memory}: {}", off(2));
    }
}

#[test]
fn what_is_heard_of_reaches_back_by_the_memory_per_layer() {
    let device = Device::flex();
    for (layers, heard) in [(1, false), (2, true)] {
        let model = model(layers, SEGMENT, &device);
        let read = |change| hidden(&model, &model.position, tokens(change, &device));
        let change = read(None) - read(Some(2));
        let at = |columns| largest(change.clone().slice_dim(1, columns));
        assert!(at(0..2) == 0.0, "a later token changes nothing earlier");
        assert!(at(SEGMENT..2 * SEGMENT) > 1e-5, "the next segment sees it");
        assert_eq!(at(2 * SEGMENT..LENGTH) > 1e-6, heard, "{layers} layers");
    }
}

#[test]
fn no_gradient_flows_into_the_memory() {
    let device = Device::flex().autodiff();
    let model = model(2, SEGMENT, &device);
    let text = tokens(None, &device);
    let pass = |start: usize| {
        let positions = Positions::range(start..start + SEGMENT);
        (text.clone().slice_dim(1, start..start + SEGMENT), positions)
    };
    let (inputs, positions) = pass(0);
    let first = Pass { tokens: inputs, positions: &positions, reading: &model.position, dropout: None };
    let (_, memory) = model.hidden_after(&first, &SegmentMemory::new(SEGMENT));
    let (inputs, positions) = pass(SEGMENT);
    let second = Pass { tokens: inputs, positions: &positions, reading: &model.position, dropout: None };
    // The gradient of the embedding of a token that only the first segment holds, and that of the keys.
    let gradients = |hidden: Tensor<3>| {
        let gradients = model.logits(hidden).square().sum().backward();
        let embedding = model.embedding.val().grad(&gradients).unwrap();
        let keys = model.blocks[0].attention.qkv.val().grad(&gradients).unwrap();
        (embedding.slice_dim(0, 0..SEGMENT).abs().max().into_scalar::<f32>(), keys)
    };
    let (into_memory, keys) = gradients(model.hidden_after(&second, &memory).0);
    assert!(into_memory == 0.0, "{into_memory}");
    let (_, keys_alone) = gradients(model.hidden_after(&second, &SegmentMemory::new(SEGMENT)).0);
    assert!(
        (keys - keys_alone).abs().max().into_scalar::<f32>() > 1e-4,
        "the maps of keys learn from what is kept"
    );
    let whole = hidden(&model, &long(&model), text.clone().slice_dim(1, 0..2 * SEGMENT));
    assert!(gradients(whole.slice_dim(1, SEGMENT..2 * SEGMENT)).0 > 1e-6, "one long reading does reach it");
}

#[test]
fn pieces_read_one_after_the_other_are_the_whole() {
    let device = Device::flex();
    let model = model(2, 5, &device);
    let whole = hidden(&model, &model.position, tokens(None, &device));
    let mut memory = SegmentMemory::new(5);
    for start in (0..LENGTH).step_by(SEGMENT) {
        // Training counts every segment from 0: distances are all that is read.
        let positions = Positions::range(0..SEGMENT);
        let inputs = tokens(None, &device).slice_dim(1, start..start + SEGMENT);
        let pass = Pass { tokens: inputs, positions: &positions, reading: &model.position, dropout: None };
        let (states, after) = model.hidden_after(&pass, &memory);
        assert_eq!(after.tokens(), 5);
        memory = after;
        let off = largest(states - whole.clone().slice_dim(1, start..start + SEGMENT));
        assert!(off < 1e-5, "{off}");
    }
}

#[test]
fn what_does_not_combine_is_refused() {
    let model = model(1, 4, &Device::flex());
    let lengths = Lengths { train: SEGMENT, length: LENGTH };
    let apply = |text: &str| models::extension(text).apply(&model.position, lengths);
    for text in ["'linear'", "'window'", "'segments'", "'randpos'", "{ kind = 'direct', log_n = true }"] {
        let error = apply(text).unwrap_err();
        assert!(error.hint_text().unwrap().contains("`direct`"), "{text}: {error}");
    }
    assert!(apply("{ kind = 'direct', temperature = 0.9 }").is_ok());
    let refused = |position: &str, log_n: LogNKind| {
        let resolved = ModelConfig { log_n, ..ModelConfig::default() }.resolve(8, SEGMENT).unwrap();
        Gpt::new(&resolved, &models::position(position), &Init::new(0, &Device::flex())).unwrap_err()
    };
    let list = refused("[{ kind = 'transformer_xl', memory = 4 }, { kind = 'learned' }]", LogNKind::Off);
    assert!(list.message().starts_with("`position.memory = 4`"), "{list}");
    assert!(refused("{ kind = 'transformer_xl', memory = 4 }", LogNKind::Fixed).message().contains("log_n"));
    for layers in ["'none'", "{ kind = 'transformer_xl', memory = 4, window = 6 }"] {
        let stack =
            format!("{{ kind = 'mixed', layers = [{{ kind = 'transformer_xl', memory = 4 }}, {layers}] }}");
        let error = refused(&stack, LogNKind::Off);
        assert!(error.message().starts_with("`position.memory = 4`"), "{error}");
    }
}
