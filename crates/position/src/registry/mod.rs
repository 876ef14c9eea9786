//! Encodings and extensions that another crate defines: what the two lists know of one without its type.
//!
//! A program registers them at its start ([`encodings::register`](crate::encodings::register),
//! [`extensions::register`](crate::extensions::register)). Configs, schema, `inspect`, studies and laws then know them like
//! those of this workspace.

mod encoding;
mod extension;
mod module;

pub use encoding::{EncodingEntry, RegisteredConfig};
pub use extension::{ExtensionEntry, RegisteredExtension};
pub use module::RegisteredEncoding;

use crate::tagged::KindInfo;
use longwave_core::registry::check_keys;
use longwave_core::{Error, Result};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use toml::Table;

/// The keys of an encoding or an extension as a type: read from a config, written into the run's, described by the schema.
/// Every type that derives these traits is one.
pub trait ConfigKeys:
    Clone + Debug + PartialEq + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
}

impl<K> ConfigKeys for K where
    K: Clone + Debug + PartialEq + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
}

/// Reads keys. One that the type does not have is an error, also where the type forgets `deny_unknown_fields`.
fn read<K: ConfigKeys>(table: &Table, section: &str) -> Result<K> {
    let schema = K::json_schema(&mut SchemaGenerator::default());
    let properties = schema.get("properties").and_then(serde_json::Value::as_object);
    let allowed: Vec<&str> = properties.into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    check_keys(section, table, &allowed)?;
    longwave_core::config::read(table, section)
}

/// Lists and the reference show a line and a source for every entry.
fn check_words(what: &str, info: &KindInfo) -> Result<()> {
    if info.description.is_empty() || info.source.is_empty() {
        return Err(Error::usage(format!(
            "the {what} `{}` cannot be registered without a `DESCRIPTION` and a `SOURCE`",
            info.kind
        ))
        .hint("lists show both: one line, and a paper, a post or your name"));
    }
    Ok(())
}
