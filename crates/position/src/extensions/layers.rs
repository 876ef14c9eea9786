//! `layers`: which layers an extension changes.
//!
//! A stack may mix layers that were trained with a window, which never see a distance that is new, and layers that see
//! everything. An extension changes all of them unless `layers` says `"full"` (those without a window), `"windowed"`
//! (those with one) or lists them: `[0, 3]`, counted from 0. The others read as they were trained, at the extension's
//! `log_n` and `temperature` too. Published stacks scale the frequencies of their full layers alone (gpt-oss, and
//! Gemma 3 in Hugging Face's `rope_parameters` by kind of layer).

use crate::reading::Reading;
use longwave_core::{Error, Result};
use serde::{Serialize, Serializer};
use serde_json::json;
use toml::Value;

/// Which layers an extension changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Layers {
    /// All of them.
    #[default]
    All,
    /// Those that were trained without a window.
    Full,
    /// Those that were trained with a window.
    Windowed,
    /// Those of these numbers, from 0, in rising order.
    Listed(Vec<usize>),
}

impl Layers {
    pub(super) fn from_value(value: &Value, key: &str) -> Result<Self> {
        let wrong = || {
            Error::value(key, value, "it must be \"all\", \"full\", \"windowed\" or a list of layers")
                .hint("layers are counted from 0: `layers = [0, 3]`")
        };
        match value {
            Value::String(name) => match name.as_str() {
                "all" => Ok(Self::All),
                "full" => Ok(Self::Full),
                "windowed" => Ok(Self::Windowed),
                _ => Err(wrong()),
            },
            Value::Array(items) => {
                let number = |item: &Value| usize::try_from(item.as_integer()?).ok();
                let mut listed: Vec<usize> =
                    items.iter().map(number).collect::<Option<_>>().ok_or_else(wrong)?;
                listed.sort_unstable();
                listed.dedup();
                if listed.is_empty() { Err(wrong()) } else { Ok(Self::Listed(listed)) }
            }
            _ => Err(wrong()),
        }
    }

    /// Whether it is what an extension does unless told otherwise.
    pub(super) fn is_all(&self) -> bool {
        *self == Self::All
    }

    /// The layers of a stack that it selects, in rising order.
    pub(super) fn of(&self, stack: &Reading) -> Result<Vec<usize>> {
        let depth = stack.layers().len();
        let windowed = |layer: &usize| stack.layer(*layer).mask.window.is_some();
        let (selected, wanted): (Vec<usize>, _) = match self {
            Self::All => return Ok((0..depth).collect()),
            Self::Full => ((0..depth).filter(|layer| !windowed(layer)).collect(), "\"full\""),
            Self::Windowed => ((0..depth).filter(windowed).collect(), "\"windowed\""),
            Self::Listed(listed) => {
                if let Some(stranger) = listed.iter().find(|&&layer| layer >= depth) {
                    let allowed = format!("the model has no layer {stranger}: its last is {}", depth - 1);
                    return Err(Error::value("layers", format!("{listed:?}"), allowed)
                        .hint("layers are counted from 0"));
                }
                return Ok(listed.clone());
            }
        };
        if selected.is_empty() {
            let all = if *self == Self::Full { "every layer has a window" } else { "no layer has a window" };
            return Err(Error::value(
                "layers",
                wanted,
                format!("{all} in `{}`, which has {depth}", stack.name()),
            )
            .hint("leave `layers` out, or list some: `layers = [0]`"));
        }
        Ok(selected)
    }

    /// The JSON schema of the key.
    pub(super) fn schema() -> serde_json::Value {
        json!({
            "description": "Which layers the extension changes: all, those without a window, those with one, or a list \
                            from 0.",
            "anyOf": [
                { "enum": ["all", "full", "windowed"] },
                { "type": "array", "items": { "type": "integer", "minimum": 0 }, "minItems": 1 },
            ],
        })
    }
}

impl Serialize for Layers {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::Full => serializer.serialize_str("full"),
            Self::Windowed => serializer.serialize_str("windowed"),
            Self::Listed(listed) => listed.serialize(serializer),
        }
    }
}
