//! `model.attention`: what turns queries and keys into the weights of values.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// What turns queries and keys into the weights of values: `model.attention`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttentionKind {
    /// Softmax of scaled scores.
    #[default]
    Softmax,
    /// Products of features `elu(x) + 1`, summed causally in linear time (Katharopoulos et al. 2020,
    /// arXiv:2006.16236).
    Linear,
    /// A stick of length 1, of which the nearest key breaks off its share first (Tan et al. 2024, arXiv:2410.17980).
    StickBreaking(StickBreaking),
}

/// Keys of `kind = "stick_breaking"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StickBreaking {
    /// Whether a query sees its own key.
    pub attend_current: bool,
    /// Where the rest of the stick goes.
    pub remainder: Remainder,
}

/// Where the rest of the stick goes, which no key has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Remainder {
    /// To the query's own value.
    #[default]
    Value,
    /// To a learned vector of the head.
    Bias,
    /// Nowhere: the weights of a query add up to less than 1.
    Drop,
}

const SOFTMAX: &str = "softmax";
const LINEAR: &str = "linear";
const STICK_BREAKING: &str = "stick_breaking";

/// What a config may say.
const ALLOWED: &str = "it must be \"softmax\", \"linear\", \"stick_breaking\", or a table such as { kind = \"stick_breaking\", \
                       attend_current = false, remainder = \"value\" }";

impl AttentionKind {
    /// Its name in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Softmax => SOFTMAX,
            Self::Linear => LINEAR,
            Self::StickBreaking(_) => STICK_BREAKING,
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        let all = [Self::Softmax, Self::Linear, Self::StickBreaking(StickBreaking::default())];
        all.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for AttentionKind {
    /// As a config has it: `model.attention = "linear"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "model.attention = \"{}\"", self.name())
    }
}

/// A table, with the kind among its keys.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attend_current: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remainder: Option<Remainder>,
}

impl Serialize for AttentionKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self::StickBreaking(StickBreaking { attend_current, remainder }) = *self else {
            return self.name().serialize(serializer);
        };
        let (attend_current, remainder) = (Some(attend_current), Some(remainder));
        Table { kind: STICK_BREAKING.to_owned(), attend_current, remainder }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for AttentionKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Name(String),
            Table(Table),
        }
        let rejected = || D::Error::custom(ALLOWED);
        let (name, table) = match Raw::deserialize(deserializer).map_err(|_| rejected())? {
            Raw::Name(name) => (name, None),
            Raw::Table(table) => (table.kind.clone(), Some(table)),
        };
        let kind = Self::of_name(&name).ok_or_else(rejected)?;
        match (kind, table) {
            (Self::StickBreaking(_), Some(Table { attend_current, remainder, .. })) => {
                Ok(Self::StickBreaking(StickBreaking {
                    attend_current: attend_current.unwrap_or_default(),
                    remainder: remainder.unwrap_or_default(),
                }))
            }
            (kind, Some(Table { attend_current: None, remainder: None, .. }) | None) => Ok(kind),
            _ => Err(D::Error::custom(format!("kind \"{name}\" takes no other key"))),
        }
    }
}

impl JsonSchema for AttentionKind {
    fn schema_name() -> Cow<'static, str> {
        "AttentionKind".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let stick_breaking = crate::tagged::tagged::<StickBreaking>(
            STICK_BREAKING,
            "A stick of length 1, of which the nearest key breaks off its share first (arXiv:2410.17980).",
            generator,
        );
        json_schema!({
            "description": "What turns queries and keys into the weights of values.",
            "oneOf": [
                { "const": SOFTMAX, "description": "Softmax of scaled scores." },
                {
                    "const": LINEAR,
                    "description": "Products of features `elu(x) + 1`, summed causally in linear time (Katharopoulos et al. \
                                    2020, arXiv:2006.16236)."
                },
                { "const": STICK_BREAKING, "description": "The table below with its defaults." },
                stick_breaking
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<AttentionKind, String> {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Model {
            attention: AttentionKind,
        }
        let table = format!("attention = {text}").parse().unwrap();
        let model: longwave_core::Result<Model> = longwave_core::config::read(&table, "model");
        model.map(|model| model.attention).map_err(|error| error.to_string())
    }

    #[test]
    fn names_and_tables_are_read_and_written() {
        let stick = StickBreaking { attend_current: true, remainder: Remainder::Bias };
        let text = "{ kind = 'stick_breaking', attend_current = true, remainder = 'bias' }";
        assert_eq!(read(text).unwrap(), AttentionKind::StickBreaking(stick));
        assert_eq!(read("{ kind = 'linear' }").unwrap(), AttentionKind::Linear);
        assert_eq!(read("'stick_breaking'").unwrap(), AttentionKind::StickBreaking(StickBreaking::default()));
        for text in ["'softmax'", "'linear'", "'stick_breaking'", text] {
            let kind = read(text).unwrap();
            assert_eq!(read(&toml::Value::try_from(kind).unwrap().to_string()).unwrap(), kind);
        }
        assert_eq!(toml::Value::try_from(AttentionKind::Linear).unwrap(), toml::Value::from("linear"));
    }

    #[test]
    fn other_keys_and_kinds_are_rejected() {
        for text in ["'stick'", "3", "{ kind = 'stick_breaking', rest = 'drop' }", "{ remainder = 'drop' }"] {
            let message = read(text).unwrap_err();
            assert!(message.contains("must be \"softmax\", \"linear\""), "{text}: {message}");
        }
        let message = read("{ kind = 'linear', remainder = 'drop' }").unwrap_err();
        assert!(message.contains("kind \"linear\" takes no other key"), "{message}");
    }
}
