//! `rope_parameters` (before 2025 `rope_scaling`) of a Hugging Face `config.json`, read as one of our extensions.
//!
//! An entry of `extend` may be such an object, as a table or as JSON text, a whole `config.json`, or a path to one. It
//! becomes `direct`, `linear`, `dynamic_ntk`, `yarn`, `llama3` or `longrope` with keys that read every length as
//! transformers 5 does (`modeling_rope_utils.py`): `null` means that a key is left out, and for `yarn` so does 0 where
//! that program tests for truth. The object says how positions are read from the base on, so it takes the place of the scaling
//! that the file of an imported model has. What it says of the model itself (`rope_theta`, `partial_rotary_factor`,
//! `original_max_position_embeddings`) goes to `trained`, which is compared with the model that is read. [`of_model`] reads
//! the same of a model that is imported, [`written`] goes the other way.

mod holder;
mod model;
mod write;

use super::ExtensionConfig;
use super::yarn::Yarn;
pub(super) use holder::schemas;
use longwave_core::config::unknown_kind;
use longwave_core::{Error, Result, file};
pub use model::{Rotary, check_names, of_model};
use serde_json::{Map, Value as Json, json};
use std::borrow::Cow;
use std::path::Path;
use toml::Value;
pub use write::{Applied, Written, written};

/// Keys of our own that may stand beside those of the object.
const COMMON: [&str; 4] = ["layers", "log_n", "temperature_law", "resonance"];

/// Every `rope_type` that is read.
const KINDS: [&str; 6] = ["default", "linear", "dynamic", "yarn", "llama3", "longrope"];

/// Keys that describe the model rather than its scaling.
const OF_MODEL: [&str; 4] =
    ["rope_type", "rope_theta", "original_max_position_embeddings", "partial_rotary_factor"];

const OF_YARN: [&str; 8] = [
    "factor",
    "attention_factor",
    "attn_factor",
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
    "truncate",
];

/// The names of the base, of the share of rotated channels and of the lengths. They stand in the object or beside it, and say the
/// same where they stand in both; base and share of a kind of layer may be its own. The second name of base and share is that
/// beside the object of a `gpt_neox`, which transformers reads there in the place of the first, and of no other architecture.
const BASE: [&str; 2] = ["rope_theta", "rotary_emb_base"];
const SHARE: [&str; 2] = ["partial_rotary_factor", "rotary_pct"];
const ORIGINAL: [&str; 1] = ["original_max_position_embeddings"];
const LONGEST: [&str; 1] = ["max_position_embeddings"];

/// The fields of a `config.json` that are read here.
pub const FIELDS: [&str; 7] =
    ["rope_parameters", "rope_scaling", BASE[0], BASE[1], SHARE[0], SHARE[1], ORIGINAL[0]];

/// The entry in our own keys, where it is written in those of a `config.json`; else the entry itself.
pub fn translated<'a>(value: &'a Value, section: &str) -> Result<Cow<'a, Value>> {
    let object = match value {
        Value::String(text) if text.trim_start().starts_with('{') => parse(text, &format!("`{section}`"))?,
        Value::String(path) if path.to_ascii_lowercase().ends_with(".json") => {
            let text = file::read_text(Path::new(path)).map_err(|error| error.hint(HINT))?;
            parse(&text, &format!("`{path}`"))?
        }
        Value::Table(table) if !table.contains_key("kind") && holder::is_theirs(table) => {
            let json = serde_json::to_value(table);
            json.map_err(|error| Error::usage(format!("`{section}` cannot be read: {error}")))?
        }
        _ => return Ok(Cow::Borrowed(value)),
    };
    let Json::Object(object) = object else {
        return Err(Error::value(section, &object, "it must be an object").hint(HINT));
    };
    let source = if holder::is_whole(&object) {
        Source::of_config(&object, section)?.ok_or_else(|| {
            Error::usage(format!("`{section}` names a model whose positions are not scaled"))
                .hint("it has no `rope_parameters`; `direct` reads a model as it was trained")
        })?
    } else {
        Source::of_object(&object, section)?
    };
    source.extension().map(|(ours, _)| Cow::Owned(ours))
}

const HINT: &str =
    "write an object such as `{ \"rope_type\": \"yarn\", \"factor\": 4.0 }`, or the path of a `config.json`";

fn parse(text: &str, name: &str) -> Result<Json> {
    serde_json::from_str(text).map_err(|error| Error::usage(format!("{name} is no JSON: {error}")).hint(HINT))
}

/// The rule that an object names: `rope_type`, before 2025 `type`.
pub fn rope_type(parameters: &Map<String, Json>) -> Option<&Json> {
    parameters.get("rope_type").or_else(|| parameters.get("type"))
}

/// The fields that say something: `null` means the same as no such field.
fn without_nulls(config: &Map<String, Json>) -> Map<String, Json> {
    let said = config.iter().filter(|(_, value)| !value.is_null());
    said.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The object and, of a whole `config.json`, the fields around it.
struct Source {
    section: String,
    keys: Map<String, Json>,
    around: Map<String, Json>,
    /// Whether the object is that of a kind of layer.
    by_kind: bool,
    /// Which of the names of base and share are read beside the object; `None` where the architecture is not said.
    own: Option<usize>,
}

/// The place of the names of base and share that the architecture of a `config.json` reads beside the object.
fn own_names(config: &Map<String, Json>) -> Option<usize> {
    let kind = config.get("model_type")?.as_str()?;
    Some(usize::from(matches!(kind, "gpt_neox" | "gpt_neox_japanese")))
}

impl Source {
    /// The object of a whole config; `None` where it has none.
    fn of_config(config: &Map<String, Json>, section: &str) -> Result<Option<Self>> {
        let Some(held) = holder::held(config, section)? else { return Ok(None) };
        let dot = if section.is_empty() { "" } else { "." };
        let mut keys = held.keys;
        for key in COMMON {
            keys.extend(config.get(key).map(|value| (key.to_owned(), value.clone())));
        }
        let section = format!("{section}{dot}{}", held.name);
        let (around, own) = (without_nulls(config), own_names(config));
        Ok(Some(Self { section, keys, around, by_kind: held.by_kind, own }))
    }

    /// The object alone.
    fn of_object(object: &Map<String, Json>, section: &str) -> Result<Self> {
        let keys = holder::of_all_layers(object, None, section)?;
        holder::check_kind(&keys, section)?;
        let keys = holder::plain(keys);
        Ok(Self { section: section.to_owned(), keys, around: Map::new(), by_kind: false, own: None })
    }

    fn key(&self, key: &str) -> String {
        if self.section.is_empty() { key.to_owned() } else { format!("{}.{key}", self.section) }
    }

    /// The rule that it names; an object that says something of the model alone names none.
    fn kind(&self) -> Result<&str> {
        match self.keys.get("rope_type") {
            Some(Json::String(kind)) => Ok(kind),
            Some(other) => Err(Error::value(&self.key("rope_type"), other, "it must be a word").hint(HINT)),
            None if self.keys.keys().all(|key| OF_MODEL.contains(&key.as_str()))
                && !self.around.is_empty() =>
            {
                Ok("default")
            }
            None => Err(Error::usage(format!("`{}` has no `rope_type`", self.section)).hint(HINT)),
        }
    }

    /// The number of a key of the object.
    fn number(&self, key: &str) -> Result<Option<f64>> {
        self.keys.get(key).map(|value| as_number(&self.key(key), value)).transpose()
    }

    /// The number that the object or the fields around it give under one of these names, with its path there. Programs differ in which
    /// place they prefer, so both must say the same where both are `of_all` layers.
    fn named(&self, names: &[&str], of_all: bool) -> Result<Option<(String, f64)>> {
        let inside = one_of(&self.keys, names, |name| self.key(name))?;
        let around = one_of(&self.around, names, str::to_owned)?;
        if let (Some(a), Some(b), true) = (&inside, &around, of_all) {
            same(a, b)?;
        }
        Ok(inside.or(around))
    }

    /// Base or share. That of a kind of layer stands in the place of the one beside it, which is of the others.
    fn of_rotations(&self, names: &[&str; 2]) -> Result<Option<(String, f64)>> {
        let is_read = |own: usize| self.keys.contains_key(names[0]) || self.around.contains_key(names[own]);
        Ok(self.named(names, !self.by_kind)?.filter(|_| self.own.is_none_or(is_read)))
    }

    /// The base of the frequencies.
    fn base(&self) -> Result<Option<f64>> {
        match self.of_rotations(&BASE)? {
            Some((key, base)) if !(base.is_finite() && base > 1.0) => {
                Err(Error::value(&key, base, "it must be a number above 1").hint("the usual one is 10000.0"))
            }
            named => Ok(named.map(|(_, base)| base)),
        }
    }

    /// The share of rotated channels.
    fn share(&self) -> Result<Option<f64>> {
        match self.of_rotations(&SHARE)? {
            Some((key, share)) if !(share > 0.0 && share <= 1.0) => {
                Err(Error::value(&key, share, "it must be a number above 0 and at most 1")
                    .hint("check the file"))
            }
            named => Ok(named.map(|(_, share)| share)),
        }
    }

    /// A number of tokens, which may be written as a float.
    fn tokens(&self, names: &[&str]) -> Result<Option<usize>> {
        match self.named(names, true)? {
            Some((_, number)) if number >= 1.0 && number.fract() == 0.0 && number < 1e15 => {
                Ok(Some(number as usize))
            }
            Some((key, number)) => {
                Err(Error::value(&key, number, "it must be a whole number of tokens").hint("check the file"))
            }
            None => Ok(None),
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
        let ratio = match (self.tokens(&LONGEST)?, self.tokens(&ORIGINAL)?) {
            // `dynamic` counts from the longest text.
            (Some(longest), Some(original)) if kind != "dynamic" => Some(longest as f64 / original as f64),
            _ => None,
        };
        let scale = match self.number("factor")?.or(ratio) {
            Some(factor) => factor,
            None => self.required("factor", kind)?,
        };
        if scale.is_finite() && scale >= 1.0 {
            return Ok(scale);
        }
        Err(Error::value(&self.key("factor"), scale, "it must be a number of at least 1")
            .hint("it is the longest text over those of the training"))
    }

    /// The extension in our keys, as a table and as it is read from that: a value that is not allowed is known here, beside the
    /// keys as they were written.
    fn extension(&self) -> Result<(Value, ExtensionConfig)> {
        let section = &self.section;
        let ours = longwave_core::written::toml_value(format!("`{section}`"), &self.in_our_keys()?)?;
        let read = ExtensionConfig::from_value(&ours, section)
            .map_err(|error| error.context(format!("`{section}` stands for `{ours}`")))?;
        Ok((ours, read))
    }

    fn in_our_keys(&self) -> Result<Map<String, Json>> {
        let kind = self.kind()?;
        let (own, ours) = match kind {
            "default" => (&[][..], json!({ "kind": "direct" })),
            "linear" => (&["factor"][..], json!({ "kind": "linear", "scale": self.factor(kind)? })),
            "dynamic" => (&["factor"][..], json!({ "kind": "dynamic_ntk", "factor": self.factor(kind)? })),
            "yarn" => (&OF_YARN[..], self.yarn()?),
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
            let allowed = allowed.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
            return Err(Error::usage(format!(
                "unknown key `{}`: of `{kind}` allowed are {allowed}",
                self.key(stranger)
            ))
            .hint("another key may change how positions are read, and nothing here computes it"));
        }
        let said = |object: Json| without_nulls(object.as_object().expect("an object was written"));
        let mut ours = said(ours);
        for key in COMMON {
            ours.extend(self.keys.get(key).map(|value| (key.to_owned(), value.clone())));
        }
        ours.insert("trained".to_owned(), Json::Object(said(self.trained(kind)?)));
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
        let scale = self.factor("yarn")?;
        if let Some(attn_factor) = self.number("attn_factor")?.filter(|factor| (factor - 1.0).abs() > 0.0) {
            let yarn = Yarn {
                attention_factor: given,
                mscale: scales[0].unwrap_or(1.0),
                mscale_all_dim: scales[1],
                ..Yarn::default()
            };
            let factor = yarn.factor(scale);
            return Err(Error::value(
                &self.key("attn_factor"),
                attn_factor,
                format!("transformers ignores it, and other programs multiply the factor on cos and sin, {factor}, by it"),
            )
            .hint(format!(
                "write `\"attention_factor\": {factor}` in its place to read as the former, and `\"attention_factor\": {}` as \
                 the others",
                attn_factor * factor
            )));
        }
        if self.by_kind && self.keys.get("truncate") == Some(&Json::Bool(false)) {
            let why = "transformers does not read it in an object for each kind of layer, and rounds the ramp to whole bands there";
            return Err(Error::value(&self.key("truncate"), "false", why)
                .hint("write one object for all layers, or what the model was trained with"));
        }
        Ok(json!({
            "kind": "yarn", "scale": scale, "attention_factor": given, "mscale": scales[0],
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
    fn trained(&self, kind: &str) -> Result<Json> {
        let length = match kind {
            "dynamic" => self.tokens(&LONGEST)?.or(self.tokens(&ORIGINAL)?),
            "yarn" | "longrope" | "su" | "llama3" => self.tokens(&ORIGINAL)?.or(self.tokens(&LONGEST)?),
            _ => None,
        };
        Ok(json!({ "base": self.base()?, "share": self.share()?, "length": length }))
    }
}

/// The number that fields give under one of these names, with the path of that name.
fn one_of(
    fields: &Map<String, Json>,
    names: &[&str],
    path: impl Fn(&str) -> String,
) -> Result<Option<(String, f64)>> {
    let mut found: Option<(String, f64)> = None;
    for name in names {
        let Some(value) = fields.get(*name) else { continue };
        let read = (path(name), as_number(&path(name), value)?);
        if let Some(known) = &found {
            same(known, &read)?;
        }
        found = found.or(Some(read));
    }
    Ok(found)
}

fn same((a, one): &(String, f64), (b, other): &(String, f64)) -> Result<()> {
    if one.to_bits() == other.to_bits() {
        return Ok(());
    }
    Err(Error::usage(format!("`{a} = {one}` and `{b} = {other}` disagree"))
        .hint("write in both what the model was trained with, as its authors say"))
}

fn as_number(key: &str, value: &Json) -> Result<f64> {
    value.as_f64().ok_or_else(|| {
        Error::value(key, value, "it must be a number").hint("null, or no such key, means the default")
    })
}
