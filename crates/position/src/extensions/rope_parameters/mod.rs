//! `rope_parameters` (before 2025 `rope_scaling`) of a Hugging Face `config.json`, read as one of our extensions.
//!
//! An entry of `extend` may be such an object, as a table or as JSON text, a whole `config.json`, or a path to one. It
//! becomes `direct`, `linear`, `dynamic_ntk`, `yarn`, `llama3` or `longrope` with keys that read every length as
//! transformers 5 does (`modeling_rope_utils.py`): `null` means that a key is left out, and for `yarn` so does 0 where
//! that program tests for truth. What the object says of the model itself (`rope_theta`,
//! `original_max_position_embeddings`) goes to `trained`, which is compared with the model that is read. [`written`] goes
//! the other way.

mod write;

use super::ExtensionConfig;
use longwave_core::config::{unknown_key, unknown_kind};
use longwave_core::{Error, Result, file};
use serde_json::{Map, Value as Json, json};
use std::borrow::Cow;
use std::path::Path;
use toml::Value;
pub use write::{Written, written};

/// The fields that hold the object, newest first.
const HOLDERS: [&str; 2] = ["rope_parameters", "rope_scaling"];

/// Keys of our own that may stand beside those of the object.
const COMMON: [&str; 3] = ["layers", "log_n", "resonance"];

/// Every `rope_type` that is read.
const KINDS: [&str; 6] = ["default", "linear", "dynamic", "yarn", "llama3", "longrope"];

/// Keys that describe the model rather than its scaling.
const OF_MODEL: [&str; 5] =
    ["rope_type", "type", "rope_theta", "original_max_position_embeddings", "partial_rotary_factor"];

/// The entry in our own keys, where it is written in those of a `config.json`; else the entry itself.
///
/// # Errors
/// A file that cannot be read, text that is no JSON, or a key or value that no extension of ours stands for.
pub fn translated<'a>(value: &'a Value, section: &str) -> Result<Cow<'a, Value>> {
    let object = match value {
        Value::String(text) if text.trim_start().starts_with('{') => parse(text, &format!("`{section}`"))?,
        Value::String(path) if path.to_ascii_lowercase().ends_with(".json") => {
            let text = file::read_text(Path::new(path)).map_err(|error| error.hint(HINT))?;
            parse(&text, &format!("`{path}`"))?
        }
        Value::Table(table) if !table.contains_key("kind") && is_theirs(table) => {
            let json = serde_json::to_value(table);
            json.map_err(|error| Error::usage(format!("`{section}` cannot be read: {error}")))?
        }
        _ => return Ok(Cow::Borrowed(value)),
    };
    let Json::Object(object) = object else {
        return Err(Error::value(section, &object, "it must be an object").hint(HINT));
    };
    let ours = Source::new(object, section)?.extension()?;
    let ours = Value::try_from(&ours)
        .map_err(|error| Error::failed(format!("`{section}` cannot be written as TOML: {error}")))?;
    // A value that is not allowed is known here, beside the keys as they were written.
    ExtensionConfig::from_value(&ours, section)
        .map_err(|error| error.context(format!("`{section}` stands for `{ours}`")))?;
    Ok(Cow::Owned(ours))
}

const HINT: &str =
    "write an object such as `{ \"rope_type\": \"yarn\", \"factor\": 4.0 }`, or the path of a `config.json`";

fn is_theirs(table: &toml::Table) -> bool {
    HOLDERS.iter().chain(&["rope_type", "type"]).any(|key| table.contains_key(*key))
}

fn parse(text: &str, name: &str) -> Result<Json> {
    serde_json::from_str(text).map_err(|error| Error::usage(format!("{name} is no JSON: {error}")).hint(HINT))
}

/// The rule that an object names: `rope_type`, before 2025 `type`.
pub fn rope_type(parameters: &Map<String, Json>) -> Option<&Json> {
    parameters.get("rope_type").or_else(|| parameters.get("type"))
}

/// The object and, of a whole `config.json`, the fields around it.
struct Source {
    section: String,
    keys: Map<String, Json>,
    around: Map<String, Json>,
}

impl Source {
    fn new(mut object: Map<String, Json>, section: &str) -> Result<Self> {
        object.retain(|_, value| !value.is_null());
        let whole = object.contains_key("model_type") || HOLDERS.iter().any(|key| object.contains_key(*key));
        if !whole {
            return Ok(Self { section: section.to_owned(), keys: object, around: Map::new() });
        }
        let held: Vec<(&str, Json)> =
            HOLDERS.iter().filter_map(|&key| Some((key, object.remove(key)?))).collect();
        let section = match held.first() {
            Some((key, _)) => format!("{section}.{key}"),
            None => {
                return Err(Error::usage(format!(
                    "`{section}` names a model whose positions are not scaled"
                ))
                .hint("it has no `rope_parameters`; `direct` reads a model as it was trained"));
            }
        };
        match held.as_slice() {
            [(_, Json::Object(keys)), rest @ ..] if rest.iter().all(|(_, other)| *other == held[0].1) => {
                let mut keys = keys.clone();
                keys.retain(|_, value| !value.is_null());
                for key in COMMON {
                    keys.extend(object.remove(key).map(|value| (key.to_owned(), value)));
                }
                Ok(Self { section, keys, around: object })
            }
            [(_, Json::Object(_)), ..] => {
                Err(Error::usage(format!("`{section}` and `rope_scaling` differ")).hint("leave one out"))
            }
            [(_, other), ..] => Err(Error::value(&section, other, "it must be an object").hint(HINT)),
            [] => unreachable!("there is one"),
        }
    }

    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.section)
    }

    /// The number of a key of the object, or of the fields around it.
    fn number(&self, key: &str) -> Result<Option<f64>> {
        let Some(value) = self.keys.get(key).or_else(|| self.around.get(key)) else { return Ok(None) };
        match value.as_f64() {
            Some(number) => Ok(Some(number)),
            None => Err(Error::value(&self.key(key), value, "it must be a number")
                .hint("null, or no such key, means the default")),
        }
    }

    fn required(&self, key: &str, kind: &str) -> Result<f64> {
        self.number(key)?.ok_or_else(|| {
            Error::usage(format!("`{}` is missing", self.key(key))).hint(format!(
                "`{kind}` needs it; a whole `config.json` may say more than its `rope_parameters`"
            ))
        })
    }

    /// `factor`; where it is left out, the longest text over that of the training.
    fn factor(&self, kind: &str) -> Result<f64> {
        let ratio = match (self.number("max_position_embeddings")?, self.original()?) {
            (Some(longest), Some(original)) => Some(longest / original),
            _ => None,
        };
        let scale = match (self.number("factor")?, kind, ratio) {
            (Some(factor), ..) => factor,
            (None, "yarn" | "longrope", Some(ratio)) => ratio,
            _ => self.required("factor", kind)?,
        };
        if scale.is_finite() && scale >= 1.0 {
            return Ok(scale);
        }
        Err(Error::value(&self.key("factor"), scale, "it must be a number of at least 1")
            .hint("it is the longest text over those of the training"))
    }

    fn original(&self) -> Result<Option<f64>> {
        self.number("original_max_position_embeddings")
    }

    /// The extension of this kind in our keys.
    fn extension(&self) -> Result<Map<String, Json>> {
        let Some(kind) = rope_type(&self.keys).and_then(Json::as_str) else {
            return Err(self.without_kind());
        };
        let (own, ours) = match kind {
            "default" => (&[][..], json!({ "kind": "direct" })),
            "linear" => (&["factor"][..], json!({ "kind": "linear", "scale": self.factor(kind)? })),
            "dynamic" => (&["factor"][..], json!({ "kind": "dynamic_ntk", "factor": self.factor(kind)? })),
            "yarn" => (
                &[
                    "factor",
                    "attention_factor",
                    "beta_fast",
                    "beta_slow",
                    "mscale",
                    "mscale_all_dim",
                    "truncate",
                ][..],
                self.yarn()?,
            ),
            "llama3" => (
                &["factor", "low_freq_factor", "high_freq_factor"][..],
                json!({
                    "kind": "llama3", "scale": self.factor(kind)?,
                    "low_freq_factor": self.required("low_freq_factor", kind)?,
                    "high_freq_factor": self.required("high_freq_factor", kind)?,
                }),
            ),
            "longrope" | "su" => {
                (&["factor", "attention_factor", "long_factor", "short_factor"][..], self.longrope()?)
            }
            other => return Err(unknown_kind(&self.key("rope_type"), other, KINDS)),
        };
        let allowed: Vec<&str> = OF_MODEL.iter().chain(own).chain(&COMMON).copied().collect();
        if let Some(stranger) = self.keys.keys().find(|key| !allowed.contains(&key.as_str())) {
            return Err(unknown_key(&self.key(stranger), stranger, &allowed));
        }
        let Json::Object(mut ours) = ours else { unreachable!("an object was written") };
        ours.retain(|_, value| !value.is_null());
        for key in COMMON {
            ours.extend(self.keys.get(key).map(|value| (key.to_owned(), value.clone())));
        }
        ours.extend(self.trained(kind)?.map(|trained| ("trained".to_owned(), trained)));
        Ok(ours)
    }

    fn yarn(&self) -> Result<Json> {
        // 0 counts as left out there.
        let truthy = |key: &str| Ok::<_, Error>(self.number(key)?.filter(|number| *number != 0.0));
        let given = self.number("attention_factor")?;
        let scales = match (given, truthy("mscale")?, truthy("mscale_all_dim")?) {
            (None, Some(mscale), Some(all_dim)) => [Some(mscale), Some(all_dim)],
            _ => [None, None],
        };
        Ok(json!({
            "kind": "yarn", "scale": self.factor("yarn")?, "attention_factor": given, "mscale": scales[0],
            "mscale_all_dim": scales[1], "alpha": truthy("beta_slow")?, "beta": truthy("beta_fast")?,
            "truncate": self.keys.get("truncate"),
        }))
    }

    fn longrope(&self) -> Result<Json> {
        let factors = |key: &str| {
            self.keys.get(key).cloned().ok_or_else(|| {
                Error::usage(format!("`{}` is missing", self.key(key)))
                    .hint("`longrope` needs a factor for each band")
            })
        };
        Ok(json!({
            "kind": "longrope", "scale": self.factor("longrope")?, "long_factor": factors("long_factor")?,
            "short_factor": factors("short_factor")?, "attention_factor": self.number("attention_factor")?,
        }))
    }

    /// What the model must have been trained with.
    fn trained(&self, kind: &str) -> Result<Option<Json>> {
        if let Some(share) = self.number("partial_rotary_factor")?.filter(|share| (share - 1.0).abs() > 0.0)
            && self.keys.contains_key("partial_rotary_factor")
        {
            return Err(Error::value(
                &self.key("partial_rotary_factor"),
                share,
                "the share of rotated channels is the model's, and no extension changes it",
            )
            .hint("leave it out: a model is read with the share it was trained with"));
        }
        let length = match kind {
            "dynamic" => self.number("max_position_embeddings")?.or(self.original()?),
            "yarn" | "longrope" | "su" if self.original()?.is_none() => {
                self.number("max_position_embeddings")?
            }
            "default" | "linear" => None,
            _ => self.original()?,
        };
        let mut trained = Map::new();
        trained.extend(self.number("rope_theta")?.map(|base| ("base".to_owned(), json!(base))));
        trained.extend(length.map(|length| ("length".to_owned(), json!(length as u64))));
        Ok((!trained.is_empty()).then_some(Json::Object(trained)))
    }

    fn without_kind(&self) -> Error {
        if self.keys.values().any(Json::is_object) {
            let kinds = self.keys.iter().filter(|(_, value)| value.is_object());
            let kinds: Vec<String> = kinds.map(|(key, _)| format!("`{key}`")).collect();
            let kinds = kinds.join(", ");
            return Error::usage(format!("`{}` differs between kinds of layers: {kinds}", self.section))
                .hint("write the object of one kind, with the layers that it is for: `layers = \"full\"` or `\"windowed\"`");
        }
        Error::usage(format!("`{}` has no `rope_type`", self.section)).hint(HINT)
    }
}
