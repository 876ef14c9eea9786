//! Every positional encoding, one file each. Adding one is one new file and one line here.

mod dispatch;
mod lengths;
mod serialization;

use crate::encoding::{Dimensions, MAX_SIZE, Position};
use crate::init::Init;
use burn::module::Module;
pub(crate) use lengths::in_tokens;
use lengths::with_lengths;
use longwave_core::config::{kind_and_rest, read, unknown_kind};
use longwave_core::{Error, Result};
use schemars::{Schema, SchemaGenerator};
use serialization::with_aliases;
pub(crate) use serialization::{serialize_tagged, tagged};

/// The configuration of one encoding: what its file must say.
pub trait Configure: Sized {
    /// The encoding it builds.
    type Encoding;
    /// `position.kind` in a config.
    const KIND: &'static str;
    /// One line for the list of encodings.
    const DESCRIPTION: &'static str;
    /// Where it was published.
    const SOURCE: &'static str;
    /// What happens past the training length, with the default keys.
    const EXTRAPOLATION: Extrapolation;
    /// Other names that `position.kind` may have; a resolved config has `KIND`.
    const ALIASES: &'static [&'static str] = &[];
    /// Keys that are lengths: in a config they may be multiples of the training length, such as `"2L"`.
    const LENGTHS: &'static [&'static str] = &[];
    /// Keys that change the formula, each in TOML: tests cover each of them.
    const VARIANTS: &'static [&'static str] = &[];

    /// Checks the values against the model's sizes.
    ///
    /// # Errors
    /// A value that is not allowed, named by its key below `section`.
    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()>;

    /// Builds the encoding with its initial parameters; the config is valid.
    fn build(&self, dimensions: &Dimensions, init: &Init) -> Self::Encoding;

    /// Tokens of the previous segment that every layer also attends to; see [`Position::memory`].
    fn memory(&self) -> usize {
        0
    }
}

/// What happens past the training length, in one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extrapolation {
    /// The encoding is defined there.
    Supported(&'static str),
    /// The encoding has no value there: reading the text is an error.
    Rejected(&'static str),
}

/// A line of the list of encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindInfo {
    /// `position.kind`.
    pub kind: &'static str,
    /// What it does, in one line.
    pub description: &'static str,
    /// Where it was published.
    pub source: &'static str,
}

macro_rules! encodings {
    ($($Name:ident in $module:ident),* $(,)?) => {
        $(pub mod $module;)*

        /// The configuration of any one encoding, chosen by `kind`.
        #[derive(Clone, Debug, PartialEq)]
        pub enum EncodingConfig {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Name($module::Config),)*
        }

        /// Any one encoding, with its parameters.
        #[derive(Module, Debug)]
        #[allow(clippy::large_enum_variant, reason = "one a model; its tensors are handles")]
        pub enum Encoding {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Name($module::$Name),)*
        }

        /// Every encoding there is.
        pub const ENCODINGS: &[KindInfo] = &[$(KindInfo {
            kind: <$module::Config as Configure>::KIND,
            description: <$module::Config as Configure>::DESCRIPTION,
            source: <$module::Config as Configure>::SOURCE,
        },)*];

        /// Every encoding with its default keys and with each of its [`VARIANTS`](Configure::VARIANTS), as TOML tables.
        pub fn every() -> Vec<String> {
            let mut every = Vec::new();
            $(
                let kind = format!("kind = '{}'", <$module::Config as Configure>::KIND);
                let variants = <$module::Config as Configure>::VARIANTS;
                every.extend(variants.iter().map(|keys| format!("{kind}\n{keys}")));
                every.push(kind);
            )*
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
                Err(unknown_kind(&format!("{section}.kind"), &kind, ENCODINGS.iter().map(|entry| entry.kind)))
            }

            /// The keys of this kind that are lengths; none where the kind is unknown.
            fn lengths(kind: &str) -> &'static [&'static str] {
                $(if kind == <$module::Config as Configure>::KIND
                    || <$module::Config as Configure>::ALIASES.contains(&kind)
                {
                    return <$module::Config as Configure>::LENGTHS;
                })*
                &[]
            }

            /// `position.kind`.
            pub fn kind(&self) -> &'static str {
                match self { $(Self::$Name(_) => <$module::Config as Configure>::KIND,)* }
            }

            /// What happens past the training length, with the default keys.
            pub fn extrapolation(&self) -> Extrapolation {
                match self { $(Self::$Name(_) => <$module::Config as Configure>::EXTRAPOLATION,)* }
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
                match self { $(Self::$Name(config) => config.validate(section, dimensions),)* }
            }

            /// Builds the encoding with its initial parameters.
            pub fn build(&self, dimensions: &Dimensions, init: &Init) -> Encoding {
                match self { $(Self::$Name(config) => Encoding::$Name(config.build(dimensions, init)),)* }
            }

            /// Tokens of the segment before that every layer also attends to.
            pub fn memory(&self) -> usize {
                match self { $(Self::$Name(config) => config.memory(),)* }
            }

            /// The keys without the kind.
            pub(crate) fn keys(&self) -> serde_json::Result<serde_json::Value> {
                match self { $(Self::$Name(config) => serde_json::to_value(config),)* }
            }

            /// One schema for each encoding.
            pub(crate) fn schemas(generator: &mut SchemaGenerator) -> Vec<Schema> {
                vec![$(with_aliases(
                    with_lengths::<$module::Config>(tagged::<$module::Config>(
                        <$module::Config as Configure>::KIND,
                        <$module::Config as Configure>::DESCRIPTION,
                        generator,
                    )),
                    <$module::Config as Configure>::KIND,
                    <$module::Config as Configure>::ALIASES,
                ),)*]
            }
        }

        impl Encoding {
            /// `position.kind`.
            pub fn kind(&self) -> &'static str {
                match self { $(Self::$Name(_) => <$module::Config as Configure>::KIND,)* }
            }

            fn hooks(&self) -> &dyn Position {
                match self { $(Self::$Name(encoding) => encoding,)* }
            }

            fn hooks_mut(&mut self) -> &mut dyn Position {
                match self { $(Self::$Name(encoding) => encoding,)* }
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
    Kerple in kerple,
    T5 in t5,
    Sandwich in sandwich,
    Cpb in cpb,
    Fire in fire,
    Fox in fox,
    Xpos in xpos,
    Pope in pope,
    Index in index,
    Multiplicative in multiplicative,
    Radix in radix,
    Recursive in recursive,
    CausalConv in causal_conv,
    Floater in floater,
    ComplexOrder in complex_order,
    Shaw in shaw,
    TransformerXl in transformer_xl,
    Tupe in tupe,
    Deberta in deberta,
    Cope in cope,
    Dape in dape,
}

/// A base of geometric frequencies must exceed 1.
pub(crate) fn check_base(section: &str, base: f64) -> Result<()> {
    if base.is_finite() && base > 1.0 {
        return Ok(());
    }
    Err(Error::value(&format!("{section}.base"), base, "it must be a number above 1")
        .hint("the usual one is 10000.0"))
}

/// A size must be at least `least`.
pub(crate) fn check_at_least(section: &str, key: &str, value: usize, least: usize) -> Result<()> {
    if value >= least {
        return Ok(());
    }
    Err(Error::value(&format!("{section}.{key}"), value, format!("it must be at least {least}")))
}

/// A size must be at most `most`.
pub(crate) fn check_at_most(section: &str, key: &str, value: usize, most: usize) -> Result<()> {
    if value <= most {
        return Ok(());
    }
    Err(Error::value(&format!("{section}.{key}"), value, format!("it must be at most {most}")))
}

/// The largest whole number among the keys at `section`, with its key; the first of several.
pub(crate) fn largest(section: &str, keys: &serde_json::Value) -> Option<(String, u64)> {
    match keys {
        serde_json::Value::Object(keys) => {
            let inner = |(key, value): (&String, _)| largest(&format!("{section}.{key}"), value);
            keys.iter().filter_map(inner).rev().max_by_key(|(_, value)| *value)
        }
        value => Some((section.to_owned(), value.as_u64()?)),
    }
}

/// A number must be above 0.
pub(crate) fn check_positive(section: &str, key: &str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(Error::value(&format!("{section}.{key}"), value, "it must be a number above 0"))
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_unique_and_documented() {
        let mut kinds: Vec<_> = ENCODINGS.iter().map(|entry| entry.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), ENCODINGS.len());
        assert!(ENCODINGS.iter().all(|entry| !entry.description.is_empty() && !entry.source.is_empty()));
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
        for entry in ENCODINGS {
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
