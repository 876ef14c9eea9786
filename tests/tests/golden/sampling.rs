//! Kind `sampling`: training-time positions, their randomness given.

use crate::file::{Case, Tensor};
use longwave_position::sampling::pose::Pose;
use longwave_position::sampling::randpos;
use longwave_position::sampling::segments::Segments;

/// Checks one case of a file.
pub fn check(name: &str, case: &Case) {
    match name {
        "pose" => pose(case),
        "randpos" => drawn(case),
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
    let positions = randpos::positions(counts(&case.input("sample")));
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
