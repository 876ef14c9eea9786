//! Kind `sampling`: training-time positions, their randomness given.

use crate::build::{applied, dimensions, reading};
use crate::file::{Case, Tensor};
use longwave_position::reading::LogN;
use longwave_position::sampling::pose::Pose;
use longwave_position::sampling::segments::Segments;
use longwave_position::sampling::{float, randpos};
use longwave_position::{Lengths, Positions};

/// Checks one case of a file.
pub fn check(name: &str, case: &Case) {
    match name {
        "pose" => pose(case),
        "randpos" => drawn(case),
        "float_positions" => floats(case),
        "segment_positions" => segments(case),
        other => panic!("no sampling `{other}`"),
    }
}

fn counts(tensor: &Tensor) -> Vec<usize> {
    tensor.data.iter().map(|&number| number as usize).collect()
}

fn numbers(counts: impl IntoIterator<Item = usize>) -> Vec<f64> {
    counts.into_iter().map(|count| count as f64).collect()
}

fn pose(case: &Case) {
    let [length, split, shift, skip] = ["length", "split", "shift", "skip"].map(|key| case.usize(key));
    let row = Pose { length, split, shift, skip };
    let mut outputs = case.outputs();
    outputs.compare_f64("positions", &row.positions().collect::<Vec<_>>());
    outputs.compare_f64("token_indices", &numbers(row.token_indices()));
    outputs.done();
}

fn drawn(case: &Case) {
    compare_positions(case, &randpos::positions(counts(&case.input("sample"))));
}

fn floats(case: &Case) {
    let [length, train] = ["length", "train_length"].map(|key| case.usize(key));
    let span = case.f64("span");
    match case.text("mode") {
        "train" => {
            // Inputs are exact in f32 and printed with 12 digits, of which small distances would keep too few.
            let exact = case.input("sample").data.iter().map(|number| f64::from(*number as f32)).collect();
            compare_positions(case, &float::positions(exact, span));
        }
        "read" => {
            // As the extension lays out a text for a rotary model.
            let rope = reading(&"rope".into(), &dimensions(1, 4, 4), LogN::Off);
            let keys = toml::toml! { kind = "float" span = span };
            let read = applied(keys, &rope, Lengths { train, length }).unwrap();
            compare_positions(case, &read.layout().positions(length));
        }
        other => panic!("no mode `{other}`"),
    }
}

fn compare_positions(case: &Case, positions: &Positions) {
    let distances: Vec<f64> =
        positions.values().iter().flat_map(|i| positions.values().iter().map(move |j| i - j)).collect();
    let mut outputs = case.outputs();
    outputs.compare_f64("positions", positions.values());
    outputs.compare_f64("distances", &distances);
    outputs.done();
}

fn segments(case: &Case) {
    let [lengths, starts] = ["segment_lengths", "segment_starts"].map(|name| counts(&case.input(name)));
    let segments = Segments::new(lengths.clone(), starts.clone());
    let mut outputs = case.outputs();
    outputs.compare_f64("positions", &segments.positions());
    outputs.compare_f64("segment", &numbers(segments.of_tokens()));
    outputs.done();
    let (last, whole) = lengths.split_last().unwrap();
    if whole.iter().all(|length| *length == lengths[0])
        && *last <= lengths[0]
        && starts.iter().all(|&s| s == 0)
    {
        assert_eq!(Segments::uniform(lengths.iter().sum(), lengths[0]), segments);
    }
}
