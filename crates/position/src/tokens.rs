//! A length in a config: a number of tokens, or a multiple of the training length.
//!
//! One type serves every key that is a length in tokens: `64` is 64 tokens, `"2L"`, `"1.5L"`, `"3L/4"` and `"L/4"` are
//! multiples of L, the length of `[train]`. A multiple that is no whole number of tokens is rounded down, and one below
//! a token is an error: at L = 100, `"L/3"` is 33 tokens and `"1.125L"` is 112. Only `far_end` of `leaky_rerope` keeps
//! its fraction: it is a distance that need not be a token's.

use longwave_core::{Error, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::str::FromStr;

/// More tokens than any text has; up to here f64 counts them one by one.
const MOST: f64 = (1u64 << 53) as f64;
/// What a length may look like in a config.
const ALLOWED: &str = "it must be a whole number of tokens, at least 1, or a multiple of the training length L such as \
                       \"L\", \"2L\", \"1.5L\" or \"L/4\"";

/// The length of training and the length that is read, in tokens.
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

/// A number of tokens: `64`, or a multiple of the training length L such as `"2L"`, `"1.5L"`, `"3L/4"` or `"L/4"`, so
/// that one config serves every training length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tokens {
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

    /// The number of tokens for a training length; a multiple may be fractional.
    pub fn at(self, lengths: Lengths) -> f64 {
        match self {
            Self::Count(tokens) => tokens as f64,
            Self::Share { factor, divisor } => factor * lengths.train as f64 / divisor,
        }
    }

    /// The number of whole tokens, a multiple rounded down.
    pub fn whole(self, key: &str, lengths: Lengths) -> Result<usize> {
        let tokens = self.rounded_down(lengths.train);
        let (is, other) = match tokens {
            0 => ("less than one token", "larger"),
            tokens if tokens as f64 > MOST => ("more than 2^53 tokens", "smaller"),
            tokens => return Ok(tokens),
        };
        Err(Error::value(key, self.in_toml(), format!("at L = {} it is {is}", lengths.train))
            .hint(format!("give a {other} multiple or a number of tokens")))
    }

    /// The number of whole tokens where L is `train_length`, a multiple rounded down; 0 below one token.
    pub fn rounded_down(self, train_length: usize) -> usize {
        match self {
            Self::Count(tokens) => tokens,
            // 0.1 * 30 is a little below 3 in binary.
            Self::Share { factor, divisor } => {
                (factor * train_length as f64 / divisor + 1e-9).floor() as usize
            }
        }
    }

    /// Reads a value of a config; `key` is its place in the file.
    pub fn from_value(value: &toml::Value, key: &str) -> Result<Self> {
        Self::deserialize(value.clone()).map_err(|_| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            Error::value(key, value, ALLOWED).hint(hint(&text))
        })
    }

    /// Reads a multiple.
    fn parse(text: &str) -> Option<Self> {
        let (factor, divisor) = text.split_once('L')?;
        let factor = match factor.trim().trim_end_matches('*') {
            "" => 1.0,
            factor => number(factor)?,
        };
        let divisor = match divisor.trim() {
            "" => 1.0,
            divisor => number(divisor.strip_prefix('/')?)?,
        };
        Some(Self::Share { factor, divisor })
    }

    /// As it stands in a config, without quotes.
    pub fn text(self) -> String {
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

    /// As it stands in a config, with the quotes of a multiple.
    pub fn in_toml(self) -> String {
        match self {
            Self::Count(tokens) => tokens.to_string(),
            Self::Share { .. } => format!("\"{}\"", self.text()),
        }
    }
}

/// A number above 0.
fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0)
}

/// A hint for somebody who wrote `text` for a number of tokens.
fn hint(text: &str) -> String {
    meant(text).unwrap_or_else(|| "`\"2L\"` is twice the training length, `256` is 256 tokens".to_owned())
}

/// What somebody who wrote `text` probably meant, if that is plain.
pub(crate) fn meant(text: &str) -> Option<String> {
    let upper = text.to_uppercase();
    let (before, after) = upper.split_once('L').unwrap_or((&upper, ""));
    let after = after.trim().trim_start_matches('*');
    match (text.trim().parse::<usize>(), Tokens::parse(&upper), number(after)) {
        (Ok(tokens), ..) if tokens > 0 => Some(format!("write `{tokens}` without quotes")),
        (_, Some(meant), _) => Some(format!("did you mean `\"{}\"`?", meant.text())),
        (_, _, Some(factor)) if before.trim().is_empty() => {
            Some(format!("did you mean `\"{}\"`?", Tokens::times(factor).text()))
        }
        _ => None,
    }
}

/// Reads what stands on a command line: a number or a multiple.
impl FromStr for Tokens {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let count = text.trim().parse::<usize>().ok().filter(|tokens| *tokens > 0).map(Self::Count);
        count
            .or_else(|| Self::parse(text))
            .ok_or_else(|| Error::usage(ALLOWED.replace('"', "`")).hint(hint(text).replace('"', "")))
    }
}

impl Serialize for Tokens {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Count(tokens) => tokens.serialize(serializer),
            share @ Self::Share { .. } => serializer.serialize_str(&share.text()),
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
        let (tokens, text) = match Raw::deserialize(deserializer) {
            Ok(Raw::Number(number)) if number >= 1.0 && number.fract() == 0.0 && number < MOST => {
                return Ok(Self::Count(number as usize));
            }
            Ok(Raw::Number(number)) => (None, Self::times(number).text()),
            Ok(Raw::Text(text)) => (Self::parse(&text), text),
            Err(_) => (None, String::new()),
        };
        tokens.ok_or_else(|| serde::de::Error::custom(format!("{ALLOWED}\nhint: {}", hint(&text))))
    }
}

impl JsonSchema for Tokens {
    fn schema_name() -> Cow<'static, str> {
        "Tokens".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A length: a number of tokens, or a multiple of the training length L such as \"L\", \"2L\", \
                            \"1.5L\" or \"L/4\", rounded down to whole tokens.",
            "anyOf": [
                { "type": "integer", "minimum": 1 },
                { "type": "string", "pattern": r"^\s*([0-9.]+\s*\*?\s*)?L\s*(/\s*[0-9.]+\s*)?$" }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: Lengths = Lengths { train: 30, length: 120 };

    fn read(text: &str) -> std::result::Result<Tokens, toml::de::Error> {
        crate::testing::value(text).try_into()
    }

    #[test]
    fn counts_and_multiples() {
        for (text, tokens) in [
            ("7", 7),
            ("\"L\"", 30),
            ("\"2L\"", 60),
            ("\"1.5L\"", 45),
            ("\"L/4\"", 7),
            ("\"3L/4\"", 22),
            ("\"0.1L\"", 3),
            ("\"2 * L / 3\"", 20),
        ] {
            let read = read(text).unwrap();
            assert_eq!(read.whole("extend.window", LENGTHS).unwrap(), tokens, "{text}");
            assert_eq!(text.trim_matches('"').parse::<Tokens>().unwrap(), read, "{text} on a command line");
        }
    }

    #[test]
    fn a_fraction_of_a_token_is_rounded_down() {
        let whole = |text: &str, train| {
            text.parse::<Tokens>().unwrap().whole("key", Lengths { train, length: train }).unwrap()
        };
        assert_eq!([whole("L/3", 100), whole("1.125L", 100), whole("1.5L", 125)], [33, 112, 187]);
        let message_of = |text: &str| {
            let error = text.parse::<Tokens>().unwrap().whole("key", LENGTHS).unwrap_err();
            assert!(error.hint_text().is_some());
            error.message().to_owned()
        };
        assert_eq!(
            message_of("L/64"),
            "`key = \"L/64\"` is not allowed: at L = 30 it is less than one token"
        );
        assert!(message_of("1e30L").ends_with("it is more than 2^53 tokens"));
    }

    #[test]
    fn what_is_read_is_written() {
        for text in ["7", "\"L\"", "\"2L\"", "\"L/4\"", "\"3L/4\"", "\"0.6L\""] {
            assert_eq!(toml::Value::try_from(read(text).unwrap()).unwrap().to_string(), text);
            assert_eq!(read(text).unwrap().in_toml(), text);
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_is_allowed() {
        for text in ["0", "-3", "4.5", "\"half\"", "\"L4\"", "\"L/0\"", "\"-L\"", "\"2LL\"", "\"\"", "true"] {
            let message = read(text).unwrap_err().to_string();
            assert!(
                message.contains("a multiple of the training length L such as") && message.contains("hint: ")
            );
            let shell = text.trim_matches('"');
            assert!(shell.parse::<Tokens>().unwrap_err().message().contains("`2L`"), "{text}");
        }
    }

    #[test]
    fn a_slip_of_the_keyboard_has_its_hint() {
        for (text, meant) in [
            ("\"2l\"", "2L"),
            ("1.5", "1.5L"),
            ("\"L2\"", "2L"),
            ("\"L*4\"", "4L"),
            ("\"4\"", "`4` without quotes"),
        ] {
            let message = read(text).unwrap_err().to_string();
            assert!(message.lines().nth(1).unwrap().contains(meant), "{message}");
        }
    }
}
