//! A number of tokens in a config: a count, or a share of the training length.

use crate::extension::Lengths;
use longwave_core::{Error, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// What a number of tokens may look like in a config.
const ALLOWED: &str = "it must be a whole number of tokens, at least 1, or a share of the training length such as \
                       \"L/4\", \"3L/4\" or \"0.6L\"";

/// A number of tokens: `64`, or a share of the training length L such as `"L/4"`, `"3L/4"` or
/// `"0.6L"`, so that one config serves every length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tokens {
    /// So many tokens.
    Count(usize),
    /// `factor L / divisor`.
    Share {
        /// Above 0.
        factor: f64,
        /// Above 0.
        divisor: f64,
    },
}

impl Tokens {
    /// `L / divisor`.
    pub const fn part(divisor: f64) -> Self {
        Self::Share { factor: 1.0, divisor }
    }

    /// `factor L`.
    pub const fn times(factor: f64) -> Self {
        Self::Share { factor, divisor: 1.0 }
    }

    /// The number of tokens for a training length; a share may be fractional.
    pub fn at(self, lengths: Lengths) -> f64 {
        match self {
            Self::Count(tokens) => tokens as f64,
            Self::Share { factor, divisor } => factor * lengths.train as f64 / divisor,
        }
    }

    /// The number of whole tokens, a share rounded down.
    ///
    /// # Errors
    /// The share is less than one token; `key` names it.
    pub fn whole(self, key: &str, lengths: Lengths) -> Result<usize> {
        // 0.1 * 30 is a little below 3 in binary.
        let tokens = (self.at(lengths) + 1e-9).floor();
        if tokens >= 1.0 {
            return Ok(tokens as usize);
        }
        Err(Error::value(key, self.written(), format!("at L = {} it is less than one token", lengths.train))
            .hint("give a larger share or a number of tokens"))
    }

    fn parse(text: &str) -> Option<Self> {
        let (factor, divisor) = text.split_once('L')?;
        let number =
            |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        let factor =
            if factor.trim().is_empty() { 1.0 } else { number(factor.trim().trim_end_matches('*'))? };
        let divisor = match divisor.trim() {
            "" => 1.0,
            divisor => number(divisor.strip_prefix('/')?)?,
        };
        Some(Self::Share { factor, divisor })
    }

    /// As it stands in a config, without quotes.
    pub fn written(self) -> String {
        match self {
            Self::Count(tokens) => tokens.to_string(),
            Self::Share { factor, divisor } => {
                let one = |number: f64| (number - 1.0).abs() < f64::EPSILON;
                let factor = if one(factor) { String::new() } else { factor.to_string() };
                let divisor = if one(divisor) { String::new() } else { format!("/{divisor}") };
                format!("{factor}L{divisor}")
            }
        }
    }
}

impl Serialize for Tokens {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Count(tokens) => tokens.serialize(serializer),
            share @ Self::Share { .. } => serializer.serialize_str(&share.written()),
        }
    }
}

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Number(f64),
            Text(String),
        }
        let tokens = match Raw::deserialize(deserializer) {
            Ok(Raw::Number(number)) if number >= 1.0 && number.fract() == 0.0 && number < 2f64.powi(53) => {
                Some(Self::Count(number as usize))
            }
            Ok(Raw::Text(text)) => Self::parse(&text),
            _ => None,
        };
        tokens.ok_or_else(|| serde::de::Error::custom(ALLOWED))
    }
}

impl JsonSchema for Tokens {
    fn schema_name() -> Cow<'static, str> {
        "Tokens".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number of tokens, or a share of the training length L.",
            "anyOf": [{ "type": "integer", "minimum": 1 }, { "type": "string", "pattern": "L" }]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: Lengths = Lengths { train: 30, length: 120 };

    fn read(text: &str) -> std::result::Result<Tokens, toml::de::Error> {
        let mut table: toml::Table = format!("x = {text}").parse().unwrap();
        table.remove("x").unwrap().try_into()
    }

    #[test]
    fn counts_and_shares() {
        for (text, tokens) in [
            ("7", 7),
            ("\"L\"", 30),
            ("\"L/4\"", 7),
            ("\"3L/4\"", 22),
            ("\"0.1L\"", 3),
            ("\"2 * L / 3\"", 20),
        ] {
            let read = read(text).unwrap();
            assert_eq!(read.whole("extend.window", LENGTHS).unwrap(), tokens, "{text}");
        }
    }

    #[test]
    fn what_is_read_is_written() {
        for text in ["7", "\"L\"", "\"L/4\"", "\"3L/4\"", "\"0.6L\""] {
            assert_eq!(toml::Value::try_from(read(text).unwrap()).unwrap().to_string(), text);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["0", "-3", "4.5", "\"half\"", "\"L4\"", "\"L/0\"", "\"-L\"", "true"] {
            assert!(read(text).unwrap_err().to_string().contains("a share of the training length"), "{text}");
        }
        assert!(Tokens::part(64.0).whole("extend.window", LENGTHS).is_err());
    }
}
