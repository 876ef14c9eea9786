//! A run -> a folder in Hugging Face's layout.

use crate::architecture::Architecture;
use crate::run_block::{FORMAT, RUN_KEY, RunBlock};
use crate::{fields, tensors, weights};
use longwave_core::file::sha256_of;
use longwave_core::{Error, Result, file};
use longwave_train::Trained;
use serde_json::{Value, json};
use std::path::Path;

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The architecture of the files.
    pub architecture: Architecture,
    /// Why it is no published one, where it is not.
    pub obstacle: Option<String>,
}

/// Writes a run's model to a new folder. `run` is the run's own folder, `document` its whole config.
///
/// # Errors
/// The folder is not empty, or a file cannot be written.
pub fn export(folder: &Path, run: &Path, trained: &Trained, document: &toml::Table) -> Result<Exported> {
    must_be_empty(folder, "name a new folder")?;
    let Trained { config, resolved, model, meta, .. } = trained;
    if meta.stage() > 0 {
        return Err(Error::usage(
            "a checkpoint of a `[[stage]]` cannot be exported: its files have no place for what the stage made of the reading",
        )
        .hint("export the end of `[train]` with `--checkpoint stage-0`"));
    }
    let (architecture, obstacle) = Architecture::of(resolved, &config.position);
    let ours = tensors::of_model(model)?;
    let pieces = weights::pieces(architecture, resolved, &config.position);
    let bytes = if architecture == Architecture::Longwave {
        tensors::to_bytes(&ours)?
    } else {
        tensors::to_bytes(&tensors::to_theirs(&ours, &pieces)?)?
    };
    let failed = |error: serde_json::Error| Error::failed(format!("config.json cannot be written: {error}"));
    let block = RunBlock {
        format: FORMAT,
        config: serde_json::to_value(document).map_err(failed)?,
        checkpoint: meta.clone(),
        weights_sha256: sha256_of(&bytes),
    };
    let mut described = fields::write(architecture, resolved, &config.position);
    described.insert(RUN_KEY.to_owned(), serde_json::to_value(block).map_err(failed)?);
    // The run's own file, byte for byte: it may say more than our tokenizer reads of it.
    let tokenizer = file::read_text(&run.join("tokenizer.json"))?;
    file::write(&folder.join("model.safetensors"), &bytes)?;
    file::write(&folder.join("tokenizer.json"), tokenizer.as_bytes())?;
    let class = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": false,
        "model_max_length": resolved.dimensions.train_length,
    });
    write_json(&folder.join("tokenizer_config.json"), &class)?;
    write_json(&folder.join("config.json"), &Value::Object(described))?;
    Ok(Exported { architecture, obstacle })
}

fn write_json(path: &Path, value: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Error::failed(format!("`{}` cannot be written: {error}", path.display())))?;
    file::write(path, (text + "\n").as_bytes())
}

/// Rejects a folder that is not empty.
pub(crate) fn must_be_empty(folder: &Path, hint: &str) -> Result<()> {
    if file::holds_leftovers_only(folder) {
        return Ok(());
    }
    Err(Error::usage(format!("`{}` is not empty", folder.display())).hint(hint))
}
