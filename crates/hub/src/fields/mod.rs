//! `config.json` of the published architectures: written whole, read strictly.
//!
//! Reading knows three kinds of fields: those that size the model, those that must have the one value that our
//! model computes, and those without an effect on its logits. Any other is rejected by name.

mod llama;
mod reader;
mod write;

use crate::architecture::Architecture;
use crate::run_block::{CHECKSUM_KEY, RUN_KEY};
use longwave_core::error::nearest;
use longwave_core::{Error, Result, written};
use longwave_model::resolved::Resolved;
use longwave_position::ExtensionConfig;
use longwave_position::extensions::rope_parameters::Rotary;
use longwave_train::{FileScaling, Imported, RunConfig};
use reader::Fields;
use serde_json::{Map, Value};
use write::write;

/// Fields that change nothing about the logits of a text.
const WITHOUT_EFFECT: &[&str] = &[
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "attn_pdrop",
    "auto_map",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "dtype",
    "embd_pdrop",
    "eos_token_id",
    "hidden_dropout",
    "id2label",
    "initializer_range",
    "init_std",
    "is_encoder_decoder",
    "is_llama_config",
    "label2id",
    "model_type",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    // In how many parts the products were computed: their sums are the same.
    "pretraining_tp",
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
    "tf_legacy_loss",
    "tokenizer_class",
    "torchscript",
    "torch_dtype",
    "transformers.js_config",
    "transformers_version",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    RUN_KEY,
    CHECKSUM_KEY,
];

/// A model as its `config.json` describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    pub architecture: Architecture,
    pub vocab_size: usize,
    /// The longest text that it says it reads, in tokens.
    pub longest: usize,
    pub model: toml::Table,
    pub position: toml::Table,
    /// What it says of its rotations.
    pub rotary: Option<Rotary>,
}

impl Described {
    /// The scaling of its positions, where it has one.
    pub fn scaling(&self) -> Option<&ExtensionConfig> {
        self.rotary.as_ref()?.scaling.as_ref()
    }

    /// L in tokens: the length after a scaling that it was trained with, or the one before a scaling that was added.
    pub fn train_length(&self, scaling: FileScaling) -> usize {
        let of_scaled = |rotary: &Rotary| match scaling {
            FileScaling::Trained => rotary.scaled_to,
            FileScaling::Added => rotary.counts_from,
        };
        let scaled = self.rotary.as_ref().filter(|rotary| rotary.scaling.is_some());
        scaled.and_then(of_scaled).unwrap_or(self.longest)
    }
}

/// Reads the fields of a published architecture.
pub fn read(fields: &Map<String, Value>) -> Result<Described> {
    let kind = fields.get("model_type").and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(text) = fields.get("text_config") {
        let inner = text.get("model_type").and_then(Value::as_str).unwrap_or("another model");
        return Err(Error::usage(format!(
            "`model_type = \"{kind}\"` is a model of several kinds of input, whose text part (`{inner}`) is described under `text_config`"
        ))
        .hint("save the text part as a model of its own, with its fields at the top of config.json"));
    }
    let mut fields = Fields::new(fields);
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

/// The fields of a run: those that its file had, where it was imported.
pub fn of_run(
    architecture: Architecture,
    config: &RunConfig,
    resolved: &Resolved,
) -> Result<Map<String, Value>> {
    let kept = config.imported.as_ref().map(Imported::config).transpose()?.flatten();
    Ok(match kept {
        Some(fields) if architecture != Architecture::Longwave => fields,
        _ => write(architecture, resolved, &config.position),
    })
}

/// The base and the rotated share of a run's positions, as its architecture names them at the top of the file.
pub fn rotary(architecture: Architecture, config: &RunConfig, resolved: &Resolved) -> Map<String, Value> {
    let mut fields = write(architecture, resolved, &config.position);
    fields.retain(|key, _| matches!(key.as_str(), "rope_theta" | "rotary_emb_base" | "rotary_pct"));
    fields
}

/// Whether two values are the same; 1 and 1.0 are.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64().map(f64::to_bits) == b.as_f64().map(f64::to_bits),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

pub(super) fn table(value: &Value) -> Result<toml::Table> {
    written::toml_table("the config", value)
}

#[cfg(test)]
mod tests;
