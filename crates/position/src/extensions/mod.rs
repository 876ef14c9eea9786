//! Every context extension, one file each. Adding one is one new file and one line here. A program outside of this
//! workspace adds its own with [`register`].
//!
//! Each also takes `log_n = true`, `temperature_law`, `temperature` and `layers`: see [`common`].

pub mod common;
pub mod law;
pub mod layers;
mod numbers;
pub mod ramp;
pub mod rope_parameters;
mod schema;
#[cfg(test)]
mod tests;

use common::Common;
use numbers::check_numbers;

use crate::encodings;
use crate::extension::{Example, Lengths};
use crate::reading::{Reading, Rescale};
use crate::registry::{Extension, ExtensionEntry, Kinds};
use crate::tagged::{KindInfo, serialize_tagged};
use crate::tokens::Tokens;
use longwave_core::config::{kind_and_rest, unknown_kind};
use longwave_core::{Error, Result};
use schemars::{Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use std::sync::LazyLock;

macro_rules! extensions {
    ($($Name:ident in $module:ident),* $(,)?) => {
        $(pub mod $module;)*

        static KINDS: Kinds<ExtensionEntry> =
            Kinds::new("extension", || vec![$(ExtensionEntry::of::<$module::$Name>(),)*]);
    };
}

extensions! {
    Direct in direct,
    Linear in linear,
    DynamicLinear in dynamic_linear,
    Ntk in ntk,
    DynamicNtk in dynamic_ntk,
    SuNtkOld in su_ntk_old,
    SuNtkFixed in su_ntk_fixed,
    SuNtkMixed in su_ntk_mixed,
    NtkByParts in ntk_by_parts,
    Yarn in yarn,
    MrRope in mrrope,
    Llama3 in llama3,
    LongRope in longrope,
    Abf in abf,
    CustomFrequencies in frequencies,
    Bands in bands,
    Clip in clip,
    ReRope in rerope,
    LeakyReRope in leaky_rerope,
    SelfExtend in self_extend,
    DualChunk in dual_chunk,
    ShiftedRope in string,
    LambdaMask in lambda_mask,
    Sinks in sinks,
    Window in window,
    DropRotation in drop,
    Convert in convert,
    Segments in segments,
    RandPos in randpos,
    FloatPositions in float,
    LongerTable in table,
    Formula in formula,
}

pub fn registered() -> &'static [ExtensionEntry] {
    KINDS.registered()
}

/// Every extension there is: those of this workspace, then those that the program has registered.
pub fn kinds() -> &'static [KindInfo] {
    KINDS.infos()
}

/// The examples of every extension, each read from its keys; see [`Extend::examples`](crate::extension::Extend::examples).
pub fn examples(bands: usize, lengths: Lengths) -> Result<Vec<(ExtensionConfig, Example)>> {
    let mut all = Vec::new();
    for entry in KINDS.entries() {
        for example in (entry.examples)(bands, lengths) {
            all.push((ExtensionConfig::of_example(entry.info.kind, &example)?, example));
        }
    }
    Ok(all)
}

/// The name of the measurement that a longer context must beat, the context truncated to the last `train.length` tokens.
/// Results have it in the place of an extension, so no extension has this name.
pub const WINDOW_BASELINE: &str = "window_baseline";

/// Adds extensions that another crate defines, before anything reads the list.
pub fn register(entries: Vec<ExtensionEntry>) -> Result<()> {
    KINDS.register(entries, &[WINDOW_BASELINE])
}

/// An extension, chosen by `kind`, with the keys that every extension takes.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtensionConfig {
    extension: Extension,
    common: Common,
}

impl ExtensionConfig {
    /// Reads a kind, a table with a `kind` and the keys of that extension, or what [`rope_parameters`] stands for
    /// one.
    pub fn from_value(value: &toml::Value, section: &str) -> Result<Self> {
        let value = rope_parameters::translated(value, section)?;
        let (kind, mut rest) = kind_and_rest(&value, section)?;
        if let Some(entry) = KINDS.find(&kind) {
            let common = Common::take(&mut rest, entry.own_temperature, section)?;
            return Ok(Self { extension: (entry.read)(&rest, section)?, common });
        }
        let error = unknown_kind(section, &kind, kinds().iter().map(|entry| entry.kind));
        if encodings::kinds().iter().any(|entry| entry.kind == kind) {
            return Err(error.hint(format!(
                "`{kind}` is an encoding, with which a model is trained: `kind = \"{kind}\"` in `[position]`"
            )));
        }
        Err(error)
    }

    /// The schema of every extension, in the order of the list.
    pub fn schemas(generator: &mut SchemaGenerator) -> Vec<Schema> {
        let with_common = |entry: &ExtensionEntry| {
            let mut schema = (entry.schema)(generator);
            Common::describe(&mut schema, entry.own_temperature);
            schema
        };
        KINDS.entries().iter().map(with_common).collect()
    }

    fn of_example(kind: &str, example: &Example) -> Result<Self> {
        let text = format!("extend = {{ kind = '{kind}', {} }}", example.keys).replace(",  }", " }");
        let mut table: toml::Table = text
            .parse()
            .map_err(|error| Error::failed(format!("the example of `{kind}` is not TOML: {error}")))?;
        Self::from_value(&table.remove("extend").unwrap_or_else(|| kind.into()), "extend")
    }

    /// Its name in `extend = [...]`.
    pub fn kind(&self) -> &'static str {
        self.extension.kind()
    }

    /// The window of `window`, of an extension that hides the keys behind it.
    pub fn window(&self) -> Option<Tokens> {
        self.extension.window()
    }

    /// A model with a memory meets no distance past its training, whatever the length: only reading as
    /// trained, at a temperature of choice, means anything.
    fn without_memory(&self, reading: &Reading) -> Result<()> {
        let law = self.common.law_key();
        if reading.memory() == 0 || (self.kind() == "direct" && law.is_none()) {
            return Ok(());
        }
        let what = law.unwrap_or(self.kind());
        Err(Error::usage(format!("`{what}` does not apply to `{}` with a memory", reading.name())).hint(
            "it reads any length in segments of the training length, each with its memory, so that no distance \
             is new: read it with `direct`, which takes a `temperature`",
        ))
    }

    /// The reading for a length. The scaling that a published model has of its own is part of it; `rope_parameters` of
    /// another file take its place.
    pub fn apply(&self, reading: &Reading, lengths: Lengths) -> Result<Reading> {
        let (reading, lengths) = self.common.beginning(reading, lengths)?;
        let reading = &*reading;
        let layers = self.common.layers.of(reading)?;
        let trained = reading.part(&layers);
        let mut changed = trained.clone();
        let result = self
            .without_memory(reading)
            .and_then(|()| self.extension.apply(&mut changed, lengths))
            .and_then(|()| self.common.apply(&mut changed, &trained, lengths))
            .and_then(|()| changed.check_log_n())
            .and_then(|()| changed.check_attention())
            .and_then(|()| check_numbers(self.kind(), &changed, lengths));
        match result {
            Ok(()) if !self.common.layers.is_all() && changed.layout() != reading.layout() => {
                Err(Error::usage(format!(
                    "`layers` does not apply to `{}`: it lays out the whole text",
                    self.kind()
                ))
                .hint("leave `layers` out: every layer reads the same rows"))
            }
            Ok(()) => Ok(reading.clone().with_part(&layers, changed)),
            Err(error) if error.hint_text().is_none() && !trained.all_act() => Err(error.hint(
                "an encoding that is added to the hidden state enters at the first layer that reads it: name that layer too, or leave \
                 `layers` out",
            )),
            Err(error) if error.hint_text().is_none() => Err(error.hint(format!(
                "what applies to `{}`: {}",
                trained.name(),
                applicable(&trained, lengths)
            ))),
            Err(error) => Err(error),
        }
    }
}

impl Rescale for ExtensionConfig {
    fn at(&self, trained: &Reading, lengths: Lengths) -> Result<Reading> {
        self.apply(trained, lengths)
    }
}

/// The extensions that need no key. They are read once, since each error of [`ExtensionConfig::apply`] tries them all.
static WITHOUT_KEYS: LazyLock<Vec<ExtensionConfig>> = LazyLock::new(|| {
    let read = |entry: &KindInfo| ExtensionConfig::from_value(&entry.kind.into(), "extend").ok();
    kinds().iter().filter_map(read).collect()
});

/// The extensions that change this reading without an error, by name, for the length or twice the training's.
fn applicable(reading: &Reading, lengths: Lengths) -> String {
    // At L itself some change nothing that could be refused.
    let lengths = Lengths { length: lengths.length.max(2 * lengths.train), ..lengths };
    let applies = |config: &&ExtensionConfig| {
        let mut changed = reading.clone();
        config.extension.apply(&mut changed, lengths).and_then(|()| changed.check_attention()).is_ok()
    };
    let names: Vec<_> =
        WITHOUT_KEYS.iter().filter(applies).map(|config| format!("`{}`", config.kind())).collect();
    names.join(", ")
}

impl Serialize for ExtensionConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let keys = self.extension.keys().and_then(|mut keys| {
            if let (Some(keys), serde_json::Value::Object(common)) =
                (keys.as_object_mut(), serde_json::to_value(&self.common)?)
            {
                keys.extend(common);
            }
            Ok(keys)
        });
        serialize_tagged(self.kind(), keys, serializer)
    }
}
