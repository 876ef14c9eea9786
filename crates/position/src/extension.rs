//! The second seam: how a trained model is read at another length.
//!
//! An extension changes a [`Reading`]: frequencies, positions, geometry, masks, scales. It never
//! touches weights other than the encoding's own. Direct extrapolation is the identity.

use crate::reading::Reading;
use longwave_core::{Error, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// The lengths an extension bridges, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// L: the length of the first training stage.
    pub train: usize,
    /// L': the length that is read.
    pub length: usize,
}

impl Lengths {
    /// s = L'/L, at least 1: a text no longer than those of the training is read as trained.
    pub fn scale(self) -> f64 {
        (self.length as f64 / self.train as f64).max(1.0)
    }
}

/// What an extension's file must say.
pub trait Extend: Sized {
    /// Its name in `extend = [...]`.
    const KIND: &'static str;
    /// One line for the list of extensions.
    const SUMMARY: &'static str;
    /// Where it was published.
    const SOURCE: &'static str;

    /// Checks the values.
    ///
    /// # Errors
    /// A value that is not allowed, named by its key below `section`.
    fn validate(&self, section: &str) -> Result<()>;

    /// Changes the reading for a length.
    ///
    /// # Errors
    /// The encoding has no such reading ([`not_applicable`]).
    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()>;
}

/// The error of an extension that means nothing for the encoding at hand.
pub fn not_applicable(kind: &str, needs: &str, reading: &Reading) -> Error {
    Error::usage(format!("`{kind}` does not apply to `{}`: it needs {needs}", reading.name()))
}

/// How much longer the text is: `"auto"` takes L'/L for each length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Scale {
    /// L'/L of the length that is read, at least 1.
    #[default]
    Auto,
    /// The same for every length.
    Fixed(f64),
}

impl Scale {
    /// The scale for a length.
    pub fn at(self, lengths: Lengths) -> f64 {
        match self {
            Self::Auto => lengths.scale(),
            Self::Fixed(scale) => scale,
        }
    }

    /// Checks a given scale.
    ///
    /// # Errors
    /// It is below 1 or not finite.
    pub fn validate(self, section: &str) -> Result<()> {
        match self {
            Self::Fixed(scale) if !(scale.is_finite() && scale >= 1.0) => Err(Error::value(
                &format!("{section}.scale"),
                scale,
                "it must be \"auto\" or a number of at least 1",
            )
            .hint("\"auto\" takes evaluated length / training length")),
            _ => Ok(()),
        }
    }
}

impl Serialize for Scale {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Fixed(scale) => serializer.serialize_f64(*scale),
        }
    }
}

impl<'de> Deserialize<'de> for Scale {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Number(f64),
            Word(String),
        }
        match Raw::deserialize(deserializer) {
            Ok(Raw::Number(scale)) => Ok(Self::Fixed(scale)),
            Ok(Raw::Word(word)) if word == "auto" => Ok(Self::Auto),
            _ => Err(serde::de::Error::custom("it must be \"auto\" or a number")),
        }
    }
}

impl JsonSchema for Scale {
    fn schema_name() -> Cow<'static, str> {
        "Scale".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "const": "auto" }, { "type": "number", "minimum": 1 }] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_never_shrinks() {
        assert!((Scale::Auto.at(Lengths { train: 128, length: 512 }) - 4.0).abs() < 1e-15);
        assert!((Scale::Auto.at(Lengths { train: 128, length: 64 }) - 1.0).abs() < 1e-15);
        assert!(Scale::Fixed(0.5).validate("extend").is_err());
    }
}
