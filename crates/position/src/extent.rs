//! An extent in positions: a number, whole or not, or a multiple of the training length.
//!
//! [`Tokens`] counts tokens, of which there is at least one. Positions may be fractions, and an extent may be 0.

use crate::tokens::{Lengths, Tokens};
use longwave_core::{Error, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// `12`, `0.5`, or a multiple of L such as `"8L"` and `"L/16"`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "it must be a number, or a multiple of the training length L such as \"8L\" or \"L/16\""
)]
pub enum Extent {
    /// So many positions.
    Number(f64),
    /// A multiple of L.
    Multiple(Tokens),
}

impl Extent {
    /// The number of positions for a training length.
    pub fn at(self, lengths: Lengths) -> f64 {
        match self {
            Self::Number(number) => number,
            Self::Multiple(tokens) => tokens.at(lengths),
        }
    }

    /// Checks a number that was given.
    pub fn validate(self, key: &str, zero: bool) -> Result<()> {
        match self {
            Self::Number(number) if !(number.is_finite() && (number > 0.0 || zero && number == 0.0)) => {
                let least = if zero { "of at least 0" } else { "above 0" };
                let allowed = format!("it must be a number {least}, or a multiple of the training length L");
                Err(Error::value(key, number, allowed).hint("multiples are written as \"8L\" or \"L/16\""))
            }
            _ => Ok(()),
        }
    }
}

impl JsonSchema for Extent {
    fn schema_name() -> Cow<'static, str> {
        "Extent".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number of positions, whole or not, or a multiple of the training length such as `8L`.",
            "anyOf": [{ "type": "number", "minimum": 0 }, generator.subschema_for::<Tokens>()]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_multiples() {
        let read =
            |text: &str| Extent::deserialize(crate::testing::value(text)).map_err(|error| error.to_string());
        let at = |text: &str| read(text).unwrap().at(Lengths { train: 64, length: 128 });
        assert_eq!([at("3"), at("0.5"), at("0"), at("'8L'"), at("'L/16'")], [3.0, 0.5, 0.0, 512.0, 4.0]);
        assert!(read("'many'").unwrap_err().contains("multiple of the training length"));
        assert!(Extent::Number(0.0).validate("span", true).is_ok());
        assert!(Extent::Number(0.0).validate("span", false).unwrap_err().hint_text().is_some());
        assert!(Extent::Number(f64::NAN).validate("span", true).is_err());
    }
}
