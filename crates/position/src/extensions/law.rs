//! `temperature_law`: what multiplies q.k where a text is longer than those of the training.
//!
//! With N the tokens of the text up to and with the query's own, also those that a window hides, T the text's length, s = T / L and d = `head_dim`, each at least 1:
//!
//! | law | factor | source |
//! |---|---|---|
//! | `log_ratio`, also written `log_n = true` | `ln N / ln L` | kexue.fm/archives/8823 and 9708 |
//! | `one_plus_log` | `1 + c ln s`, the same for all queries | arXiv:2512.12167 |
//! | `log_shift` | `ln(a + N) / ln(a + L)` | arXiv:2504.08719, which trains with `ln(a + N)`; over its value at L it is 1 there |
//! | `info` | `sqrt((1 - N^(-2/d)) / (1 - L^(-2/d)))` | arXiv:2501.08570, whose N is the whole text: it has no causal mask |
//! | `entropy` | a polynomial of the entropy of the row's probabilities | arXiv:2410.01104 |
//!
//! `entropy` multiplies all that goes into the softmax, position biases too, and texts of L tokens as well; it needs the scores, so
//! layers are read one block of queries at a time.

use crate::encoding::check_not_below;
use crate::extension::Lengths;
use crate::reading::{LayerReading, LengthFactor, LogN};
use longwave_core::Result;
use longwave_core::config::{kind_and_rest, read, unknown_kind};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;
use toml::Value;

/// The value of the key `temperature_law`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    LogRatio,
    OnePlusLog { c: f64 },
    LogShift { a: f64 },
    Info,
    Entropy,
}

/// The laws by name.
const NAMES: [&str; 5] = ["log_ratio", "one_plus_log", "log_shift", "info", "entropy"];

impl Law {
    /// A name, or a table with a `kind` and its number.
    pub(super) fn from_value(value: &Value, key: &str) -> Result<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct NoKeys {}
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct OnePlusLog {
            c: f64,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct LogShift {
            a: f64,
        }
        let (kind, keys) = kind_and_rest(value, key)?;
        let law = match kind.as_str() {
            "one_plus_log" => read(&keys, key).map(|OnePlusLog { c }| Self::OnePlusLog { c }),
            "log_shift" => read(&keys, key).map(|LogShift { a }| Self::LogShift { a }),
            "log_ratio" => read(&keys, key).map(|NoKeys {}| Self::LogRatio),
            "info" => read(&keys, key).map(|NoKeys {}| Self::Info),
            "entropy" => read(&keys, key).map(|NoKeys {}| Self::Entropy),
            _ => Err(unknown_kind(key, &kind, NAMES)),
        }?;
        if let Some((name, number)) = law.number() {
            check_not_below(key, name, number, 0.0)
                .map_err(|error| error.hint("a list of numbers is tried on the validation split"))?;
        }
        Ok(law)
    }

    fn name(self) -> &'static str {
        match self {
            Self::LogRatio => NAMES[0],
            Self::OnePlusLog { .. } => NAMES[1],
            Self::LogShift { .. } => NAMES[2],
            Self::Info => NAMES[3],
            Self::Entropy => NAMES[4],
        }
    }

    fn number(self) -> Option<(&'static str, f64)> {
        match self {
            Self::OnePlusLog { c } => Some(("c", c)),
            Self::LogShift { a } => Some(("a", a)),
            Self::LogRatio | Self::Info | Self::Entropy => None,
        }
    }

    /// What a layer has of it; a factor for the whole text is none of these.
    fn log_n(self, train_length: usize, head_dim: usize) -> LogN {
        match self {
            Self::LogRatio => LogN::PostHoc { train_length },
            Self::OnePlusLog { .. } => LogN::Off,
            Self::LogShift { a } => LogN::Shifted { a, train_length },
            Self::Info => LogN::Info { head_dim, train_length },
            Self::Entropy => LogN::ByEntropy,
        }
    }

    /// Scales a layer; says whether it could, since one that another law scales already would be scaled twice.
    pub(super) fn apply(self, layer: &mut LayerReading, lengths: Lengths, head_dim: usize) -> bool {
        let log_n = self.log_n(lengths.train, head_dim);
        let of_text = match self {
            Self::OnePlusLog { c } => Some(LengthFactor { c, factor: 1.0 + c * lengths.scale().ln() }),
            _ => None,
        };
        let is_same = |known: LengthFactor| of_text.is_some_and(|new| new.c.to_bits() == known.c.to_bits());
        if (layer.log_n != LogN::Off && layer.log_n != log_n)
            || layer.length_factor.is_some_and(|known| !is_same(known))
        {
            return false;
        }
        layer.log_n = log_n;
        if let Some(new) = of_text {
            // The same law again is that of this text, in the place of the one before.
            layer.logit_scale *= new.factor / layer.length_factor.map_or(1.0, |known| known.factor);
            layer.length_factor = Some(new);
        }
        true
    }

    /// Its JSON schema.
    pub(super) fn schema() -> serde_json::Value {
        let with = |kind: &str, about: &str, name: &str, of: &str| {
            let number = json!({ "type": "number", "minimum": 0, "description": of });
            json!({
                "type": "object",
                "description": about,
                "properties": { "kind": { "const": kind }, name: number },
                "required": ["kind", name],
                "additionalProperties": false,
            })
        };
        json!({
            "description": "What multiplies q.k where a text is longer than those of the training: `log_ratio` (`log_n = true`), \
                            `info` (InfoScale), or a law with a number of its own. `entropy` multiplies all logits by what the entropy \
                            of each row says, at every length.",
            "anyOf": [
                { "enum": ["log_ratio", "info", "entropy"] },
                with("one_plus_log", "`1 + c ln s`, s the length over L (DroPE).", "c", "0.412 and 0.103 are published."),
                with("log_shift", "`ln(a + N) / ln(a + L)`, N the tokens up to and with the query's own (SWAN).", "a", "0 is `log_ratio`."),
            ],
        })
    }
}

impl Serialize for Law {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self.number() {
            None => serializer.serialize_str(self.name()),
            Some((name, number)) => {
                serializer.collect_map([("kind", json!(self.name())), (name, json!(number))])
            }
        }
    }
}
