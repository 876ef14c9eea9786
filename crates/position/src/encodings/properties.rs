//! Biases that fall with the distance, and the names of all kinds.

use super::{EncodingConfig, kinds};
use crate::positions::Positions;
use crate::testing::{bias, build, dimensions};
use burn::tensor::Device;

#[test]
fn penalties_fall_with_the_distance() {
    for kind in ["alibi", "kerple", "fox", "kerple\"\nvariant = \"power"] {
        let encoding = build(&format!("kind = \"{kind}\""), &Device::flex());
        for positions in [Positions::range(0..9), Positions::range(0..9).map(|m| m * 1.5)] {
            for (index, row) in bias(&*encoding, &positions).chunks(9).enumerate() {
                let visible = &row[..=index % 9];
                assert!(visible.last().is_some_and(|&own| own.abs() < 1e-6), "{kind}: {row:?}");
                assert!(visible.windows(2).all(|pair| pair[0] < pair[1]), "{kind}: {row:?}");
            }
        }
    }
}

#[test]
fn every_kind_builds_from_its_name() {
    for entry in kinds() {
        let config = EncodingConfig::from_value(&toml::Value::String(entry.kind.into()), "position").unwrap();
        config.validate("position", &dimensions()).unwrap_or_else(|error| panic!("{error}"));
    }
}
