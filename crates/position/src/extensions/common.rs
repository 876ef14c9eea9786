//! What every extension takes besides its own keys: post-hoc log-n scaling, a temperature, rounded wavelengths, and the
//! layers that it changes ([`Layers`]).
//!
//! `log_n = true` multiplies a query that sees n keys by `max(1, ln n / ln L)` (Su 2023, kexue.fm/archives/9708, for
//! models trained without it): the entropy of attention then stays about the same as the text grows. n is the
//! query's position + 1, and the number of its row where positions are drawn ([`LogN`]). It is one of the laws of
//! `temperature_law` ([`Law`]). `temperature` divides the logits
//! of every layer, all that goes into the softmax: q.k and what encodings add to it (arXiv:2404.12224 tunes it for models
//! without positional encoding, where q.k is all); a list has a row for each layer and a number for each head
//! ([`Temperatures`]). `yarn` has one of its own, in place of its factor. `resonance` rounds the wavelengths of rotations to whole tokens, after
//! all that the extension does (Resonance `RoPE`, arXiv:2403.00071, here on a model that was trained without it). `trained`
//! rejects a model that the extension is not for: the base, the share of channels and L that another program's
//! `rope_parameters` name. An extension with `trained` says the whole scaling of a model, so it takes the place of the one that the
//! file of an imported model has; every other extension comes on top of that.

use super::law::Law;
use super::layers::Layers;
use crate::extension::temperature::Temperatures;
use crate::extension::{Lengths, change_encodings};
use crate::frequency::{Frequencies, resonance_obstacle};
use crate::reading::{LayerReading, LogN, Reading};
use longwave_core::config::read;
use longwave_core::{Error, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::borrow::Cow;
use toml::Table;

/// Keys of every extension; written only where they are set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Common {
    /// Scales queries past the training length by the logarithm of the number of tokens up to and with their own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub log_n: bool,
    /// Another law than that of `log_n`.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub temperature_law: Option<Law>,
    /// Divides the logits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Temperatures>,
    /// The layers that the extension changes.
    #[serde(skip_serializing_if = "Layers::is_all", skip_deserializing)]
    pub layers: Layers,
    /// What the model must have been trained with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trained: Option<Trained>,
    /// Rounds the wavelengths of rotations to whole tokens.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resonance: bool,
}

/// What an extension from elsewhere says of the model that it is for. It says the whole of a model's scaling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trained {
    /// The base of its frequencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<f64>,
    /// The share of each head's channels that is rotated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// The length in tokens that it counts from: L, or that of the file of an imported model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<usize>,
}

impl Trained {
    /// Rejects a model that was trained with something else.
    fn check(&self, model: &Reading, lengths: Lengths) -> Result<()> {
        if let Some(length) = self.length.filter(|length| *length != lengths.train) {
            return Err(Error::value(
                "trained.length",
                length,
                format!("the model was trained on texts of L = {} tokens", lengths.train),
            )
            .hint(format!(
                "an extension scales from L: write `original_max_position_embeddings = {}`, or leave it out",
                lengths.train
            )));
        }
        for frequencies in model.encodings().iter().filter_map(|encoding| encoding.frequencies()) {
            let base = frequencies.base;
            if let Some(other) = self.base.filter(|other| (other / base - 1.0).abs() > 1e-9) {
                let allowed = format!("the model was trained with the base {base}");
                return Err(Error::value("trained.base", other, allowed)
                    .hint("leave `rope_theta` out; the extension `abf` reads with another base"));
            }
            let (rotated, head_dim) = (frequencies.dim(), model.head_dim());
            if let Some(share) =
                self.share.filter(|share| (share * head_dim as f64 + 1e-9).floor() as usize != rotated)
            {
                return Err(Error::value(
                    "trained.share",
                    share,
                    format!("the model rotates {rotated} of the {head_dim} channels of a head"),
                )
                .hint(format!(
                    "an extension keeps the channels that the model was trained with: `partial_rotary_factor = {}`",
                    rotated as f64 / head_dim as f64
                )));
            }
            if !frequencies.is_geometric() {
                return Err(Error::usage(
                    "`rope_parameters` say the whole scaling of a model, and the frequencies of this one do not follow from its base alone",
                )
                .hint("write an extension of ours, which scales the model as it was trained: `--extend linear`"));
            }
        }
        Ok(())
    }
}

pub const KEYS: [&str; 6] = ["log_n", "temperature_law", "temperature", "layers", "resonance", "trained"];

impl Common {
    /// Takes the common keys out of an extension's table; `own_temperature` leaves that key to the
    /// extension.
    pub(super) fn take(table: &mut Table, own_temperature: bool, section: &str) -> Result<Self> {
        let mut keys = Table::new();
        for key in ["log_n", "temperature", "resonance", "trained"] {
            if (key != "temperature" || !own_temperature)
                && let Some(value) = table.remove(key)
            {
                keys.insert(key.to_owned(), value);
            }
        }
        let mut common: Self = read(&keys, section)?;
        if let Some(layers) = table.remove("layers") {
            common.layers = Layers::from_value(&layers, &format!("{section}.layers"))?;
        }
        if let Some(temperature) = &common.temperature {
            temperature.check(section)?;
        }
        if let Some(law) = table.remove("temperature_law") {
            let key = format!("{section}.temperature_law");
            let read = Law::from_value(&law, &key)?;
            if common.log_n {
                return Err(Error::value(&key, &law, format!("`{section}.log_n = true` is a law already"))
                    .hint("leave one of them out: `log_n = true` is `temperature_law = \"log_ratio\"`"));
            }
            // One law is written in one way.
            common.log_n = read == Law::LogRatio;
            common.temperature_law = (!common.log_n).then_some(read);
        }
        Ok(common)
    }

    fn law(&self) -> Option<Law> {
        if self.log_n { Some(Law::LogRatio) } else { self.temperature_law }
    }

    /// The key that gives a law.
    pub(super) fn law_key(&self) -> Option<&'static str> {
        self.law().map(|_| if self.log_n { "log_n" } else { "temperature_law" })
    }

    /// What an extension begins with, and the lengths that it scales between. A published model is scaled by its file first, for
    /// the text at hand. What says the whole of a scaling itself takes the place of that, and counts from the length of its own
    /// file.
    pub(super) fn beginning<'a>(
        &self,
        reading: &'a Reading,
        lengths: Lengths,
    ) -> Result<(Cow<'a, Reading>, Lengths)> {
        match (&self.trained, reading.published()) {
            (Some(trained), Some(published)) => {
                let known =
                    trained.length.filter(|length| [published.length, lengths.train].contains(length));
                let train = known.unwrap_or(published.length);
                Ok((Cow::Owned(reading.without_scaling()), Lengths { train, ..lengths }))
            }
            _ => Ok((reading.at(lengths.length)?, lengths)),
        }
    }

    /// Changes every layer of the reading, which has those of `layers` alone. Queries are scaled where a longer text means more keys: not in
    /// layers that were `trained` with a window, and not where they are scaled already, by the model or by a stage of its training.
    pub(super) fn apply(&self, reading: &mut Reading, trained: &Reading, lengths: Lengths) -> Result<()> {
        if let Some(expected) = &self.trained {
            expected.check(trained, lengths)?;
        }
        if let (Some(law), Some(key)) = (self.law(), self.law_key()) {
            scale(law, key, reading, trained, lengths)?;
        }
        if let Some(temperature) = &self.temperature {
            let heads = reading.heads();
            temperature.apply(reading.layers_mut(), heads, |_| true)?;
        }
        if self.resonance { round_wavelengths(reading) } else { Ok(()) }
    }

    /// Adds its properties to the schema of an extension.
    pub(super) fn describe(schema: &mut Schema, own_temperature: bool) {
        let properties = schema.ensure_object().entry("properties").or_insert_with(|| json!({}));
        let Some(properties) = properties.as_object_mut() else { return };
        let log_n = json!({ "type": "boolean", "description": "Scales queries past the training length by the \
                             logarithm of the number of tokens up to and with their own." });
        properties.insert("log_n".to_owned(), log_n);
        properties.insert("temperature_law".to_owned(), Law::schema());
        let resonance = json!({ "type": "boolean", "description": "Rounds the wavelengths of rotations to whole tokens, \
                                 after all that the extension changes (Resonance RoPE)." });
        properties.insert("resonance".to_owned(), resonance);
        if !own_temperature {
            let temperature = Temperatures::json_schema(&mut SchemaGenerator::default());
            properties.insert("temperature".to_owned(), temperature.to_value());
        }
        let of_model = json!({
            "type": "object",
            "description": "What the model must have been trained with: the base of its frequencies, the share of rotated \
                            channels and the length that the scaling counts from. An extension from another program's \
                            `rope_parameters` says so.",
            "properties": {
                "base": { "type": "number", "description": "The base of the model's frequencies." },
                "share": { "type": "number", "description": "The share of each head's channels that is rotated." },
                "length": { "type": "integer", "minimum": 1, "description": "L, or that of an imported model's file, in tokens." },
            },
            "additionalProperties": false,
        });
        properties.insert("trained".to_owned(), of_model);
        properties.insert("layers".to_owned(), Layers::schema());
    }
}

/// Scales by a law the layers that have no other and see more keys in a longer text.
fn scale(law: Law, key: &str, reading: &mut Reading, trained: &Reading, lengths: Lengths) -> Result<()> {
    if lengths.train < 2 {
        return Err(Error::usage(format!("`{key}` counts from ln L, which is 0 at a training length of 1"))
            .hint(format!("leave `{key}` out")));
    }
    let head_dim = reading.head_dim();
    let mut any = false;
    for (layer, trained) in reading.layers_mut().iter_mut().zip(trained.layers()) {
        any |= grows(trained, lengths) && law.apply(layer, lengths, head_dim);
    }
    if any {
        return Ok(());
    }
    let law = |layer: &LayerReading| match (layer.log_n, layer.length_factor) {
        (LogN::Off, None) => None,
        (LogN::Off, Some(_)) => Some("temperature_law"),
        (log_n, _) => Some(log_n.key()),
    };
    let why = match trained.layers().iter().find_map(law) {
        Some(law) => format!("would scale the queries twice: the model was trained with `{law}`"),
        None => {
            "has nothing to scale: every layer was trained with a window, and sees no more keys in a longer text"
                .to_owned()
        }
    };
    Err(Error::usage(format!("`{key}` {why}")).hint(format!("leave `{key}` out of the extension")))
}

/// Rounds the wavelengths of every encoding that rotates q and k.
fn round_wavelengths(reading: &mut Reading) -> Result<()> {
    let needs = "an encoding that rotates q and k";
    change_encodings("resonance = true", needs, reading, |encoding| {
        let rotates = encoding.rotation(0).is_some();
        let Some(frequencies) = encoding.frequencies().filter(|_| rotates).cloned() else {
            return Ok(false);
        };
        let fastest = frequencies.inv_freq.iter().copied().fold(0.0, f64::max);
        if let Some(obstacle) = resonance_obstacle(fastest).filter(|_| fastest.is_finite()) {
            let allowed = format!("it rounds the fastest band's {obstacle}");
            return Err(
                Error::value("resonance", true, allowed).hint("leave `resonance` out of the extension")
            );
        }
        encoding.set_frequencies(Frequencies { resonance: true, ..frequencies });
        Ok(true)
    })
}

/// Whether a layer sees more keys in a longer text.
fn grows(layer: &LayerReading, lengths: Lengths) -> bool {
    layer.mask.window.is_none_or(|window| window > lengths.train)
}
