//! Any one extension.

use super::{ConfigKeys, Entry, read};
use crate::extension::{Example, Extend, Lengths};
use crate::extensions::common::KEYS;
use crate::reading::Reading;
use crate::tagged::{KindInfo, tagged};
use crate::tokens::Tokens;
use longwave_core::Result;
use longwave_core::registry::check_name;
use schemars::{Schema, SchemaGenerator};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use toml::Table;

#[derive(Clone, Copy, Debug)]
pub struct ExtensionEntry {
    /// Its name, description, source and formula.
    pub info: KindInfo,
    /// Whether `temperature` is a key of its own.
    pub(crate) own_temperature: bool,
    read: fn(&Table, &str) -> Result<Extension>,
    schema: fn(&mut SchemaGenerator) -> Schema,
    examples: fn(usize, Lengths) -> Vec<Example>,
}

impl ExtensionEntry {
    /// The extension of a type, which is its keys.
    pub fn of<E: Extend + ConfigKeys>() -> Self {
        Self {
            info: KindInfo {
                kind: E::KIND,
                description: E::DESCRIPTION,
                source: E::SOURCE,
                formula: E::FORMULA,
            },
            own_temperature: E::OWN_TEMPERATURE,
            read: |table, section| {
                let extension: E = read(table, section, &KEYS)?;
                extension.validate(section)?;
                Ok(Extension(Arc::new(extension)))
            },
            schema: |generator| tagged::<E>(E::KIND, E::DESCRIPTION, generator),
            examples: E::examples,
        }
    }

    /// Reads and checks its own keys.
    pub(crate) fn read(&self, table: &Table, section: &str) -> Result<Extension> {
        (self.read)(table, section)
    }

    /// The schema of its own keys.
    pub(crate) fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        (self.schema)(generator)
    }

    /// Its examples, as [`Extend::examples`].
    pub(crate) fn examples(&self, bands: usize, lengths: Lengths) -> Vec<Example> {
        (self.examples)(bands, lengths)
    }
}

impl Entry for ExtensionEntry {
    fn info(&self) -> KindInfo {
        self.info
    }

    fn check(&self, known: &[&str]) -> Result<()> {
        check_name("extension", self.info.kind, known.iter().copied())?;
        super::check_words("extension", &self.info)
    }
}

/// What an extension of any type can do; see [`Extend`].
trait AnyExtension: Debug + Any + Send + Sync {
    fn kind(&self) -> &'static str;
    fn keys(&self) -> serde_json::Result<serde_json::Value>;
    fn window_any(&self) -> Option<Tokens>;
    fn apply_any(&self, reading: &mut Reading, lengths: Lengths) -> Result<()>;
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<E: Extend + ConfigKeys> AnyExtension for E {
    fn kind(&self) -> &'static str {
        E::KIND
    }

    fn keys(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::to_value(self)
    }

    fn window_any(&self) -> Option<Tokens> {
        self.window()
    }

    fn apply_any(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        self.apply(reading, lengths)
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<E>() == Some(self)
    }
}

/// Any one extension with its own keys.
#[derive(Clone, Debug)]
pub struct Extension(Arc<dyn AnyExtension>);

impl PartialEq for Extension {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(&*other.0)
    }
}

impl Extension {
    pub(crate) fn kind(&self) -> &'static str {
        self.0.kind()
    }

    pub(crate) fn keys(&self) -> serde_json::Result<serde_json::Value> {
        self.0.keys()
    }

    pub(crate) fn window(&self) -> Option<Tokens> {
        self.0.window_any()
    }

    pub(crate) fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        self.0.apply_any(reading, lengths)
    }
}
