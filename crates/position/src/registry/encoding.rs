//! The configuration of any one encoding.

use super::{ConfigKeys, Encoding, Entry, read};
use crate::encoding::{Configure, Dimensions, Extrapolation, MAX_SIZE, Position, largest};
use crate::init::Init;
use crate::tagged::{KindInfo, serialize_tagged, tagged, with_aliases, with_lengths};
use burn::module::Module;
use longwave_core::registry::check_name;
use longwave_core::{Error, Result};
use schemars::{Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use toml::Table;

#[derive(Clone, Copy, Debug)]
pub struct EncodingEntry {
    /// Its name, description, source and formula.
    pub info: KindInfo,
    /// Other names that `position.kind` may have.
    aliases: &'static [&'static str],
    /// Keys that are lengths.
    pub(crate) lengths: &'static [&'static str],
    variants: &'static [&'static str],
    pub(crate) pytorch: Option<&'static str>,
    read: fn(&Table, &str) -> Result<EncodingConfig>,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

impl EncodingEntry {
    /// The encoding that a configuration builds.
    pub fn of<C>() -> Self
    where
        C: Configure + ConfigKeys,
        C::Encoding: Position + Module + Sync + 'static,
    {
        Self {
            info: KindInfo {
                kind: C::KIND,
                description: C::DESCRIPTION,
                source: C::SOURCE,
                formula: C::FORMULA,
            },
            aliases: C::ALIASES,
            lengths: C::LENGTHS,
            variants: C::VARIANTS,
            pytorch: C::PYTORCH,
            read: |table, section| Ok(EncodingConfig(Arc::new(read::<C>(table, section, &[])?))),
            schema: |generator| {
                let schema = tagged::<C>(C::KIND, C::DESCRIPTION, generator);
                with_aliases(with_lengths::<C>(schema), C::KIND, C::ALIASES)
            },
        }
    }

    /// Reads its keys.
    pub(crate) fn read(&self, table: &Table, section: &str) -> Result<EncodingConfig> {
        (self.read)(table, section)
    }

    /// The schema of its table.
    pub(crate) fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        (self.schema)(generator)
    }

    /// Its default keys, then each of its variants, as TOML tables.
    pub fn settings(&self) -> Vec<String> {
        let kind = format!("kind = '{}'", self.info.kind);
        let variants = self.variants.iter().map(|keys| format!("{kind}\n{keys}"));
        std::iter::once(kind.clone()).chain(variants).collect()
    }
}

impl Entry for EncodingEntry {
    fn info(&self) -> KindInfo {
        self.info
    }

    fn aliases(&self) -> &'static [&'static str] {
        self.aliases
    }

    fn check(&self, known: &[&str]) -> Result<()> {
        let kind = self.info.kind;
        for name in std::iter::once(&kind).chain(self.aliases) {
            check_name("encoding", name, known.iter().copied())?;
        }
        super::check_words("encoding", &self.info)?;
        self.read(&Table::new(), "position").map(drop).map_err(|error| {
            Error::usage(format!(
                "the encoding `{kind}` cannot be registered: its name alone is no config of it ({})",
                error.message()
            ))
            .hint("give every key a default: `#[serde(default)]`")
        })
    }
}

/// What a config of any type can do; see [`Configure`].
trait AnyConfig: Debug + Any + Send + Sync {
    fn kind(&self) -> &'static str;
    fn extrapolation(&self) -> Extrapolation;
    fn validate_any(&self, section: &str, dimensions: &Dimensions) -> Result<()>;
    fn build_any(&self, dimensions: &Dimensions, init: &Init) -> Encoding;
    fn memory_any(&self) -> usize;
    fn farthest_entry_any(&self) -> Option<(&'static str, usize)>;
    fn keys(&self) -> serde_json::Result<serde_json::Value>;
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<C> AnyConfig for C
where
    C: Configure + ConfigKeys,
    C::Encoding: Position + Module + Sync + 'static,
{
    fn kind(&self) -> &'static str {
        C::KIND
    }

    fn extrapolation(&self) -> Extrapolation {
        C::EXTRAPOLATION
    }

    fn validate_any(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        self.validate(section, dimensions)
    }

    fn build_any(&self, dimensions: &Dimensions, init: &Init) -> Encoding {
        Encoding::new(C::KIND, self.build(dimensions, init))
    }

    fn memory_any(&self) -> usize {
        self.memory()
    }

    fn farthest_entry_any(&self) -> Option<(&'static str, usize)> {
        self.farthest_entry()
    }

    fn keys(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::to_value(self)
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<C>() == Some(self)
    }
}

/// The configuration of any one encoding, chosen by `kind`.
#[derive(Clone, Debug)]
pub struct EncodingConfig(Arc<dyn AnyConfig>);

impl PartialEq for EncodingConfig {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(&*other.0)
    }
}

impl EncodingConfig {
    /// The configuration as its type; `None` where it is of another.
    pub fn get<C: 'static>(&self) -> Option<&C> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// `position.kind`.
    pub fn kind(&self) -> &'static str {
        self.0.kind()
    }

    /// What happens past the training length, with the default keys.
    pub fn extrapolation(&self) -> Extrapolation {
        self.0.extrapolation()
    }

    /// Checks the values against the model's sizes.
    pub fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        let keys = self.keys().unwrap_or_default();
        if let Some((key, value)) = largest(section, &keys).filter(|(_, value)| *value > MAX_SIZE as u64) {
            return Err(Error::value(&key, value, format!("it must be at most {MAX_SIZE}")).hint(
                "no encoding comes near it: `longwave schema` says what the key means and its default",
            ));
        }
        self.0.validate_any(section, dimensions)
    }

    /// Builds the encoding with its initial parameters.
    pub fn build(&self, dimensions: &Dimensions, init: &Init) -> Encoding {
        self.0.build_any(dimensions, init)
    }

    /// Tokens of the segment before that every layer also attends to.
    pub fn memory(&self) -> usize {
        self.0.memory_any()
    }

    /// The least distance that reads the farthest entry of a table, with the key that says so.
    pub fn farthest_entry(&self) -> Option<(&'static str, usize)> {
        self.0.farthest_entry_any()
    }

    /// The keys without the kind.
    pub(crate) fn keys(&self) -> serde_json::Result<serde_json::Value> {
        self.0.keys()
    }
}

impl Serialize for EncodingConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serialize_tagged(self.kind(), self.keys(), serializer)
    }
}
