//! Keys that the rows between them and a query reflect.

use super::*;
use crate::attention::route::Route;

/// With parameters so large that they matter.
fn reading(encoding: &str, log_n: LogN) -> Reading {
    with_noise(super::reading(encoding, log_n), 6, 0.3)
}

fn input() -> Tensor<3> {
    let init = Init::new(3, &Device::flex().autodiff());
    init.normal("input", [1, LENGTH, HEADS * DIM], 1.0).val().detach()
}

/// Whether these queries can be read at once.
fn at_once(reading: &Reading, queries: &Range<usize>) -> bool {
    let (input, positions) = (input(), Positions::range(0..LENGTH));
    let tokens = Tensor::<2, Int>::zeros([1, LENGTH], &input.device());
    let block = QueryBlock { rows: Rows::new(0, &tokens, &positions), queries, input: &input };
    matches!(Route::choose(0.4, block, reading, &input.device()), Route::Reflections(..))
}

#[test]
fn read_at_once_as_block_by_block() {
    for (encoding, log_n, is_described) in [
        ("'path'", LogN::Off, true),
        ("['path', 'fox']", LogN::Off, true),
        ("['path', 'fox']", LogN::PostHoc { train_length: TRAIN }, true),
        ("'path'", LogN::Learned { row: 0, bias: true, scale_bias: false }, true),
        // A bias by distance, and two biases.
        ("['path', 'alibi']", LogN::Off, false),
        ("['path', 'fox', 'alibi']", LogN::Off, false),
    ] {
        let reading = reading(encoding, log_n);
        for queries in [0..LENGTH, 11..LENGTH, LENGTH - 1..LENGTH] {
            let what = format!("{encoding}, {log_n:?}, {queries:?}");
            assert_eq!(at_once(&reading, &queries), is_described, "{what}");
            let [fused, plain] = both_of(&reading, &Positions::range(0..LENGTH), queries, input());
            // The output within an absolute bound, gradients relative to their largest.
            for (fused, plain) in fused[0].iter().zip(&plain[0]) {
                assert!((fused - plain).abs() < 2e-5, "{what}: {fused} {plain}");
            }
            for (fused, plain) in fused[1..].iter().zip(&plain[1..]) {
                assert_near(&what, fused, plain, 2e-5);
            }
        }
    }
}

#[test]
fn windows_and_temperatures_are_left_to_blocks() {
    let mut reading = reading("'path'", LogN::Off);
    reading.layers_mut()[0].mask = Mask { window: Some(9), sinks: 0 };
    assert!(!at_once(&reading, &(0..LENGTH)));
    reading.layers_mut()[0].mask = Mask::default();
    reading.layers_mut()[0].temperature = Temperature::All(1.5);
    assert!(!at_once(&reading, &(0..LENGTH)));
}
