//! What is stated of positions written as digits.

use super::assert_close;
use longwave_position::encodings::radix::{Config, DigitReading, DigitsAs, Variant};

/// Digits, the highest first, as people write them.
fn written(config: &Config, position: f64) -> Vec<f64> {
    config.coordinates(position).into_iter().rev().collect()
}

fn three() -> Config {
    Config { digits: 3, ..Config::default() }
}

fn interpolated() -> Config {
    Config { variant: Variant::Interpolate, s: 2.0, ..three() }
}

fn hexadecimal() -> Config {
    Config {
        variant: Variant::Convert,
        beta_new: Some(16),
        digits_as: DigitsAs::Numbers,
        reading: DigitReading::Raw,
        ..three()
    }
}

#[test]
fn direct_reading_needs_a_digit_that_was_never_trained() {
    let four = Config::default();
    let trained = |position: u32| written(&four, f64::from(position))[0] == 0.0;
    assert!((0..1000).all(trained), "the reserved digit is 0 in training");
    assert_eq!(written(&four, 1749.0), [1.0, 7.0, 4.0, 9.0]);
}

#[test]
fn interpolation_crowds_the_lowest_digit_alone() {
    let config = interpolated();
    assert_eq!(written(&config, 1749.0), [8.0, 7.0, 4.5]);
    // 749 as it was trained now stands for 1,498.
    assert_eq!(written(&config, 1498.0), [7.0, 4.0, 9.0]);
    // Neighbours lie 1/s apart in the lowest digit, and still 1 apart in the others.
    assert_close(written(&config, 1499.0)[2] - written(&config, 1498.0)[2], 0.5, 1e-12, "the lowest digit");
    assert_close(written(&config, 1500.0)[1] - written(&config, 1498.0)[1], 1.0, 1e-12, "the next one");
}

#[test]
fn a_larger_base_writes_more_with_as_many_digits() {
    assert_eq!(written(&hexadecimal(), 1749.0), [6.0, 13.0, 5.0]);
    assert_eq!(written(&hexadecimal(), 4095.0), [15.0, 15.0, 15.0]);
    // Neighbours stay 1 apart.
    assert_close(
        written(&hexadecimal(), 1750.0)[2] - written(&hexadecimal(), 1749.0)[2],
        1.0,
        1e-12,
        "the lowest",
    );
}

#[test]
fn base_2_writes_less_with_as_many_digits() {
    // Stated that writing positions in base 2 or 16 covers more: base 16 does, base 2 covers 8 where 10 covers 1,000.
    let reach = |beta: usize| {
        let config = Config { beta, ..three() };
        (1..5000).find(|&m| written(&config, f64::from(m)) == written(&config, 0.0)).unwrap()
    };
    assert_eq!([2, 10, 16].map(reach), [8, 1000, 4096]);
}
