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
use longwave_core::registry::{Registry, check_keys};
use longwave_core::{Error, Result};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::OnceLock;
use toml::Table;

/// An entry of one of the two lists.
pub(crate) trait Entry {
    /// Its name, description, source and formula.
    fn info(&self) -> KindInfo;

    /// Its other names.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// Checks what its list relies on; `known` are the names that are taken.
    ///
    /// # Errors
    /// A name is taken or not allowed, or its config cannot be read from its `kind` alone.
    fn check(&self, known: &[&str]) -> Result<()>;
}

/// The names, descriptions, sources and formulas of one list: those of this workspace, then those that a program registers.
#[derive(Debug)]
pub(crate) struct Kinds<E> {
    of_the_workspace: &'static [KindInfo],
    registry: Registry<E>,
    all: OnceLock<Vec<KindInfo>>,
}

impl<E: Entry> Kinds<E> {
    /// A list with the entries of this workspace; `what` names one entry in messages.
    pub(crate) const fn new(what: &'static str, of_the_workspace: &'static [KindInfo]) -> Self {
        Self { of_the_workspace, registry: Registry::new(what), all: OnceLock::new() }
    }

    /// The entries that the program has registered.
    pub(crate) fn registered(&self) -> &[E] {
        self.registry.entries()
    }

    /// Every entry.
    pub(crate) fn all(&self) -> &[KindInfo] {
        self.all.get_or_init(|| {
            let registered = self.registered().iter().map(Entry::info);
            self.of_the_workspace.iter().copied().chain(registered).collect()
        })
    }

    /// Adds entries, before anything reads the list; `other_names` are names beside the kinds that are taken.
    ///
    /// # Errors
    /// As [`Entry::check`], or the list was read before.
    pub(crate) fn register(&self, entries: Vec<E>, other_names: &[&str]) -> Result<()> {
        let kinds = self.of_the_workspace.iter().map(|entry| entry.kind);
        let mut known: Vec<&str> = kinds.chain(other_names.iter().copied()).collect();
        for entry in &entries {
            entry.check(&known)?;
            known.extend(entry.aliases().iter().chain([&entry.info().kind]));
        }
        self.registry.fill(entries)
    }
}

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

/// Lists, pictures and the reference show a line, a source and a formula for every entry.
fn check_words(what: &str, info: &KindInfo) -> Result<()> {
    if [info.description, info.source, info.formula].iter().any(|text| text.is_empty()) {
        return Err(Error::usage(format!(
            "the {what} `{}` cannot be registered without a `DESCRIPTION`, a `SOURCE` and a `FORMULA`",
            info.kind
        ))
        .hint(
            "`longwave inspect` shows them: one line; a paper, a post or your name; what it computes, in at most four \
             lines",
        ));
    }
    Ok(())
}
