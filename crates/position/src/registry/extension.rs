//! Any one extension.

use super::{ConfigKeys, Entry, check_own_keys, keys_of, read, written};
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
use std::ops::Deref;
use std::sync::Arc;
use toml::Table;

#[derive(Clone, Copy, Debug)]
pub struct ExtensionEntry {
    /// Its name, description, source and formula.
    pub info: KindInfo,
    /// Whether `temperature` is a key of its own.
    pub(crate) own_temperature: bool,
    /// Its own keys.
    keys: fn() -> &'static [String],
    /// Reads and checks its own keys at a place of the file.
    pub(crate) read: fn(&Table, &str) -> Result<Extension>,
    /// The schema of its own keys.
    pub(crate) schema: fn(&mut SchemaGenerator) -> Schema,
    /// As [`Extend::examples`].
    pub(crate) examples: fn(usize, Lengths) -> Vec<Example>,
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
            keys: keys_of::<E>,
            read: |table, section| {
                let extension: E = read(table, section, &KEYS)?;
                extension.validate(section)?;
                Ok(Extension(Arc::new(extension)))
            },
            schema: |generator| tagged::<E>(E::KIND, E::DESCRIPTION, generator),
            examples: E::examples,
        }
    }
}

impl Entry for ExtensionEntry {
    fn info(&self) -> KindInfo {
        self.info
    }

    fn check(&self, known: &[&str]) -> Result<()> {
        check_name("extension", self.info.kind, known.iter().copied())?;
        super::check_words("extension", &self.info)?;
        let common = KEYS.into_iter().filter(|key| *key != "temperature" || !self.own_temperature);
        check_own_keys("extension", self.info.kind, (self.keys)(), common.chain(["kind"]), "every extension")
    }
}

/// What an extension of any type can do; see [`Extend`].
pub trait AnyExtension: Debug + Any + Send + Sync {
    fn kind(&self) -> &'static str;
    /// The keys without the kind.
    fn keys(&self) -> serde_json::Result<serde_json::Value>;
    fn window(&self) -> Option<Tokens>;
    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()>;
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<E: Extend + ConfigKeys> AnyExtension for E {
    fn kind(&self) -> &'static str {
        E::KIND
    }

    fn keys(&self) -> serde_json::Result<serde_json::Value> {
        written(self)
    }

    fn window(&self) -> Option<Tokens> {
        Extend::window(self)
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        Extend::apply(self, reading, lengths)
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

impl Deref for Extension {
    type Target = dyn AnyExtension;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    keys! {
        struct Warm {
            /// Would be read as the temperature that every extension has.
            temperature: f64 = 1.0,
        }

        struct WarmByItself {
            /// In the place of that.
            temperature: f64 = 1.0,
        }

        struct Deep {
            /// Would be read as the layers that an extension changes.
            layers: usize = 1,
        }
    }

    macro_rules! does_nothing {
        ($($Keys:ident, $own_temperature:literal;)*) => {$(
            impl Extend for $Keys {
                const KIND: &'static str = "does_nothing";
                const DESCRIPTION: &'static str = "nothing";
                const SOURCE: &'static str = "a test";
                const FORMULA: &'static str = "a'_{mn} = a_{mn}";
                const OWN_TEMPERATURE: bool = $own_temperature;

                fn apply(&self, _reading: &mut Reading, _lengths: Lengths) -> Result<()> {
                    Ok(())
                }
            }
        )*};
    }

    does_nothing! {
        Warm, false;
        WarmByItself, true;
        Deep, false;
    }

    #[test]
    fn a_key_that_every_extension_has_is_refused() {
        let wrong = [(ExtensionEntry::of::<Warm>(), "temperature"), (ExtensionEntry::of::<Deep>(), "layers")];
        for (entry, key) in wrong {
            let error = entry.check(&[]).unwrap_err();
            let expected = format!(
                "the extension `does_nothing` cannot be registered: its key `{key}` is one that every extension has"
            );
            assert_eq!(error.message(), expected);
            assert!(error.hint_text().is_some());
        }
        ExtensionEntry::of::<WarmByItself>().check(&[]).unwrap();
    }
}
