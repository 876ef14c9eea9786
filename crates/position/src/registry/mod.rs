//! What the lists of encodings and extensions know of an entry without its type.
//!
//! A program adds entries of its own at its start ([`encodings::register`](crate::encodings::register),
//! [`extensions::register`](crate::extensions::register)). Configs, schema, `inspect`, studies and laws know them like those of
//! this workspace.

mod encoding;
mod extension;
mod module;

pub use encoding::{EncodingConfig, EncodingEntry};
pub use extension::{Extension, ExtensionEntry};
pub use module::Encoding;

use crate::tagged::KindInfo;
use longwave_core::registry::{Registry, check_keys};
use longwave_core::{Error, Result};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::TypeId;
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};
use toml::Table;

pub(crate) trait Entry {
    /// Its name, description, source and formula.
    fn info(&self) -> KindInfo;

    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// Checks what its list relies on; `known` are the names that are taken.
    fn check(&self, known: &[&str]) -> Result<()>;
}

/// One list: the entries of this workspace, then those that a program registers.
#[derive(Debug)]
pub(crate) struct Kinds<E: 'static> {
    of_the_workspace: fn() -> Vec<E>,
    registry: Registry<E>,
    all: OnceLock<(Vec<E>, Vec<KindInfo>)>,
}

impl<E: Entry + Clone> Kinds<E> {
    /// A list with the entries of this workspace; `what` names one entry in messages.
    pub(crate) const fn new(what: &'static str, of_the_workspace: fn() -> Vec<E>) -> Self {
        Self { of_the_workspace, registry: Registry::new(what), all: OnceLock::new() }
    }

    /// The entries that the program has registered.
    pub(crate) fn registered(&self) -> &[E] {
        self.registry.entries()
    }

    fn all(&self) -> &(Vec<E>, Vec<KindInfo>) {
        self.all.get_or_init(|| {
            let mut entries = (self.of_the_workspace)();
            entries.extend_from_slice(self.registered());
            let infos = entries.iter().map(Entry::info).collect();
            (entries, infos)
        })
    }

    /// Every entry.
    pub(crate) fn entries(&self) -> &[E] {
        &self.all().0
    }

    /// Names, descriptions, sources and formulas of every entry.
    pub(crate) fn infos(&self) -> &[KindInfo] {
        &self.all().1
    }

    /// The entry of this name.
    pub(crate) fn find(&self, name: &str) -> Option<&E> {
        self.entries().iter().find(|entry| entry.info().kind == name || entry.aliases().contains(&name))
    }

    /// Adds entries, before anything reads the list; `other_names` are names beside the kinds that are taken.
    pub(crate) fn register(&self, entries: Vec<E>, other_names: &[&str]) -> Result<()> {
        let mut known = other_names.to_vec();
        let names =
            |entry: &E| entry.aliases().iter().copied().chain([entry.info().kind]).collect::<Vec<_>>();
        known.extend((self.of_the_workspace)().iter().flat_map(names));
        for entry in &entries {
            entry.check(&known)?;
            known.extend(names(entry));
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

/// Reads keys. One that the type does not have is an error, also where the type forgets `deny_unknown_fields`. Keys `beside` its own are
/// read elsewhere; messages list them too.
fn read<K: ConfigKeys>(table: &Table, section: &str, beside: &[&str]) -> Result<K> {
    let mut allowed: Vec<&str> = keys_of::<K>().iter().map(String::as_str).collect();
    allowed.extend(beside.iter().filter(|key| !allowed.contains(key)).copied().collect::<Vec<_>>());
    check_keys(section, table, &allowed)?;
    longwave_core::config::read(table, section)
}

/// The keys of a type, from its schema. Making one takes longer than reading a table, so each is made once.
fn keys_of<K: ConfigKeys>() -> &'static [String] {
    static KNOWN: LazyLock<Mutex<HashMap<TypeId, &'static [String]>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(TypeId::of::<K>()).or_insert_with(|| {
        let schema = K::json_schema(&mut SchemaGenerator::default());
        let properties = schema.get("properties").and_then(serde_json::Value::as_object);
        properties.into_iter().flatten().map(|(key, _)| key.clone()).collect::<Vec<_>>().leak()
    })
}

/// The keys that have a value.
fn written(keys: &impl ConfigKeys) -> serde_json::Result<serde_json::Value> {
    let mut keys = serde_json::to_value(keys)?;
    if let Some(keys) = keys.as_object_mut() {
        keys.retain(|_, value| !value.is_null());
    }
    Ok(keys)
}

/// Checks that no key of an entry is `taken`: one that is read before its own keys are never reaches it. `whose` says who has it.
fn check_own_keys<'a>(
    what: &str,
    kind: &str,
    own: &[String],
    taken: impl IntoIterator<Item = &'a str>,
    whose: &str,
) -> Result<()> {
    match taken.into_iter().find(|key| own.iter().any(|own| own == key)) {
        None => Ok(()),
        Some(key) => Err(Error::usage(format!(
            "the {what} `{kind}` cannot be registered: its key `{key}` is one that {whose} has"
        ))
        .hint("choose another name for the key: no value would reach it under this one")),
    }
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
