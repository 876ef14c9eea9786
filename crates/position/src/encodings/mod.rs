//! Every positional encoding, one file each. Adding one is one new file and one line here. A program outside of this
//! workspace adds its own with [`register`].

use crate::encoding::{Configure, Dimensions, Extrapolation, MAX_SIZE, Position, largest};
use crate::init::Init;
use crate::registry::{EncodingEntry, Kinds, RegisteredConfig, RegisteredEncoding};
use crate::tagged::{KindInfo, serialize_tagged, tagged, with_aliases, with_lengths};
use burn::module::Module;
use longwave_core::config::{kind_and_rest, read, unknown_kind};
use longwave_core::{Error, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

/// `position.kind` of a mixed stack.
pub(crate) const MIXED: &str = "mixed";

macro_rules! encodings {
    ($($Name:ident in $module:ident),* $(,)?) => {
        $(pub mod $module;)*

        /// The configuration of any one encoding, chosen by `kind`.
        #[derive(Clone, Debug, PartialEq)]
        pub enum EncodingConfig {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Name($module::Config),)*
            /// One that another crate defines.
            Registered(RegisteredConfig),
        }

        /// Any one encoding, with its parameters.
        #[derive(Module, Debug)]
        #[allow(clippy::large_enum_variant, reason = "one a model; its tensors are handles")]
        pub enum Encoding {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Name($module::$Name),)*
            /// One that another crate defines.
            Registered(RegisteredEncoding),
        }

        /// The encodings of this workspace, without those that a program registers.
        const OF_THE_WORKSPACE: &[KindInfo] = &[$(KindInfo {
            kind: <$module::Config as Configure>::KIND,
            description: <$module::Config as Configure>::DESCRIPTION,
            source: <$module::Config as Configure>::SOURCE,
            formula: <$module::Config as Configure>::FORMULA,
        },)*];

        /// Other names of the encodings of this workspace.
        const OTHER_NAMES: &[&[&str]] = &[$(<$module::Config as Configure>::ALIASES,)*];

        /// Every encoding with its default keys and with each of its [`VARIANTS`](Configure::VARIANTS), as TOML tables.
        pub fn every() -> Vec<String> {
            let mut every = Vec::new();
            $(
                let kind = format!("kind = '{}'", <$module::Config as Configure>::KIND);
                let variants = <$module::Config as Configure>::VARIANTS;
                every.extend(variants.iter().map(|keys| format!("{kind}\n{keys}")));
                every.push(kind);
            )*
            every.extend(registered().iter().flat_map(EncodingEntry::settings));
            every
        }

        impl EncodingConfig {
            /// Reads a kind, or a table with a `kind` and the keys of that encoding.
            ///
            /// # Errors
            /// An unknown kind or key, or a wrong type.
            pub fn from_value(value: &toml::Value, section: &str) -> Result<Self> {
                let (kind, rest) = kind_and_rest(value, section)?;
                $(if kind == <$module::Config as Configure>::KIND
                    || <$module::Config as Configure>::ALIASES.contains(&kind.as_str())
                {
                    return Ok(Self::$Name(read(&rest, section)?));
                })*
                if let Some(entry) = registered().iter().find(|entry| entry.is_called(&kind)) {
                    return Ok(Self::Registered(entry.read(&rest, section)?));
                }
                Err(unknown_kind(&format!("{section}.kind"), &kind, kinds().iter().map(|entry| entry.kind)))
            }

            /// The keys of this kind that are lengths; none where the kind is unknown.
            pub(crate) fn lengths(kind: &str) -> &'static [&'static str] {
                $(if kind == <$module::Config as Configure>::KIND
                    || <$module::Config as Configure>::ALIASES.contains(&kind)
                {
                    return <$module::Config as Configure>::LENGTHS;
                })*
                registered().iter().find(|entry| entry.is_called(kind)).map_or(&[], |entry| entry.lengths)
            }

            /// `position.kind`.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$Name(_) => <$module::Config as Configure>::KIND,)*
                    Self::Registered(config) => config.kind(),
                }
            }

            /// What happens past the training length, with the default keys.
            pub fn extrapolation(&self) -> Extrapolation {
                match self {
                    $(Self::$Name(_) => <$module::Config as Configure>::EXTRAPOLATION,)*
                    Self::Registered(config) => config.extrapolation(),
                }
            }

            /// Checks the values against the model's sizes.
            ///
            /// # Errors
            /// A value that is not allowed, named by its key below `section`.
            pub fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
                let keys = self.keys().unwrap_or_default();
                if let Some((key, value)) = largest(section, &keys).filter(|(_, value)| *value > MAX_SIZE as u64) {
                    return Err(Error::value(&key, value, format!("it must be at most {MAX_SIZE}")).hint(
                        "no encoding comes near it: `longwave schema` says what the key means and its default",
                    ));
                }
                match self {
                    $(Self::$Name(config) => config.validate(section, dimensions),)*
                    Self::Registered(config) => config.validate(section, dimensions),
                }
            }

            /// Builds the encoding with its initial parameters.
            pub fn build(&self, dimensions: &Dimensions, init: &Init) -> Encoding {
                match self {
                    $(Self::$Name(config) => Encoding::$Name(config.build(dimensions, init)),)*
                    Self::Registered(config) => Encoding::Registered(config.build(dimensions, init)),
                }
            }

            /// Tokens of the segment before that every layer also attends to.
            pub fn memory(&self) -> usize {
                match self {
                    $(Self::$Name(config) => config.memory(),)*
                    Self::Registered(config) => config.memory(),
                }
            }

            /// The least distance that reads the farthest entry of a table, with the key that says so.
            pub fn farthest_entry(&self) -> Option<(&'static str, usize)> {
                match self {
                    $(Self::$Name(config) => config.farthest_entry(),)*
                    Self::Registered(config) => config.farthest_entry(),
                }
            }

            /// The keys without the kind.
            pub(crate) fn keys(&self) -> serde_json::Result<serde_json::Value> {
                match self {
                    $(Self::$Name(config) => serde_json::to_value(config),)*
                    Self::Registered(config) => config.keys(),
                }
            }

            /// One schema for each encoding.
            pub(crate) fn schemas(generator: &mut SchemaGenerator) -> Vec<Schema> {
                let mut schemas = vec![$(with_aliases(
                    with_lengths::<$module::Config>(tagged::<$module::Config>(
                        <$module::Config as Configure>::KIND,
                        <$module::Config as Configure>::DESCRIPTION,
                        generator,
                    )),
                    <$module::Config as Configure>::KIND,
                    <$module::Config as Configure>::ALIASES,
                ),)*];
                schemas.extend(registered().iter().map(|entry| entry.schema(generator)));
                schemas
            }
        }

        impl Encoding {
            /// `position.kind`.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$Name(_) => <$module::Config as Configure>::KIND,)*
                    Self::Registered(encoding) => encoding.kind(),
                }
            }
        }

        impl Deref for Encoding {
            type Target = dyn Position;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Self::$Name(encoding) => encoding,)*
                    Self::Registered(encoding) => encoding.position(),
                }
            }
        }

        impl DerefMut for Encoding {
            fn deref_mut(&mut self) -> &mut Self::Target {
                match self {
                    $(Self::$Name(encoding) => encoding,)*
                    Self::Registered(encoding) => encoding.position_mut(),
                }
            }
        }
    };
}

encodings! {
    NoPosition in none,
    Learned in learned,
    Sinusoidal in sinusoidal,
    Rope in rope,
    Alibi in alibi,
    HardAlibi in hard_alibi,
    Kerple in kerple,
    T5 in t5,
    Sandwich in sandwich,
    Cpb in cpb,
    Fire in fire,
    Fox in fox,
    Xpos in xpos,
    Pope in pope,
    Fope in fope,
    Index in index,
    Multiplicative in multiplicative,
    Radix in radix,
    Recursive in recursive,
    CausalConv in causal_conv,
    Abacus in abacus,
    Floater in floater,
    ComplexOrder in complex_order,
    Shaw in shaw,
    TransformerXl in transformer_xl,
    Tupe in tupe,
    Deberta in deberta,
    Cope in cope,
    Dape in dape,
    ScaleInvariant in scale_invariant,
    Formulas in formula,
    SinkLogit in sink_logit,
    SelectiveRope in selective_rope,
    Path in path,
}

static KINDS: Kinds<EncodingEntry> = Kinds::new("encoding", OF_THE_WORKSPACE);

/// The encodings that the program has registered.
pub fn registered() -> &'static [EncodingEntry] {
    KINDS.registered()
}

/// Every encoding there is: those of this workspace, then those that the program has registered.
pub fn kinds() -> &'static [KindInfo] {
    KINDS.all()
}

/// Adds encodings that another crate defines, before anything reads the list.
///
/// # Errors
/// A name is taken or not allowed, a config cannot be read from its `kind` alone, or the list was read before.
pub fn register(entries: Vec<EncodingEntry>) -> Result<()> {
    let other_names: Vec<&str> = OTHER_NAMES.iter().copied().flatten().chain([&MIXED]).copied().collect();
    KINDS.register(entries, &other_names)
}

impl Serialize for EncodingConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serialize_tagged(self.kind(), self.keys(), serializer)
    }
}

impl JsonSchema for EncodingConfig {
    fn schema_name() -> Cow<'static, str> {
        "EncodingConfig".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let schemas = Self::schemas(generator);
        json_schema!({ "description": "A positional encoding, chosen by `kind`.", "oneOf": schemas })
    }
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_unique_and_documented() {
        let mut names: Vec<_> = kinds().iter().map(|entry| entry.kind).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), kinds().len());
        for KindInfo { kind, description, source, formula } in kinds() {
            assert!([description, source, formula].iter().all(|text| !text.is_empty()), "{kind}");
        }
    }

    #[test]
    fn another_name_reads_as_the_kind() {
        let read = |kind: &str| EncodingConfig::from_value(&toml::Value::String(kind.into()), "position");
        assert_eq!(read("xlnet").unwrap(), read("transformer_xl").unwrap());
        assert_eq!(read("xlnet").unwrap().kind(), "transformer_xl");
        let schema = serde_json::to_string(&schemars::schema_for!(EncodingConfig)).unwrap();
        assert!(schema.contains("[\"transformer_xl\",\"xlnet\"]"));
    }

    #[test]
    fn a_config_survives_the_round_trip() {
        for entry in kinds() {
            let config =
                EncodingConfig::from_value(&toml::Value::String(entry.kind.into()), "position").unwrap();
            let written = toml::Value::try_from(&config).unwrap();
            assert_eq!(EncodingConfig::from_value(&written, "position").unwrap(), config, "{}", entry.kind);
        }
    }

    #[test]
    fn a_wrong_kind_or_key_is_named() {
        let read = |text: &str| {
            let table: toml::Table = text.parse().unwrap();
            EncodingConfig::from_value(&toml::Value::Table(table), "position").unwrap_err().to_string()
        };
        assert!(read("kind = \"ropee\"").ends_with("hint: did you mean `rope`?"));
        assert!(read("kind = \"rope\"\nbasis = 3.0").starts_with("unknown key `position.basis`"));
    }
}
