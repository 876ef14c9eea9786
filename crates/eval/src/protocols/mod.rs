//! The evaluation protocols, one file each. Adding one is one new file and one line here. A program outside of this
//! workspace adds its own with [`register`].
//!
//! A protocol says which windows of which documents are read, and which of their tokens are scored: its keys with
//! their checks, its plan of windows, the metrics of its tables, and its words. Reading of configs, schema, error
//! messages, rows, CSV columns and tables follow from the list.
//!
//! A token `t`, counted from 0 in its document, is a target when it is predicted from the tokens `start..t` before it
//! in its window. The context is `t - start` tokens and at least one, so token 0 of a document is never scored. No
//! window crosses a document. A reading of `N` tokens `start..start + N` predicts the targets
//! `start + 1..=start + N`; a window of length `N` therefore needs `N + 1` tokens, and a document with fewer is skipped
//! and counted.

mod keys;
mod rules;
#[cfg(test)]
mod tests;

pub use keys::{Key, Keys, MAX_LENGTH, TARGET, Unit, WINDOWS_PER_DOCUMENT};
pub use rules::{Documents, Given, Rules};

use crate::fields::{reserved_columns, reserved_keys};
use crate::source::Source;
use longwave_core::in_order::distinct;
use longwave_core::registry::{Registered, Registry, check_name};
use longwave_core::{Error, Result};
use longwave_position::Tokens;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::MapAccess;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;
use std::borrow::Cow;
use std::fmt::{self, Display};
use std::ops::Deref;
use std::sync::LazyLock;

macro_rules! protocols {
    ($($Name:ident in $module:ident),* $(,)?) => {
        $(pub mod $module;)*

        /// Any one protocol; its name is that of its file.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Protocol {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Name,)*
            Registered(Registered<dyn Rules>),
        }

        impl Protocol {
            /// Those of this workspace, without those that a program registers.
            const OF_THE_WORKSPACE: &[Self] = &[$(Self::$Name,)*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$Name => stringify!($module),)*
                    Self::Registered(entry) => entry.name(),
                }
            }
        }

        impl Deref for Protocol {
            type Target = dyn Rules;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Self::$Name => &$module::$Name,)*
                    Self::Registered(entry) => entry.get(),
                }
            }
        }
    };
}

protocols! {
    FixedTarget in fixed_target,
    NonOverlapping in non_overlapping,
    Sliding in sliding,
    ByPosition in by_position,
    RepeatedText in repeated_text,
    Diagnostics in diagnostics,
    Task in task,
}

static REGISTRY: Registry<Protocol> = Registry::new("protocol");

pub fn registered() -> &'static [Protocol] {
    REGISTRY.entries()
}

/// Adds protocols that another crate defines, each with its name, before anything reads the list.
pub fn register(entries: Vec<(&'static str, &'static dyn Rules)>) -> Result<()> {
    let mut known: Vec<Protocol> = Protocol::OF_THE_WORKSPACE.to_vec();
    for &(name, rules) in &entries {
        check_name("protocol", name, known.iter().map(|protocol| protocol.name()))?;
        for key in rules.keys() {
            let keys = known.iter().flat_map(|protocol| protocol.keys());
            check_key(name, *key, keys)?;
        }
        known.push(Protocol::Registered(Registered::new(name, rules)));
    }
    REGISTRY.fill(known.split_off(Protocol::OF_THE_WORKSPACE.len()))
}

/// Checks a key of a protocol that is registered: it is one of the keys there are, or it has a name of its own.
fn check_key<'a>(protocol: &str, key: Key, mut known: impl Iterator<Item = &'a Key>) -> Result<()> {
    match known.find(|known| known.name == key.name) {
        Some(known) if *known == key => Ok(()),
        Some(_) => Err(Error::usage(format!(
            "the protocol `{protocol}` cannot be registered: another protocol has a key `{}` that means something else",
            key.name
        ))
        .hint("use that protocol's `Key`, or another name")),
        None => check_name("key", key.name, reserved_keys().chain(reserved_columns())),
    }
}

/// The keys of all protocols, each once, in the order of columns.
pub fn keys() -> Vec<Key> {
    distinct(Protocol::all().iter().flat_map(|protocol| protocol.keys()).copied())
}

impl Protocol {
    /// Every protocol there is: those of this workspace, then those that the program has registered.
    pub fn all() -> &'static [Self] {
        static ALL: LazyLock<Vec<Protocol>> =
            LazyLock::new(|| [Protocol::OF_THE_WORKSPACE, registered()].concat());
        &ALL
    }

    pub fn check_source(self, source: &Source<'_>) -> Result<()> {
        let asks = self.material() == crate::text::Material::Answers;
        if asks && !source.has_task() {
            return Err(Error::value(
                "protocol",
                format!("\"{self}\""),
                "the run was trained on a corpus and asks no task",
            )
            .hint("leave `protocol` out, or train on a `data.task`"));
        }
        if !asks && source.has_task() && !source.is_other_text() {
            return Err(Error::value(
                "protocol",
                format!("\"{self}\""),
                "the run was trained on a task, and that has answers to score",
            )
            .hint("use `protocol = \"task\"`, or name text with `corpus`"));
        }
        Ok(())
    }

    pub fn fill_in(self, block: &Given<'_>) -> Result<Keys> {
        self.check_shared(block)?;
        for key in keys() {
            let Some(value) = block.get(key) else { continue };
            if !self.keys().contains(&key) {
                let allowed = format!("it has no meaning for `protocol = \"{self}\"`");
                let hint = format!("remove it, or use a protocol that reads it: {}", owners(key).join(", "));
                return Err(block.error(key.name, value, allowed).hint(hint));
            }
            if key.unit == Unit::Count && value == 0 {
                return Err(block
                    .error(key.name, 0, "it must be 1 at least")
                    .hint("leave it out for the default"));
            }
        }
        if !self.keys().contains(&MAX_LENGTH) {
            return self.resolve(block);
        }
        let keys = block.keys.clone().with(MAX_LENGTH, block.max_length()?);
        self.resolve(&Given { keys: &keys, ..*block })
    }
}

#[allow(clippy::derivable_impls, reason = "the variants come from the list, which marks no default")]
impl Default for Protocol {
    fn default() -> Self {
        Self::FixedTarget
    }
}

impl Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Protocol {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Protocol {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        static NAMES: LazyLock<Vec<&str>> =
            LazyLock::new(|| Protocol::all().iter().map(|protocol| protocol.name()).collect());
        let name = String::deserialize(deserializer)?;
        let found = Self::all().iter().find(|protocol| protocol.name() == name);
        found.copied().ok_or_else(|| serde::de::Error::unknown_variant(&name, &NAMES))
    }
}

impl JsonSchema for Protocol {
    fn schema_name() -> Cow<'static, str> {
        "Protocol".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = |protocol: &Self| json!({ "description": protocol.description(), "type": "string", "const": protocol.name() });
        json_schema!({
            "description": "Which windows are read and which of their tokens are scored.",
            "oneOf": Self::all().iter().map(one).collect::<Vec<_>>(),
        })
    }
}

/// The protocols that read a key, in backticks.
fn owners(key: Key) -> Vec<String> {
    let owners = Protocol::all().iter().filter(|protocol| protocol.keys().contains(&key));
    owners.map(|protocol| format!("`{protocol}`")).collect()
}

/// The schemas of all keys, by their names; `Tokens` stands among the definitions.
pub(crate) fn key_schemas() -> impl Iterator<Item = (String, serde_json::Value)> {
    keys().into_iter().map(|key| {
        let description = format!("{}: {}", owners(key).join(", "), key.description);
        let schema = match key.unit {
            Unit::Tokens => json!({
                "description": description,
                "anyOf": [{ "$ref": "#/$defs/Tokens" }, { "type": "null" }],
            }),
            Unit::Count => json!({
                "description": description,
                "type": ["integer", "null"],
                "format": "uint",
                "minimum": 0,
            }),
        };
        (key.name.to_owned(), schema)
    })
}

impl Key {
    pub(crate) fn read<'de, A: MapAccess<'de>>(self, map: &mut A) -> std::result::Result<Tokens, A::Error> {
        match self.unit {
            Unit::Tokens => map.next_value(),
            Unit::Count => map.next_value().map(Tokens::Count),
        }
    }
}

impl Keys {
    /// Keys by the names that rows have.
    ///
    /// # Panics
    /// There is no such key.
    #[doc(hidden)]
    pub fn of(values: &[(&str, usize)]) -> Self {
        let known = keys();
        let key = |name: &str| *known.iter().find(|key| key.name == name).expect("a key of a protocol");
        values.iter().fold(Self::default(), |keys, (name, value)| keys.with(key(name), *value))
    }
}

/// Keys as they stand in a config: those that are given.
impl Serialize for Keys<Tokens> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for key in keys() {
            if let Some(value) = self.get(key.name) {
                map.serialize_entry(key.name, &value)?;
            }
        }
        map.end()
    }
}

pub(crate) mod fields {
    use super::{Deserialize, Deserializer, Keys, SerializeMap, Serializer, keys};
    use serde::de::Error as _;
    use serde_json::{Map, Value};

    pub(crate) fn serialize<S: Serializer>(values: &Keys, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for key in keys() {
            let value = values.get(key.name);
            if value.is_some() || key.always_in_rows {
                map.serialize_entry(key.name, &value)?;
            }
        }
        map.end()
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Keys, D::Error> {
        let (fields, mut values) = (Map::deserialize(deserializer)?, Keys::default());
        for key in keys() {
            let value = fields.get(key.name).unwrap_or(&Value::Null);
            if let Some(value) = Option::deserialize(value).map_err(D::Error::custom)? {
                values.set(key, value);
            }
        }
        Ok(values)
    }
}
