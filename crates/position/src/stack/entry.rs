//! One entry of a mixed stack: the encodings of a layer, and what the layer sees.

use crate::encodings::EncodingConfig;
use crate::reading::LogNKind;
use crate::tokens::{Lengths, Tokens};
use longwave_core::config::read;
use longwave_core::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// The keys that an entry has itself, beside those of an encoding.
pub(crate) const KEYS: [&str; 4] = [ENCODINGS, "window", "sinks", "log_n"];

const ENCODINGS: &str = "encodings";

/// What a layer may read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StackEntry {
    pub(super) encodings: Vec<EncodingConfig>,
    pub(super) keys: StackEntryKeys,
}

/// Keys of an entry besides those of its encodings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct StackEntryKeys {
    /// The layer sees keys at distances below it; all of them without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) window: Option<Tokens>,
    /// Keys at positions below it stay visible past the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sinks: Option<usize>,
    /// Scales the queries by `ln n / ln(train length)`, n the tokens of the text up to and with the query's own, or by a learned multiple
    /// of `ln(keys they see)` (`"learned"`); `model.log_n` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) log_n: Option<LogNKind>,
}

impl StackEntry {
    pub(super) fn from_value(value: &Value, section: &str) -> Result<Self> {
        let mut table = match value {
            Value::Table(table) => table.clone(),
            kind => Table::from_iter([("kind".to_owned(), kind.clone())]),
        };
        let mut keys = Table::new();
        for key in KEYS.into_iter().filter(|key| *key != ENCODINGS) {
            if let Some(value) = table.remove(key) {
                keys.insert(key.to_owned(), value);
            }
        }
        let encodings = match table.remove(ENCODINGS) {
            None => vec![EncodingConfig::from_value(&Value::Table(table), section)?],
            Some(Value::Array(list)) if table.is_empty() => listed(&list, &format!("{section}.encodings"))?,
            Some(Value::Array(_)) => {
                let stranger = table.keys().next().map_or("", String::as_str);
                return Err(Error::usage(format!("`{section}.{stranger}` stands beside `encodings`"))
                    .hint("put the keys of an encoding into its place in the list"));
            }
            Some(other) => {
                return Err(Error::value(&format!("{section}.encodings"), &other, "it must be a list")
                    .hint("write `encodings = [{ kind = \"learned\" }, { kind = \"rope\" }]`"));
            }
        };
        Ok(Self { encodings, keys: read(&keys, section)? })
    }

    /// The kinds joined by `+`, with the window in brackets; `grouped` keeps several together.
    pub(super) fn name(&self, grouped: bool) -> String {
        let kinds: Vec<_> = self.encodings.iter().map(|encoding| encoding.kind()).collect();
        let name = kinds.join("+");
        let name = if grouped && kinds.len() > 1 { format!("({name})") } else { name };
        match self.keys.window {
            Some(window) => format!("{name}[{}]", window.text()),
            None => name,
        }
    }

    /// The window in tokens.
    pub(super) fn window(&self, section: &str, train_length: usize) -> Result<Option<usize>> {
        let lengths = Lengths { train: train_length, length: train_length };
        self.keys.window.map(|window| window.whole(&format!("{section}.window"), lengths)).transpose()
    }

    /// Checks the keys besides those of its encodings.
    pub(super) fn check_keys(&self, section: &str, train_length: usize) -> Result<()> {
        self.window(section, train_length)?;
        if let (Some(sinks), None) = (self.keys.sinks, self.keys.window) {
            return Err(Error::value(
                &format!("{section}.sinks"),
                sinks,
                "there is no `window` to stay past",
            )
            .hint("give a `window`, or leave `sinks` out: every key is seen"));
        }
        self.keys.log_n.unwrap_or_default().check(&format!("{section}.log_n"), train_length)
    }
}

pub(super) fn listed(list: &[Value], section: &str) -> Result<Vec<EncodingConfig>> {
    if list.is_empty() {
        return Err(Error::usage(format!("`{section}` is an empty list"))
            .hint("for a model without positional encoding write `kind = \"none\"`"));
    }
    list.iter()
        .enumerate()
        .map(|(index, item)| EncodingConfig::from_value(item, &format!("{section}[{index}]")))
        .collect()
}
