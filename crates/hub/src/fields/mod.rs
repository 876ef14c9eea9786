//! `config.json` of the published architectures: written whole, read strictly.
//!
//! Reading knows three kinds of fields: those that size the model, those that must have the one value that our
//! model computes, and those without an effect on its logits. Any other is rejected by name.

use crate::architecture::Architecture;
use crate::run_block::RUN_KEY;
use longwave_core::error::nearest;
use longwave_core::{Error, Result};
use longwave_model::config::Resolved;
use longwave_position::encoding::MAX_SIZE;
use longwave_position::{EncodingConfig, PositionConfig};
use serde_json::{Map, Value, json};

/// Fields that change nothing about the logits of a text.
const WITHOUT_EFFECT: &[&str] = &[
    "_attn_implementation_autoset",
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "attn_pdrop",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "dtype",
    "embd_pdrop",
    "eos_token_id",
    "hidden_dropout",
    "id2label",
    "initializer_range",
    "is_encoder_decoder",
    "is_llama_config",
    "label2id",
    "max_window_layers",
    "model_type",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "problem_type",
    "reorder_and_upcast_attn",
    "resid_pdrop",
    "return_dict",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
    "torch_dtype",
    "transformers_version",
    "use_cache",
    RUN_KEY,
];

/// The fields of a model.
pub fn write(
    architecture: Architecture,
    resolved: &Resolved,
    position: &PositionConfig,
) -> Map<String, Value> {
    let (d, model) = (&resolved.dimensions, &resolved.config);
    let mut fields = json!({
        "architectures": [architecture.class()],
        "model_type": architecture.model_type(),
        "torch_dtype": "float32",
        "vocab_size": d.vocab_size,
        "tie_word_embeddings": model.tied,
        "bos_token_id": null,
        "eos_token_id": null,
    });
    let more = match (architecture, position.only()) {
        (Architecture::Gpt2, Some(EncodingConfig::Learned(config))) => json!({
            "n_positions": config.table_size.unwrap_or(d.train_length),
            "n_embd": d.width,
            "n_layer": d.layers,
            "n_head": d.heads,
            "n_inner": resolved.feed_forward_width,
            "activation_function": "gelu",
            "layer_norm_epsilon": model.norm_eps,
        }),
        (Architecture::GptNeoX, Some(EncodingConfig::Rope(config))) => {
            let share = share(config.fraction, d.head_dim);
            json!({
                "hidden_size": d.width,
                "intermediate_size": resolved.feed_forward_width,
                "num_hidden_layers": d.layers,
                "num_attention_heads": d.heads,
                "hidden_act": "gelu",
                "layer_norm_eps": model.norm_eps,
                "use_parallel_residual": false,
                "attention_bias": false,
                "max_position_embeddings": d.train_length,
                "rotary_emb_base": config.base,
                "rotary_pct": share,
                "rope_parameters": {
                    "rope_type": "default", "rope_theta": config.base, "partial_rotary_factor": share,
                },
            })
        }
        (
            Architecture::Llama | Architecture::Qwen3 | Architecture::Arcee,
            Some(EncodingConfig::Rope(config)),
        ) => {
            json!({
                "hidden_size": d.width,
                "intermediate_size": resolved.feed_forward_width,
                "num_hidden_layers": d.layers,
                "num_attention_heads": d.heads,
                "num_key_value_heads": d.kv_heads,
                "head_dim": d.head_dim,
                "hidden_act": if architecture == Architecture::Arcee { "gelu" } else { "silu" },
                "rms_norm_eps": model.norm_eps,
                "attention_bias": false,
                "mlp_bias": false,
                "max_position_embeddings": d.train_length,
                "rope_theta": config.base,
                "rope_parameters": { "rope_type": "default", "rope_theta": config.base },
            })
        }
        _ => json!({
            "hidden_size": d.width,
            "num_hidden_layers": d.layers,
            "num_attention_heads": d.heads,
            "max_position_embeddings": d.train_length,
        }),
    };
    if let (Some(fields), Value::Object(more)) = (fields.as_object_mut(), more) {
        fields.extend(more);
    }
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// A share of the channels that gives their number again when it is multiplied and cut.
fn share(fraction: f64, head_dim: usize) -> f64 {
    let dim = head_dim as f64;
    let turned = (fraction * dim).round();
    let share = turned / dim;
    if (share * dim).floor() < turned { share.next_up() } else { share }
}

/// A model as its `config.json` describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// Its architecture.
    pub architecture: Architecture,
    /// Entries of its vocabulary.
    pub vocab_size: usize,
    /// The longest text it was trained on, as far as it says.
    pub length: usize,
    /// Our `[model]`.
    pub model: toml::Table,
    /// Our `[position]`.
    pub position: toml::Table,
}

/// Reads the fields of a published architecture.
///
/// # Errors
/// A field is missing, unknown, or says what our model does not compute.
pub fn read(fields: &Map<String, Value>) -> Result<Described> {
    let mut fields = Fields { left: fields.clone() };
    let kind = fields.left.get("model_type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let published = |architecture: &Architecture| *architecture != Architecture::Longwave;
    let architecture = Architecture::ALL
        .into_iter()
        .filter(published)
        .find(|architecture| architecture.model_type() == kind)
        .ok_or_else(|| unknown_model_type(&kind))?;
    let described = match architecture {
        Architecture::Gpt2 => fields.gpt2()?,
        Architecture::GptNeoX => fields.gpt_neox()?,
        _ => fields.llama(architecture)?,
    };
    fields.finish()?;
    Ok(described)
}

fn unknown_model_type(kind: &str) -> Error {
    let known = Architecture::ALL.map(Architecture::model_type);
    let listed = known.map(|kind| format!("`{kind}`")).join(", ");
    let error = Error::value("model_type", format!("\"{kind}\""), format!("it must be one of {listed}"));
    match nearest(kind, known) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("other architectures are not ours"),
    }
}

/// The fields not yet read.
struct Fields {
    left: Map<String, Value>,
}

impl Fields {
    fn take(&mut self, key: &str) -> Option<Value> {
        self.left.remove(key).filter(|value| !value.is_null())
    }

    fn size(&mut self, key: &str) -> Result<usize> {
        self.size_or(key, None)
    }

    fn size_or(&mut self, key: &str, default: Option<usize>) -> Result<usize> {
        match (self.take(key), default) {
            (Some(value), _) => {
                let size = value.as_u64().and_then(|size| usize::try_from(size).ok());
                size.filter(|size| (1..=MAX_SIZE).contains(size)).ok_or_else(|| {
                    Error::value(key, value, format!("it must be a whole number from 1 to {MAX_SIZE}"))
                        .hint("check the file")
                })
            }
            (None, Some(default)) => Ok(default),
            (None, None) => Err(Error::usage(format!("`{key}` is missing")).hint("check the file")),
        }
    }

    fn number(&mut self, key: &str, default: f64) -> Result<f64> {
        match self.take(key) {
            Some(value) => value
                .as_f64()
                .ok_or_else(|| Error::value(key, value, "it must be a number").hint("check the file")),
            None => Ok(default),
        }
    }

    fn flag(&mut self, key: &str, default: bool) -> Result<bool> {
        match self.take(key) {
            Some(value) => value
                .as_bool()
                .ok_or_else(|| Error::value(key, value, "it must be true or false").hint("check the file")),
            None => Ok(default),
        }
    }

    /// A field that must say this, or nothing at all where this is its default.
    fn only(&mut self, key: &str, wanted: &Value, default: bool) -> Result<()> {
        match self.take(key) {
            None if default => Ok(()),
            Some(found) if same(&found, wanted) => Ok(()),
            found => Err(only_that(key, &found.unwrap_or(Value::Null), wanted)),
        }
    }

    /// Layers that all see the whole text.
    fn full_attention(&mut self, layers: usize) -> Result<()> {
        let full = json!("full_attention");
        match self.take("layer_types") {
            Some(Value::Array(types)) if types.len() == layers && types.iter().all(|kind| *kind == full) => {
                Ok(())
            }
            Some(other) => Err(only_that("layer_types", &other, &json!([full, ".."]))),
            None => Ok(()),
        }
    }

    /// Base and rotated share, from the fields of today's files and those of older ones.
    fn rotation(&mut self, older_base: &str, older_share: &str, default_share: f64) -> Result<(f64, f64)> {
        let (mut base, mut share) = (None, None);
        for key in ["rope_parameters", "rope_scaling"] {
            let Some(found) = self.take(key) else { continue };
            let Value::Object(parameters) = found else {
                return Err(Error::value(key, found, "it must be an object").hint("check the file"));
            };
            for (name, value) in parameters {
                let path = format!("{key}.{name}");
                let number =
                    || value.as_f64().ok_or_else(|| Error::value(&path, &value, "it must be a number"));
                match name.as_str() {
                    "rope_theta" => base = Some(number()?),
                    "partial_rotary_factor" => share = Some(number()?),
                    "rope_type" | "type" if value == "default" => {}
                    _ => {
                        return Err(Error::value(&path, &value, "the model is imported as it was trained, unscaled")
                            .hint(format!(
                                "remove `{key}` from config.json and scale at evaluation instead, as with `--extend \
                                 linear`, `yarn` or `llama3`"
                            )));
                    }
                }
            }
        }
        let (older_base, older_share) =
            (self.number(older_base, 1e4)?, self.number(older_share, default_share)?);
        Ok((base.unwrap_or(older_base), share.unwrap_or(older_share)))
    }

    fn llama(&mut self, architecture: Architecture) -> Result<Described> {
        let (layers, width, heads) =
            (self.size("num_hidden_layers")?, self.size("hidden_size")?, self.size("num_attention_heads")?);
        let kv_heads = self.size_or("num_key_value_heads", Some(heads))?;
        let own = if architecture == Architecture::Qwen3 { 128 } else { (width / heads).max(1) };
        let head_dim = self.size_or("head_dim", Some(own))?;
        let gated = architecture != Architecture::Arcee;
        self.only("hidden_act", &json!(if gated { "silu" } else { "gelu" }), gated)?;
        for key in ["attention_bias", "mlp_bias", "use_sliding_window", "rope_interleaved"] {
            self.only(key, &json!(false), true)?;
        }
        self.only("pretraining_tp", &json!(1), true)?;
        self.full_attention(layers)?;
        // A window that `use_sliding_window` turns off.
        if architecture == Architecture::Qwen3 {
            self.take("sliding_window");
        }
        let eps = self.number("rms_norm_eps", if gated { 1e-6 } else { 1e-5 })?;
        let (base, share) = self.rotation("rope_theta", "partial_rotary_factor", 1.0)?;
        if share < 1.0 {
            return Err(only_that("partial_rotary_factor", &json!(share), &json!(1.0)));
        }
        let tied = self.flag("tie_word_embeddings", false)?;
        let inner = self.size("intermediate_size")?;
        let mut model = table(&json!({
            "layers": layers, "width": width, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim,
            "feed_forward_width": inner, "norm": "rms_norm", "norm_eps": eps, "tied": tied,
            "feed_forward": if gated { "swiglu" } else { "gelu" },
        }))?;
        if architecture == Architecture::Qwen3 {
            model.insert("qk_norm".to_owned(), "rms".into());
            model.insert("qk_norm_eps".to_owned(), eps.into());
        }
        self.described(
            architecture,
            model,
            "max_position_embeddings",
            &json!({ "kind": "rope", "base": base }),
        )
    }

    fn gpt_neox(&mut self) -> Result<Described> {
        let (layers, width, heads) =
            (self.size("num_hidden_layers")?, self.size("hidden_size")?, self.size("num_attention_heads")?);
        self.only("hidden_act", &json!("gelu"), true)?;
        self.only("use_parallel_residual", &json!(false), false)?;
        self.only("attention_bias", &json!(false), false)?;
        self.only("is_decoder", &json!(false), true)?;
        let eps = self.number("layer_norm_eps", 1e-5)?;
        let (base, share) = self.rotation("rotary_emb_base", "rotary_pct", 0.25)?;
        let tied = self.flag("tie_word_embeddings", false)?;
        let inner = self.size("intermediate_size")?;
        let model = table(&json!({
            "layers": layers, "width": width, "heads": heads, "feed_forward_width": inner,
            "norm": "layer_norm", "norm_eps": eps, "tied": tied, "feed_forward": "gelu",
        }))?;
        // Whole channels, as the reader of that file counts them.
        let dim = (width / heads.max(1)) as f64;
        let fraction = (share * dim).floor() / dim;
        let position = json!({ "kind": "rope", "base": base, "fraction": fraction });
        self.described(Architecture::GptNeoX, model, "max_position_embeddings", &position)
    }

    fn gpt2(&mut self) -> Result<Described> {
        let (layers, width, heads) = (self.size("n_layer")?, self.size("n_embd")?, self.size("n_head")?);
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
        let eps = self.number("layer_norm_epsilon", 1e-5)?;
        let tied = self.flag("tie_word_embeddings", true)?;
        let model = table(&json!({
            "layers": layers, "width": width, "heads": heads, "feed_forward_width": inner,
            "norm": "layer_norm", "norm_eps": eps, "tied": tied, "feed_forward": "gelu",
        }))?;
        let position = json!({ "kind": "learned", "table_size": table_size });
        self.described(Architecture::Gpt2, model, "n_positions", &position)
    }

    fn described(
        &mut self,
        architecture: Architecture,
        model: toml::Table,
        length: &str,
        position: &Value,
    ) -> Result<Described> {
        let (vocab_size, length) = (self.size("vocab_size")?, self.size(length)?);
        Ok(Described { architecture, vocab_size, length, model, position: table(position)? })
    }

    /// Nothing may be left that has an effect.
    fn finish(mut self) -> Result<()> {
        self.left.retain(|key, _| !WITHOUT_EFFECT.contains(&key.as_str()));
        match self.left.iter().next() {
            None => Ok(()),
            Some((key, value)) => Err(Error::usage(format!(
                "`{key} = {value}` is not known: it may change what the model computes"
            ))
            .hint(format!("if it does not, remove `{key}` from config.json"))),
        }
    }
}

fn only_that(key: &str, found: &Value, wanted: &Value) -> Error {
    Error::value(key, found, format!("our model computes `{wanted}` only"))
        .hint("only models that our own can compute exactly are imported")
}

/// Whether two values are the same; 1 and 1.0 are.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.to_bits() == b.to_bits(),
        _ => a == b,
    }
}

/// A JSON object as a TOML table.
///
/// # Errors
/// It is none, or holds a null.
pub(super) fn table(value: &Value) -> Result<toml::Table> {
    toml::Table::try_from(value)
        .map_err(|error| Error::failed(format!("the config cannot be written as TOML: {error}")))
}

#[cfg(test)]
mod tests;
