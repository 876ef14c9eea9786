//! The configuration of any one encoding.

use super::{ConfigKeys, Encoding, Entry, check_own_keys, keys_of, read, written};
use crate::encoding::{Configure, Dimensions, Extrapolation, MAX_SIZE, Position, largest};
use crate::init::Init;
use crate::stack::ENTRY_KEYS;
use crate::tagged::{KindInfo, serialize_tagged, tagged, with_aliases, with_lengths};
use burn::module::Module;
use longwave_core::registry::check_name;
use longwave_core::{Error, Result};
use schemars::{Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use std::any::Any;
use std::fmt::Debug;
use std::ops::Deref;
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
    keys: fn() -> &'static [String],
    /// Reads its keys at a place of the file.
    pub(crate) read: fn(&Table, &str) -> Result<EncodingConfig>,
    /// The schema of its table.
    pub(crate) schema: fn(&mut SchemaGenerator) -> Schema,
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
            keys: keys_of::<C>,
            read: |table, section| Ok(EncodingConfig(Arc::new(read::<C>(table, section, &[])?))),
            schema: |generator| {
                let schema = tagged::<C>(C::KIND, C::DESCRIPTION, generator);
                with_aliases(with_lengths::<C>(schema), C::KIND, C::ALIASES)
            },
        }
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
        let taken = ENTRY_KEYS.into_iter().chain(["kind"]);
        check_own_keys("encoding", kind, (self.keys)(), taken, "every entry of `mixed.layers`")?;
        (self.read)(&Table::new(), "position").map(drop).map_err(|error| {
            Error::usage(format!(
                "the encoding `{kind}` cannot be registered: its name alone is no config of it ({})",
                error.message()
            ))
            .hint("give every key a default: `#[serde(default)]`")
        })
    }
}

/// What a config of any type can do; see [`Configure`].
pub trait AnyConfig: Debug + Any + Send + Sync {
    /// `position.kind`.
    fn kind(&self) -> &'static str;
    /// What happens past the training length, with the default keys.
    fn extrapolation(&self) -> Extrapolation;
    /// Checks the values against the model's sizes.
    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()>;
    /// Builds the encoding with its initial parameters.
    fn build(&self, dimensions: &Dimensions, init: &Init) -> Encoding;
    /// As [`Configure::memory`].
    fn memory(&self) -> usize;
    /// As [`Configure::farthest_entry`].
    fn farthest_entry(&self) -> Option<(&'static str, usize)>;
    /// The keys without the kind.
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

    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        let keys = self.keys().unwrap_or_default();
        if let Some((key, value)) = largest(section, &keys).filter(|(_, value)| *value > MAX_SIZE as u64) {
            return Err(Error::value(&key, value, format!("it must be at most {MAX_SIZE}")).hint(
                "no encoding comes near it: `longwave schema` says what the key means and its default",
            ));
        }
        Configure::validate(self, section, dimensions)
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Encoding {
        Encoding::new(C::KIND, Configure::build(self, dimensions, init))
    }

    fn memory(&self) -> usize {
        Configure::memory(self)
    }

    fn farthest_entry(&self) -> Option<(&'static str, usize)> {
        Configure::farthest_entry(self)
    }

    fn keys(&self) -> serde_json::Result<serde_json::Value> {
        written(self)
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
}

impl Deref for EncodingConfig {
    type Target = dyn AnyConfig;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl Serialize for EncodingConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serialize_tagged(self.kind(), self.keys(), serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encodings::none::NoPosition;

    keys! {
        struct Windowed {
            /// Would be read as the window of a layer in a mixed stack.
            window: usize = 8,
        }
    }

    impl Configure for Windowed {
        type Encoding = NoPosition;
        const KIND: &'static str = "windowed";
        const DESCRIPTION: &'static str = "nothing";
        const SOURCE: &'static str = "a test";
        const FORMULA: &'static str = "a_{mn} = q_m · k_n / √d";
        const EXTRAPOLATION: Extrapolation = Extrapolation::Supported("defined");

        fn build(&self, _dimensions: &Dimensions, _init: &Init) -> NoPosition {
            NoPosition {}
        }
    }

    #[test]
    fn a_key_that_a_mixed_stack_reads_is_refused() {
        let error = EncodingEntry::of::<Windowed>().check(&[]).unwrap_err();
        let expected = "the encoding `windowed` cannot be registered: its key `window` is one that every entry of \
                        `mixed.layers` has";
        assert_eq!(error.message(), expected);
        assert!(error.hint_text().is_some());
    }
}
