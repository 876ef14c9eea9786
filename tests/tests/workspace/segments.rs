//! Rows at positions of their own, and segments: neither hears of another, whatever the encoding.

use crate::common::models::{self, largest};
use burn::tensor::{Device, Int, Tensor};
use longwave_model::{Gpt, Pass};
use longwave_position::encodings;
use longwave_position::{Lengths, Positions, Reading};

/// Tokens of a segment, the training length.
const SEGMENT: usize = 8;
const LENGTH: usize = 21;

fn model(position: &str) -> Gpt {
    models::gpt("size = 'nano'", &models::position(position), [50, SEGMENT], 0, &Device::flex())
}

/// Token ids `[2, LENGTH]`, one of them changed.
fn tokens(change: Option<usize>) -> Tensor<2, Int> {
    let id = |i: usize| if Some(i) == change { 49 } else { (i * i % 47) as i32 };
    models::tokens(2, (0..2 * LENGTH).map(id).collect())
}

fn hidden(model: &Gpt, reading: &Reading, tokens: Tensor<2, Int>) -> Tensor<3> {
    reading.check(&reading.layout().positions(tokens.dims()[1])).unwrap();
    models::hidden(model, reading, tokens)
}

fn segmented(model: &Gpt) -> Reading {
    models::extension("'segments'")
        .apply(&model.position, Lengths { train: SEGMENT, length: LENGTH })
        .unwrap()
}

#[test]
fn a_text_in_segments_is_each_segment_read_for_itself() {
    for entry in encodings::kinds() {
        let model = model(&format!("\"{}\"", entry.kind));
        let whole = hidden(&model, &segmented(&model), tokens(None));
        assert_eq!(whole.dims(), [2, LENGTH, 64]);
        for start in (0..LENGTH).step_by(SEGMENT) {
            let columns = start..LENGTH.min(start + SEGMENT);
            let alone = hidden(&model, &model.position, tokens(None).slice_dim(1, columns.clone()));
            let off = largest(whole.clone().slice_dim(1, columns) - alone);
            assert!(off < 1e-5, "{}: {off}", entry.kind);
        }
    }
}

#[test]
fn no_segment_hears_of_another() {
    for entry in encodings::kinds() {
        let model = model(&format!("\"{}\"", entry.kind));
        let reading = segmented(&model);
        let change = hidden(&model, &reading, tokens(None)) - hidden(&model, &reading, tokens(Some(10)));
        let at = |columns| largest(change.clone().slice_dim(0, 0..1).slice_dim(1, columns));
        assert!(at(0..10) == 0.0 && at(SEGMENT * 2..LENGTH) == 0.0, "{}", entry.kind);
        assert!(at(10..SEGMENT * 2) > 0.0, "{}", entry.kind);
    }
}

#[test]
fn rows_at_positions_of_their_own_are_read_as_each_alone() {
    let gap = |split: usize, shift: usize| {
        (0..LENGTH).map(move |t| if t < split { t as f64 } else { (t + shift) as f64 })
    };
    let rows = [gap(3, 11), gap(9, 0)].map(Iterator::collect::<Vec<f64>>);
    let together = Positions::explicit(2, rows.concat());
    for entry in encodings::kinds() {
        // A table has a row for each position of the training length, unless its size is given.
        let fresh = model(&format!("'{}'", entry.kind)).position;
        let larger = if fresh.capabilities().table_rows().is_some() { ", table_size = 32" } else { "" };
        let model = model(&format!("{{ kind = '{}'{larger} }}", entry.kind));
        model.position.check(&together).unwrap();
        let read = |tokens, positions: &Positions| {
            model.hidden(&Pass { tokens, positions, reading: &model.position, dropout: None })
        };
        let both = read(tokens(None), &together);
        for (row, positions) in rows.iter().enumerate() {
            let alone =
                read(tokens(None).slice_dim(0, row..row + 1), &Positions::explicit(1, positions.as_slice()));
            let off = largest(both.clone().slice_dim(0, row..row + 1) - alone);
            assert!(off < 1e-5, "{} row {row}: {off}", entry.kind);
        }
    }
}
