//! The fields of a `config.json`, taken one by one: what is left at the end is not known.

use super::{Described, WITHOUT_EFFECT, same, table};
use crate::architecture::Architecture;
use longwave_core::{Error, Result};
use longwave_model::MAX_LAYERS;
use longwave_position::encoding::MAX_SIZE;
use longwave_position::extensions::rope_parameters::{self, Rotary};
use serde_json::{Map, Value, json};
use std::fmt::Display;

pub(super) struct Fields {
    pub(super) left: Map<String, Value>,
    rotary: Option<Rotary>,
}

impl Fields {
    pub(super) fn new(fields: &Map<String, Value>) -> Self {
        Self { left: fields.clone(), rotary: None }
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.left.remove(key).filter(|value| !value.is_null())
    }

    /// Whether the key is there, and says nothing.
    pub(super) fn is_null(&self, key: &str) -> bool {
        self.left.get(key).is_some_and(Value::is_null)
    }

    pub(super) fn size(&mut self, key: &str) -> Result<usize> {
        self.size_or(key, None)
    }

    /// The number of layers, of which a list is made: a damaged file may ask for millions.
    pub(super) fn layers(&mut self, key: &str) -> Result<usize> {
        let layers = self.size(key)?;
        if layers <= MAX_LAYERS {
            return Ok(layers);
        }
        Err(wrong(key, layers, format!("it must be at most {MAX_LAYERS}")))
    }

    pub(super) fn size_or(&mut self, key: &str, default: Option<usize>) -> Result<usize> {
        match (self.take(key), default) {
            (Some(value), _) => {
                // Some programs write whole numbers as floats.
                let size = value.as_f64().filter(|size| size.fract() == 0.0).map(|size| size as usize);
                let size = size.filter(|size| (1..=MAX_SIZE).contains(size));
                size.ok_or_else(|| {
                    wrong(key, value, format!("it must be a whole number from 1 to {MAX_SIZE}"))
                })
            }
            (None, Some(default)) => Ok(default),
            (None, None) => Err(Error::usage(format!("`{key}` is missing")).hint("check the file")),
        }
    }

    pub(super) fn number(&mut self, key: &str, default: f64) -> Result<f64> {
        let Some(value) = self.take(key) else { return Ok(default) };
        value.as_f64().ok_or_else(|| wrong(key, value, "it must be a number"))
    }

    /// What a norm adds to what it divides by.
    pub(super) fn eps(&mut self, key: &str, default: f64) -> Result<f64> {
        let eps = self.number(key, default)?;
        if eps.is_finite() && eps > 0.0 {
            return Ok(eps);
        }
        Err(wrong(key, eps, "it must be a number above 0"))
    }

    /// How many heads there are; their channels together are the width.
    fn heads_of(&mut self, key: &str, (width_key, width): (&str, usize)) -> Result<usize> {
        let heads = self.size(key)?;
        divides(key, heads, (width_key, width))?;
        Ok(heads)
    }

    pub(super) fn flag(&mut self, key: &str, default: bool) -> Result<bool> {
        let Some(value) = self.take(key) else { return Ok(default) };
        value.as_bool().ok_or_else(|| wrong(key, value, "it must be true or false"))
    }

    /// A field that must say this, or nothing at all where this is its default.
    pub(super) fn only(&mut self, key: &str, wanted: &Value, default: bool) -> Result<()> {
        match self.take(key) {
            None if default => Ok(()),
            Some(found) if same(&found, wanted) => Ok(()),
            found => Err(only_that(key, &found.unwrap_or(Value::Null), wanted)),
        }
    }

    /// Base and rotated share, with those of a file that does not say them. What is said of a scaling is kept aside. Read before
    /// `layer_types` is taken. A name that another architecture has for one of them must say the same number; else it is an error.
    pub(super) fn rotation(&mut self, default_base: f64, default_share: f64) -> Result<(f64, f64)> {
        let rotary = rope_parameters::of_model(&self.left)?;
        let read = (rotary.base.unwrap_or(default_base), rotary.share.unwrap_or(default_share));
        rope_parameters::check_names(&self.left, read.0, read.1)?;
        for key in rope_parameters::FIELDS {
            self.left.remove(key);
        }
        self.rotary = Some(rotary);
        Ok(read)
    }

    pub(super) fn gpt_neox(&mut self) -> Result<Described> {
        let (layers, width) = (self.layers("num_hidden_layers")?, self.size("hidden_size")?);
        let heads = self.heads_of("num_attention_heads", ("hidden_size", width))?;
        self.only("hidden_act", &json!("gelu"), true)?;
        self.only("use_parallel_residual", &json!(false), false)?;
        self.only("attention_bias", &json!(false), false)?;
        self.only("is_decoder", &json!(false), true)?;
        let eps = self.eps("layer_norm_eps", 1e-5)?;
        let (base, share) = self.rotation(1e4, 0.25)?;
        let tied = self.flag("tie_word_embeddings", false)?;
        let model = gelu_model([layers, width, heads, self.size("intermediate_size")?], eps, tied)?;
        // Whole channels, as the reader of that file counts them.
        let dim = (width / heads.max(1)) as f64;
        let fraction = (share * dim).floor() / dim;
        let position = json!({ "kind": "rope", "base": base, "fraction": fraction });
        self.described(Architecture::GptNeoX, model, "max_position_embeddings", &position)
    }

    pub(super) fn gpt2(&mut self) -> Result<Described> {
        let (layers, width) = (self.layers("n_layer")?, self.size("n_embd")?);
        let heads = self.heads_of("n_head", ("n_embd", width))?;
        let inner = self.size_or("n_inner", Some(4 * width))?;
        self.only("activation_function", &json!("gelu"), false)?;
        self.only("scale_attn_weights", &json!(true), true)?;
        for key in ["scale_attn_by_inverse_layer_idx", "add_cross_attention"] {
            self.only(key, &json!(false), true)?;
        }
        if let Some(older) = self.take("n_ctx") {
            self.left.entry("n_positions").or_insert(older);
        }
        let table_size = self.left.get("n_positions").cloned().unwrap_or_default();
        let eps = self.eps("layer_norm_epsilon", 1e-5)?;
        let tied = self.flag("tie_word_embeddings", true)?;
        let model = gelu_model([layers, width, heads, inner], eps, tied)?;
        let position = json!({ "kind": "learned", "table_size": table_size });
        self.described(Architecture::Gpt2, model, "n_positions", &position)
    }

    pub(super) fn described(
        &mut self,
        architecture: Architecture,
        model: toml::Table,
        length: &str,
        position: &Value,
    ) -> Result<Described> {
        let (vocab_size, longest) = (self.size("vocab_size")?, self.size(length)?);
        let rotary = self.rotary.take();
        Ok(Described { architecture, vocab_size, longest, model, position: table(position)?, rotary })
    }

    /// Nothing may be left that has an effect.
    pub(super) fn finish(mut self) -> Result<()> {
        self.left.retain(|key, _| !WITHOUT_EFFECT.contains(&key.as_str()));
        let mut unknown: Vec<String> =
            self.left.iter().map(|(key, value)| format!("`{key} = {value}`")).collect();
        // Taking fields out has changed their order.
        unknown.sort_unstable();
        if unknown.is_empty() {
            return Ok(());
        }
        let (are, they) = if unknown.len() == 1 { ("is", "it") } else { ("are", "they") };
        Err(Error::usage(format!(
            "{} {are} not known: {they} may change what the model computes",
            unknown.join(", ")
        ))
        .hint("only models that our own can compute exactly are imported; if a field changes no logit, take it out of config.json"))
    }
}

/// `[model]` of a GPT with `LayerNorm` and GELU.
fn gelu_model([layers, width, heads, inner]: [usize; 4], eps: f64, tied: bool) -> Result<toml::Table> {
    table(&json!({
        "layers": layers, "width": width, "heads": heads, "feed_forward_width": inner,
        "norm": "layer_norm", "norm_eps": eps, "tied": tied, "feed_forward": "gelu",
    }))
}

/// A number of parts must divide what is cut into them.
pub(super) fn divides(key: &str, parts: usize, (whole_key, whole): (&str, usize)) -> Result<()> {
    if whole.is_multiple_of(parts) {
        return Ok(());
    }
    Err(wrong(key, parts, format!("it must divide `{whole_key} = {whole}`")))
}

/// A value that no file of a working model has.
pub(super) fn wrong(key: &str, value: impl Display, allowed: impl Display) -> Error {
    Error::value(key, value, allowed).hint("check the file")
}

pub(super) fn only_that(key: &str, found: &Value, wanted: &Value) -> Error {
    Error::value(key, found, format!("our model computes `{wanted}` only"))
        .hint("only models that our own can compute exactly are imported")
}
