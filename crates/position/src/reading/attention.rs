//! `model.attention`: what turns queries and keys into the weights of values.

use crate::tagged::{serialize_tagged, tagged};
use longwave_core::{Error, Result as Checked};
use longwave_kernels::{self as kernels, Lssar, Normaliser, Softmax, entmax};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value as Json};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// What turns queries and keys into the weights of values: `model.attention`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum AttentionKind {
    /// Softmax of scaled scores.
    #[default]
    Softmax,
    /// Products of features `elu(x) + 1`, summed causally in linear time (Katharopoulos et al. 2020,
    /// arXiv:2006.16236).
    Linear,
    /// A stick of length 1, of which the nearest key breaks off its share first (Tan et al. 2024, arXiv:2410.17980).
    StickBreaking(StickBreaking),
    /// A softmax whose small weights are exactly 0 (Peters et al. 2019, arXiv:1905.05702).
    Entmax(EntmaxKeys),
    /// Softplus of cosines over its sum (Gao et al. 2025, arXiv:2501.13428).
    Lssa,
    /// The same, and a power of the weights above the average.
    Lssar(LssarKeys),
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

/// Keys of `kind = "entmax"`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EntmaxKeys {
    /// From 1 (softmax) to 2 (sparsemax): the more, the fewer keys have a weight.
    pub alpha: f64,
}

impl Default for EntmaxKeys {
    fn default() -> Self {
        Self { alpha: 1.5 }
    }
}

/// Keys of `kind = "lssar"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LssarKeys {
    /// What the weights above the average are raised to.
    pub power: u32,
}

impl Default for LssarKeys {
    fn default() -> Self {
        Self { power: 15 }
    }
}

const SOFTMAX: &str = "softmax";
const LINEAR: &str = "linear";
const STICK_BREAKING: &str = "stick_breaking";
const ENTMAX: &str = "entmax";
const LSSA: &str = "lssa";
const LSSAR: &str = "lssar";

/// What a config may say.
const ALLOWED: &str = "it must be \"softmax\", \"linear\", \"stick_breaking\", \"entmax\", \"lssa\", \"lssar\", or a table such as \
                       { kind = \"stick_breaking\", attend_current = false, remainder = \"value\" }, { kind = \"entmax\", alpha = 1.5 } \
                       or { kind = \"lssar\", power = 15 }";

/// The highest power of LSSAR: above it the largest weight has all in any case.
const MOST_POWER: u32 = 64;

impl AttentionKind {
    /// Its name in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Softmax => SOFTMAX,
            Self::Linear => LINEAR,
            Self::StickBreaking(_) => STICK_BREAKING,
            Self::Entmax(_) => ENTMAX,
            Self::Lssa => LSSA,
            Self::Lssar(_) => LSSAR,
        }
    }

    /// Checks the values of its keys.
    pub fn check(self) -> Checked<()> {
        match self {
            Self::Entmax(EntmaxKeys { alpha }) if !(1.0..=2.0).contains(&alpha) => {
                Err(Error::value("model.attention.alpha", alpha, "it must be from 1 to 2").hint(
                    "1 is the softmax, 1.5 the usual choice, 2 sparsemax; above 2 the slope of a weight that appears is infinite",
                ))
            }
            Self::Lssar(LssarKeys { power }) if !(1..=MOST_POWER).contains(&power) => {
                Err(Error::value("model.attention.power", power, format!("it must be from 1 to {MOST_POWER}"))
                    .hint("the paper has 15 for longer texts and 3 for those of the training length; `lssa` has no power"))
            }
            _ => Ok(()),
        }
    }

    /// What turns scores into weights; `None` where there are no scores.
    pub fn normaliser(self) -> Option<Arc<dyn Normaliser>> {
        Some(match self {
            Self::Linear => return None,
            Self::Softmax => Arc::new(Softmax),
            Self::StickBreaking(StickBreaking { attend_current, remainder }) => {
                let rest_to_own = remainder == Remainder::Value;
                Arc::new(kernels::StickBreaking { attend_current, rest_to_own })
            }
            Self::Entmax(EntmaxKeys { alpha }) => entmax(alpha),
            Self::Lssa => Arc::new(Lssar { power: None }),
            Self::Lssar(LssarKeys { power }) => Arc::new(Lssar { power: Some(power) }),
        })
    }

    /// The same whose weights are those of keys alone: without what is left to a query's own value.
    #[must_use]
    pub fn of_keys(self) -> Self {
        match self {
            Self::StickBreaking(stick) => {
                Self::StickBreaking(StickBreaking { remainder: Remainder::Drop, ..stick })
            }
            other => other,
        }
    }

    /// Whether a query sees its own key.
    pub fn sees_own_key(self) -> bool {
        !matches!(self, Self::StickBreaking(StickBreaking { attend_current: false, .. }))
    }

    /// Whether scores are cosines of q and k times `ln d ln N`, N the keys that a query sees.
    pub fn reads_cosines(self) -> bool {
        matches!(self, Self::Lssa | Self::Lssar(_))
    }

    /// The kind of a name and its keys.
    fn read(name: &str, keys: Map<String, Json>) -> Option<Self> {
        fn keyed<T: DeserializeOwned>(
            keys: Map<String, Json>,
            of: fn(T) -> AttentionKind,
        ) -> Option<AttentionKind> {
            serde_json::from_value(Json::Object(keys)).ok().map(of)
        }
        let alone = |kind| keys.is_empty().then_some(kind);
        match name {
            SOFTMAX => alone(Self::Softmax),
            LINEAR => alone(Self::Linear),
            LSSA => alone(Self::Lssa),
            STICK_BREAKING => keyed(keys, Self::StickBreaking),
            ENTMAX => keyed(keys, Self::Entmax),
            LSSAR => keyed(keys, Self::Lssar),
            _ => None,
        }
    }
}

impl fmt::Display for AttentionKind {
    /// As a config has it: `model.attention = "linear"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "model.attention = \"{}\"", self.name())
    }
}

impl Serialize for AttentionKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let keys = match self {
            Self::Softmax | Self::Linear | Self::Lssa => return self.name().serialize(serializer),
            Self::StickBreaking(keys) => serde_json::to_value(keys),
            Self::Entmax(keys) => serde_json::to_value(keys),
            Self::Lssar(keys) => serde_json::to_value(keys),
        };
        serialize_tagged(self.name(), keys, serializer)
    }
}

impl<'de> Deserialize<'de> for AttentionKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Name(String),
            Table {
                kind: String,
                #[serde(flatten)]
                keys: Map<String, Json>,
            },
        }
        let rejected = || D::Error::custom(ALLOWED);
        let (name, keys) = match Raw::deserialize(deserializer).map_err(|_| rejected())? {
            Raw::Name(name) => (name, Map::new()),
            Raw::Table { kind, keys } => (kind, keys),
        };
        Self::read(&name, keys).ok_or_else(rejected)
    }
}

impl JsonSchema for AttentionKind {
    fn schema_name() -> Cow<'static, str> {
        "AttentionKind".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let stick_breaking = tagged::<StickBreaking>(
            STICK_BREAKING,
            "A stick of length 1, of which the nearest key breaks off its share first (arXiv:2410.17980).",
            generator,
        );
        let entmax = tagged::<EntmaxKeys>(
            ENTMAX,
            "A softmax whose small weights are exactly 0 (arXiv:1905.05702).",
            generator,
        );
        let lssar = tagged::<LssarKeys>(
            LSSAR,
            "As `\"lssa\"`, and a power of the weights above the average (arXiv:2501.13428).",
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
                {
                    "const": LSSA,
                    "description": "Softplus of the cosine of q and k times `ln d ln N`, N the keys that a query sees, over its \
                                    sum (arXiv:2501.13428)."
                },
                { "enum": [STICK_BREAKING, ENTMAX, LSSAR], "description": "The table below with its defaults." },
                stick_breaking,
                entmax,
                lssar,
                {
                    "type": "object",
                    "description": "The same as the name alone; `\"linear\"` and `\"lssa\"` have no other key either.",
                    "properties": { "kind": { "enum": [SOFTMAX, LINEAR, LSSA] } },
                    "required": ["kind"],
                    "additionalProperties": false
                }
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
        assert_eq!(
            read("{ kind = 'entmax', alpha = 2 }").unwrap(),
            AttentionKind::Entmax(EntmaxKeys { alpha: 2.0 })
        );
        assert_eq!(read("'lssar'").unwrap(), AttentionKind::Lssar(LssarKeys { power: 15 }));
        for text in [
            "'softmax'",
            "'linear'",
            "'stick_breaking'",
            text,
            "'entmax'",
            "'lssa'",
            "{ kind = 'lssar', power = 3 }",
        ] {
            let kind = read(text).unwrap();
            assert_eq!(read(&toml::Value::try_from(kind).unwrap().to_string()).unwrap(), kind);
        }
        assert_eq!(toml::Value::try_from(AttentionKind::Linear).unwrap(), toml::Value::from("linear"));
    }

    #[test]
    fn other_keys_and_kinds_are_rejected() {
        for text in [
            "'stick'",
            "3",
            "{ kind = 'stick_breaking', rest = 'drop' }",
            "{ remainder = 'drop' }",
            "{ kind = 'linear', remainder = 'drop' }",
            "{ kind = 'lssar', power = -1 }",
            "{ kind = 'entmax', alpha = nan }",
        ] {
            let message = read(text).unwrap_err();
            assert!(message.contains("must be \"softmax\", \"linear\""), "{text}: {message}");
        }
        for text in ["{ kind = 'entmax', alpha = 0.9 }", "{ kind = 'lssar', power = 0 }"] {
            assert!(read(text).unwrap().check().is_err(), "{text}");
        }
    }
}
