//! Properties that hold for many encodings, tested on all that have them.

use super::{ENCODINGS, EncodingConfig, every};
use crate::encoding::Position;
use crate::positions::Positions;
use crate::testing::{assert_learns, attend, bias, build, random};
use burn::module::Module;
use burn::tensor::{Device, Tensor};

fn distance(a: &Tensor<4>, b: &Tensor<4>) -> f32 {
    (a.clone() - b.clone()).abs().max().into_scalar()
}

#[test]
fn gradients_reach_every_parameter() {
    let device = Device::flex().autodiff();
    for text in every() {
        let encoding = build(&text, &device);
        if encoding.num_params() == 0 {
            continue;
        }
        for positions in [Positions::range(0..9), Positions::explicit(1, vec![0.0, 0.5, 2.0, 3.5, 4.0])] {
            if encoding.check(&positions).is_err() {
                continue;
            }
            let losses = (0..2).map(|layer| {
                let (hidden, out) = attend(&encoding, layer, &positions, &device);
                let weigh = random::<3>("weigh h", hidden.dims(), &device);
                (hidden * weigh).sum() + (out.clone() * random::<4>("weigh o", out.dims(), &device)).sum()
            });
            let loss = losses.reduce(|a, b| a + b).unwrap();
            assert_learns(&encoding, &loss, &text);
        }
    }
}

#[test]
fn relative_encodings_read_distances_alone() {
    let device = Device::flex();
    for text in every() {
        let encoding = build(&text, &device);
        if !RELATIVE.contains(&encoding.kind()) || text.contains("init_length") {
            continue;
        }
        let at = |start: usize| attend(&encoding, 1, &Positions::range(start..start + 9), &device).1;
        // FIRE reads distances up to its threshold, the training length 16.
        let far = if encoding.kind() == "fire" { 7 } else { 65_000 };
        assert!(distance(&at(0), &at(far)) < 1e-4, "{text}: {}", distance(&at(0), &at(far)));
        let spread = Positions::explicit(1, (0..9).map(|n| f64::from(3 * n)).collect::<Vec<_>>());
        if encoding.check(&spread).is_ok() && !ORDER.contains(&encoding.kind()) {
            let spread = attend(&encoding, 1, &spread, &device).1;
            assert!(distance(&at(0), &spread) > 1e-5, "{text} does not read distances");
        }
    }
}

/// Kinds whose attention depends on distances alone.
const RELATIVE: &[&str] = &[
    "none",
    "rope",
    "alibi",
    "kerple",
    "t5",
    "sandwich",
    "cpb",
    "fire",
    "fox",
    "xpos",
    "pope",
    "shaw",
    "transformer_xl",
    "deberta",
    "cope",
    "dape",
    "causal_conv",
];

/// Kinds that read the order of the rows, not their positions.
const ORDER: &[&str] = &["none", "fox", "cope", "causal_conv"];

#[test]
fn penalties_fall_with_the_distance() {
    for kind in ["alibi", "kerple", "fox", "kerple\"\nvariant = \"power"] {
        let encoding = build(&format!("kind = \"{kind}\""), &Device::flex());
        for positions in [Positions::range(0..9), Positions::range(0..9).map(|m| m * 1.5)] {
            for (index, row) in bias(&encoding, &positions).chunks(9).enumerate() {
                let visible = &row[..=index % 9];
                assert!(visible.last().is_some_and(|&own| own.abs() < 1e-6), "{kind}: {row:?}");
                assert!(visible.windows(2).all(|pair| pair[0] < pair[1]), "{kind}: {row:?}");
            }
        }
    }
}

#[test]
fn a_table_by_distance_and_a_block_agree() {
    // Not consecutive in the eyes of `Positions`, yet at the same distances.
    let device = Device::flex();
    for kind in ["alibi", "kerple", "t5", "sandwich", "cpb", "fire"] {
        let encoding = build(&format!("kind = \"{kind}\""), &device);
        let whole = bias(&encoding, &Positions::range(0..9));
        let shifted = bias(&encoding, &Positions::range(0..9).map(|m| m + 0.5));
        for (index, (a, b)) in whole.iter().zip(&shifted).enumerate() {
            if index % 9 <= (index / 9) % 9 {
                assert!((a - b).abs() < 1e-5, "{kind}[{index}]: {a} and {b}");
            }
        }
    }
}

#[test]
fn interpolation_divides_the_distances() {
    for kind in ["alibi", "kerple", "t5", "sandwich", "cpb", "fire"] {
        let encoding = build(&format!("kind = \"{kind}\""), &Device::flex());
        let mut interpolated = encoding.clone();
        assert!(interpolated.interpolate(2.0));
        let far = bias(&interpolated, &Positions::range(0..9));
        let near = bias(&encoding, &Positions::range(0..9).map(|m| m / 2.0));
        for (index, (a, b)) in far.iter().zip(&near).enumerate() {
            if index % 9 <= (index / 9) % 9 {
                assert!((a - b).abs() < 1e-5, "{kind}[{index}]: {a} and {b}");
            }
        }
    }
}

#[test]
fn every_kind_builds_from_its_name() {
    for entry in ENCODINGS {
        let config = EncodingConfig::from_value(&toml::Value::String(entry.kind.into()), "position").unwrap();
        config.validate("position", &crate::testing::dimensions()).unwrap_or_else(|error| panic!("{error}"));
    }
}
