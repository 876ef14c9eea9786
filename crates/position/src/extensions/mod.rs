//! Every context extension, one file each. Adding one is one new file and one line here.

use crate::encodings::{Entry, serialize_tagged, tagged};
use crate::extension::{Extend, Lengths};
use crate::reading::Reading;
use longwave_core::Result;
use longwave_core::config::{kind_and_rest, read, unknown_kind};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use std::borrow::Cow;

macro_rules! extensions {
    ($($Name:ident in $module:ident),* $(,)?) => {
        $(pub mod $module;)*

        /// Any one extension, chosen by `kind`.
        #[derive(Clone, Debug, PartialEq)]
        pub enum ExtensionConfig {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Name($module::$Name),)*
        }

        /// Every extension there is.
        pub const EXTENSIONS: &[Entry] = &[$(Entry {
            kind: <$module::$Name as Extend>::KIND,
            summary: <$module::$Name as Extend>::SUMMARY,
            source: <$module::$Name as Extend>::SOURCE,
        },)*];

        impl ExtensionConfig {
            /// Reads a kind, or a table with a `kind` and the keys of that extension.
            ///
            /// # Errors
            /// An unknown kind or key, a wrong type, or a value that is not allowed.
            pub fn from_value(value: &toml::Value, section: &str) -> Result<Self> {
                let (kind, rest) = kind_and_rest(value, section)?;
                $(if kind == <$module::$Name as Extend>::KIND {
                    let extension: $module::$Name = read(&rest, section)?;
                    extension.validate(section)?;
                    return Ok(Self::$Name(extension));
                })*
                Err(unknown_kind(section, &kind, EXTENSIONS.iter().map(|entry| entry.kind)))
            }

            /// Its name.
            pub fn kind(&self) -> &'static str {
                match self { $(Self::$Name(_) => <$module::$Name as Extend>::KIND,)* }
            }

            fn keys(&self) -> serde_json::Result<serde_json::Value> {
                match self { $(Self::$Name(extension) => serde_json::to_value(extension),)* }
            }

            fn change(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
                match self { $(Self::$Name(extension) => extension.apply(reading, lengths),)* }
            }

            fn schemas(generator: &mut SchemaGenerator) -> Vec<Schema> {
                vec![$(tagged::<$module::$Name>(
                    <$module::$Name as Extend>::KIND,
                    <$module::$Name as Extend>::SUMMARY,
                    generator,
                ),)*]
            }
        }
    };
}

extensions! {
    Direct in direct,
    Linear in linear,
    Ntk in ntk,
}

impl ExtensionConfig {
    /// The reading for a length.
    ///
    /// # Errors
    /// The extension means nothing for the model's encoding; the hint lists those that do.
    pub fn apply(&self, reading: &Reading, lengths: Lengths) -> Result<Reading> {
        let mut changed = reading.clone();
        match self.change(&mut changed, lengths) {
            Ok(()) => Ok(changed),
            Err(error) if error.hint_text().is_none() => Err(error.hint(format!(
                "what applies to `{}`: {}",
                reading.name(),
                applicable(reading, lengths)
            ))),
            Err(error) => Err(error),
        }
    }
}

/// The extensions that change this reading without an error, by name.
fn applicable(reading: &Reading, lengths: Lengths) -> String {
    let applies = |kind: &str| {
        ExtensionConfig::from_value(&toml::Value::String(kind.to_owned()), "extend")
            .and_then(|extension| extension.change(&mut reading.clone(), lengths))
            .is_ok()
    };
    let names: Vec<_> = EXTENSIONS
        .iter()
        .filter(|entry| applies(entry.kind))
        .map(|entry| format!("`{}`", entry.kind))
        .collect();
    names.join(", ")
}

impl Serialize for ExtensionConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serialize_tagged(self.kind(), self.keys(), serializer)
    }
}

impl JsonSchema for ExtensionConfig {
    fn schema_name() -> Cow<'static, str> {
        "ExtensionConfig".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let kinds: Vec<_> = EXTENSIONS.iter().map(|entry| entry.kind).collect();
        let schemas = Self::schemas(generator);
        json_schema!({
            "description": "A context extension: its kind, or a table with its keys.",
            "anyOf": [{ "enum": kinds }, { "oneOf": schemas }]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{Dimensions, Position};
    use crate::init::Init;
    use crate::reading::{LogN, PositionConfig};
    use burn::tensor::Device;

    const LENGTHS: Lengths = Lengths { train: 8, length: 32 };

    fn reading(kind: &str) -> Reading {
        let dimensions = Dimensions {
            layers: 2,
            width: 16,
            heads: 2,
            kv_heads: 2,
            head_dim: 8,
            train_length: 8,
            vocab_size: 16,
        };
        PositionConfig::from_value(&toml::Value::String(kind.into()), "position")
            .unwrap()
            .build("position", &dimensions, &Init::new(0, &Device::flex()), LogN::Off)
            .unwrap()
    }

    fn extension(kind: &str) -> ExtensionConfig {
        ExtensionConfig::from_value(&toml::Value::String(kind.into()), "extend").unwrap()
    }

    fn inv_freq(reading: &Reading) -> Vec<f64> {
        reading.encodings()[0].frequencies().unwrap().inv_freq.clone()
    }

    #[test]
    fn every_extension_at_scale_one_is_the_identity() {
        let rope = reading("rope");
        for entry in EXTENSIONS {
            let same = extension(entry.kind).apply(&rope, Lengths { train: 8, length: 8 }).unwrap();
            assert_eq!(inv_freq(&same), inv_freq(&rope), "{}", entry.kind);
            let shorter = extension(entry.kind).apply(&rope, Lengths { train: 8, length: 4 }).unwrap();
            assert_eq!(inv_freq(&shorter), inv_freq(&rope), "{}", entry.kind);
        }
    }

    #[test]
    fn ends_of_the_spectrum() {
        let rope = inv_freq(&reading("rope"));
        let linear = inv_freq(&extension("linear").apply(&reading("rope"), LENGTHS).unwrap());
        assert!(linear.iter().zip(&rope).all(|(new, old)| (new * 4.0 / old - 1.0).abs() < 1e-12));
        let ntk = inv_freq(&extension("ntk").apply(&reading("rope"), LENGTHS).unwrap());
        assert!((ntk[0] - rope[0]).abs() < 1e-12, "the fastest band stays");
        assert!((ntk[3] * 4.0 / rope[3] - 1.0).abs() < 1e-12, "the slowest is exactly interpolated");
    }

    #[test]
    fn a_refusal_lists_what_applies() {
        let error = extension("ntk").apply(&reading("learned"), LENGTHS).unwrap_err();
        assert_eq!(error.hint_text(), Some("what applies to `learned`: `direct`, `linear`"));
        let error = extension("linear").apply(&reading("none"), LENGTHS).unwrap_err();
        assert_eq!(error.hint_text(), Some("what applies to `none`: `direct`"));
    }

    #[test]
    fn kinds_and_tables_read_alike() {
        let table: toml::Table = "kind = \"linear\"\nscale = \"auto\"".parse().unwrap();
        let long = ExtensionConfig::from_value(&toml::Value::Table(table), "extend").unwrap();
        assert_eq!(long, extension("linear"));
        let bad: toml::Table = "kind = \"linear\"\nscale = 0.5".parse().unwrap();
        let error =
            ExtensionConfig::from_value(&toml::Value::Table(bad), "evaluate[0].extend[1]").unwrap_err();
        assert!(error.message().starts_with("`evaluate[0].extend[1].scale = 0.5`"), "{error}");
    }
}
