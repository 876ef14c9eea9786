//! Every positional encoding, one file each. Adding one is one new file and one line here. A program outside of this
//! workspace adds its own with [`register`].

pub use crate::registry::{Encoding, EncodingConfig};

use crate::registry::{EncodingEntry, Entry, Kinds};
use crate::tagged::KindInfo;
use longwave_core::Result;
use longwave_core::config::{kind_and_rest, unknown_kind};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// `position.kind` of a mixed stack.
pub(crate) const MIXED: &str = "mixed";

macro_rules! encodings {
    ($($module:ident,)*) => {
        $(pub mod $module;)*

        static KINDS: Kinds<EncodingEntry> =
            Kinds::new("encoding", || vec![$(EncodingEntry::of::<$module::Config>(),)*]);
    };
}

encodings! {
    none,
    learned,
    sinusoidal,
    rope,
    alibi,
    hard_alibi,
    kerple,
    bam,
    grape_a,
    t5,
    sandwich,
    cpb,
    fire,
    fox,
    xpos,
    pope,
    fope,
    index,
    multiplicative,
    radix,
    recursive,
    causal_conv,
    abacus,
    floater,
    complex_order,
    shaw,
    transformer_xl,
    tupe,
    deberta,
    cope,
    dape,
    scale_invariant,
    formula,
    sink_logit,
    selective_rope,
    path,
    wall,
}

pub fn registered() -> &'static [EncodingEntry] {
    KINDS.registered()
}

/// Every encoding there is: those of this workspace, then those that the program has registered.
pub fn kinds() -> &'static [KindInfo] {
    KINDS.infos()
}

/// Every name that an encoding may have.
pub fn names() -> Vec<&'static str> {
    KINDS
        .entries()
        .iter()
        .flat_map(|entry| [entry.info.kind].into_iter().chain(entry.aliases().iter().copied()))
        .collect()
}

/// Every encoding with its default keys and with each of its [`VARIANTS`](crate::encoding::Configure::VARIANTS), as TOML tables.
pub fn every() -> Vec<String> {
    KINDS.entries().iter().flat_map(EncodingEntry::settings).collect()
}

/// Adds encodings that another crate defines, before anything reads the list.
pub fn register(entries: Vec<EncodingEntry>) -> Result<()> {
    KINDS.register(entries, &[MIXED])
}

/// The keys of this kind that are lengths; none where the kind is unknown.
pub(crate) fn lengths(kind: &str) -> &'static [&'static str] {
    KINDS.find(kind).map_or(&[], |entry| entry.lengths)
}

/// The Python class of this kind, where it has one.
pub fn pytorch(kind: &str) -> Option<&'static str> {
    KINDS.find(kind)?.pytorch
}

impl EncodingConfig {
    /// Reads a kind, or a table with a `kind` and the keys of that encoding.
    pub fn from_value(value: &toml::Value, section: &str) -> Result<Self> {
        let (kind, rest) = kind_and_rest(value, section)?;
        match KINDS.find(&kind) {
            Some(entry) => (entry.read)(&rest, section),
            None => {
                Err(unknown_kind(&format!("{section}.kind"), &kind, kinds().iter().map(|entry| entry.kind)))
            }
        }
    }

    pub(crate) fn schemas(generator: &mut SchemaGenerator) -> Vec<Schema> {
        KINDS.entries().iter().map(|entry| (entry.schema)(generator)).collect()
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
mod tests {
    use super::*;
    use crate::positions::Positions;
    use crate::testing::{bias, build, message_of};
    use burn::tensor::Device;

    #[test]
    fn kinds_are_unique_and_documented() {
        let mut names: Vec<_> = kinds().iter().map(|entry| entry.kind).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), kinds().len());
        // As one that a program registers: words, keys of its own, defaults.
        for entry in KINDS.entries() {
            entry.check(&[]).unwrap_or_else(|error| panic!("{error}"));
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

    #[test]
    fn keys_that_say_nothing_are_refused() {
        for (kind, key, other) in [
            ("rope", "tau = 2.5", "spacing = \"cosh\""),
            ("rope", "fastest = 0.5", "slowest_turns"),
            ("radix", "s = 4", "variant = \"interpolate\""),
            ("radix", "beta_new = 16", "variant = \"convert\""),
            ("radix", "reading = \"raw\"", "variant = \"convert\""),
            ("recursive", "hidden = 32", "variant = \"mlp\""),
            ("learned", "alpha = 0.3", "past_table = \"hierarchical\""),
            ("learned", "length = 512", "past_table = \"interpolate\""),
            ("path", "low_rank = false\nrank = 8", "low_rank = true"),
            ("formula", "base = 100", "inv_freq"),
            ("formula", "layout = \"interleaved\"", "inv_freq"),
        ] {
            let key_alone = key.rsplit('\n').next().unwrap();
            let expected =
                format!("`position.{key_alone}` is not allowed: it has no meaning without `{other}`");
            let found = message_of(&format!("kind = \"{kind}\"\n{key}"));
            assert!(found.starts_with(&expected), "{found}");
        }
    }

    #[test]
    fn penalties_fall_with_the_distance() {
        for kind in ["alibi", "kerple", "fox", "kerple\"\nvariant = \"power"] {
            let encoding = build(&format!("kind = \"{kind}\""), &Device::flex());
            for positions in [Positions::range(0..9), Positions::range(0..9).map(|m| m * 1.5)] {
                for (index, row) in bias(&*encoding, &positions).chunks(9).enumerate() {
                    let visible = &row[..=index % 9];
                    assert!(visible.last().is_some_and(|&own| own.abs() < 1e-6), "{kind}: {row:?}");
                    assert!(visible.windows(2).all(|pair| pair[0] < pair[1]), "{kind}: {row:?}");
                }
            }
        }
    }
}
