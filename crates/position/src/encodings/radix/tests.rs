use super::*;

#[test]
fn the_least_base_keeps_the_highest_digit_in_range() {
    let base = |train, length| Config::default().larger_base(Lengths { train, length });
    // Positions up to 127 have 0 or 1 as third digit, and so have those up to 511 in base 16.
    assert_eq!([base(128, 128), base(128, 200), base(128, 512), base(128, 513)], [10, 10, 16, 17]);
    assert_eq!([base(1000, 1000), base(1000, 2000), base(8, 8), base(8, 32)], [10, 15, 10, 32]);
    for (train, length) in [(16, 64), (100, 101), (128, 4096), (999, 16_384), (1001, 2000)] {
        let base = base(train, length);
        let config = |beta, reading| Config {
            beta: 10,
            variant: Variant::Convert,
            beta_new: Some(beta),
            reading,
            digits_as: DigitsAs::Numbers,
            ..Config::default()
        };
        let largest = |beta, upto: usize| {
            let read = |m: usize| config(beta, DigitReading::Raw).coordinates(m as f64);
            let digits =
                (0..upto).map(read).reduce(|a, b| a.iter().zip(&b).map(|(a, b)| a.max(*b)).collect());
            digits.unwrap()
        };
        let (trained, read) = (largest(10, train), largest(base, length));
        let top = trained.iter().rposition(|&digit| digit > 0.0).unwrap();
        assert!(read[top] <= trained[top] && read[top + 1..].iter().all(|&d| d == 0.0), "{train}, {length}");
        assert!(largest(base - 1, length)[top..] != read[top..] || base == 10, "a smaller one would do");
    }
}

#[test]
fn too_few_digits_are_refused() {
    let error = crate::testing::message_of("kind = \"radix\"\nbeta = 2\ndigits = 3");
    assert!(error.starts_with("`position.digits = 3`"), "{error}");
    let error = crate::testing::message_of(
        "kind = \"radix\"\nvariant = \"convert\"\nbeta_new = 16\nreading = \"raw\"",
    );
    assert!(error.starts_with("`position.reading = \"raw\"`"), "{error}");
}
