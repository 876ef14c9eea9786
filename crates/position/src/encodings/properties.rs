//! Properties that hold for many encodings, tested on all that have them.

use super::{ENCODINGS, EncodingConfig, every};
use crate::encoding::{Dimensions, PositionUse, Rows};
use crate::init::Init;
use crate::parameter;
use crate::positions::Positions;
use crate::testing::{assert_learns, attend, bias, build, dimensions, random};
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Int, Tensor};

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
fn every_parameter_is_listed() {
    let sizes = dimensions();
    let known = [
        ("layers", sizes.layers),
        ("width", sizes.width),
        ("heads", sizes.heads),
        ("kv_heads", sizes.kv_heads),
        ("head_dim", sizes.head_dim),
        ("vocab_size", sizes.vocab_size),
        ("1", 1),
    ];
    for text in every() {
        let encoding = build(&text, &Device::flex());
        let specs = encoding.parameters();
        parameter::check_listed(encoding.kind(), &specs, &encoding)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        for (spec, (_, shape)) in specs.iter().zip(parameter::shapes(&encoding)) {
            for (axis, size) in spec.axes.iter().zip(&shape) {
                let expected = known.iter().find(|(name, _)| name == axis).map(|(_, size)| size);
                assert!(expected.is_none_or(|expected| expected == size), "{text}: {spec} is {shape:?}");
            }
            let stacked = spec.axes.iter().filter(|axis| **axis != "layers").count();
            assert!(!spec.decays || stacked >= 2, "{text}: {spec} is a vector, and vectors do not decay");
        }
    }
}

#[test]
fn parameters_start_where_training_leaves_them() {
    struct Values(Vec<Vec<f32>>);
    impl ModuleVisitor for Values {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.push(param.val().into_data().try_to_vec().unwrap());
        }
    }
    for text in every() {
        let encoding = build(&text, &Device::flex());
        let mut visitor = Values(Vec::new());
        encoding.visit(&mut visitor);
        for (spec, values) in encoding.parameters().iter().zip(visitor.0) {
            let [least, most] =
                spec.bounds.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]).map(|bound| bound as f32);
            assert!(values.iter().all(|value| (least..=most).contains(value)), "{text}: {spec} {values:?}");
            // What decays towards zero has its start around zero: a mean within five standard errors.
            let count = values.len() as f32;
            let mean = values.iter().sum::<f32>() / count;
            let square = values.iter().map(|value| value * value).sum::<f32>() / count;
            assert!(!spec.decays || mean.abs() <= 5.0 * (square / count).sqrt(), "{text}: {spec} {values:?}");
        }
    }
}

#[test]
fn positions_start_about_as_large_as_tokens() {
    let device = Device::flex();
    let d = Dimensions { width: 64, head_dim: 32, train_length: 128, ..dimensions() };
    let positions = Positions::range(0..d.train_length);
    let tokens = Tensor::<2, Int>::zeros([1, d.train_length], &device);
    for text in every() {
        let config =
            EncodingConfig::from_value(&toml::Value::Table(text.parse().unwrap()), "position").unwrap();
        let encoding = config.build(&d, &Init::new(0, &device));
        // The embeddings of a fresh model, N(0, 0.02).
        let x = random::<3>("x", [1, d.train_length, d.width], &device).mul_scalar(0.02);
        let added = encoding.embed(x.clone(), Rows::new(0, &tokens, &positions)) - x.clone();
        let rms = |x: Tensor<3>| x.square().mean().into_scalar::<f32>().sqrt();
        let ratio = rms(added) / rms(x);
        // What reads the order of the tokens alone is a network of them, as large as its weights make it.
        let reads_positions = encoding.capabilities().position_use != PositionUse::Order;
        if ratio > 0.0 && reads_positions && !encoding.capabilities().replaces_hidden {
            assert!((0.3..=3.0).contains(&ratio), "{text}: positions are {ratio} times as large as tokens");
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
        config.validate("position", &dimensions()).unwrap_or_else(|error| panic!("{error}"));
    }
}
