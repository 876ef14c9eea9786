//! A run -> a folder in Hugging Face's layout.

use crate::architecture::Architecture;
use crate::run_block::{self, FORMAT, RunBlock};
use crate::{bos, fields, scaling, tensors, weights};
use longwave_core::file::sha256_of;
use longwave_core::{Error, Result, file, written};
use longwave_position::extensions::rope_parameters::Written;
use longwave_train::Trained;
use longwave_train::checkpoint::StageReading;
use serde_json::{Value, json};
use std::path::Path;

/// The files of an export, in the order in which they are written: no program reads a folder without `config.json`.
const FILES: [&str; 4] = ["model.safetensors", "tokenizer.json", "tokenizer_config.json", "config.json"];
pub(crate) const NEW: &str = "name a new folder";

#[derive(Clone, Debug, PartialEq)]
pub struct Exported {
    pub architecture: Architecture,
    /// Why it is no published one, where it is not.
    pub obstacle: Option<String>,
    /// How other programs read it past the training length, where the files say so.
    pub scaling: Option<Written>,
    /// Where other programs read it, and begin a text otherwise than the run did.
    pub bos_note: Option<String>,
}

/// Writes a run's model to a new folder, or completes what was stopped there. `run` is the run's own folder, `document` its whole config. `scaling` is an
/// extension for other programs, with the longest text that it is for.
pub fn export(
    folder: &Path,
    run: &Path,
    trained: &Trained,
    document: &toml::Table,
    scaling: Option<&StageReading>,
) -> Result<Exported> {
    file::check_new_folder(folder, &FILES, NEW)?;
    let Trained { config, resolved, model, meta, .. } = trained;
    let (architecture, obstacle, written) = match Architecture::of_run(config, resolved) {
        (architecture, Some(obstacle)) if scaling.is_some() => {
            return Err(no_scaling(architecture, &obstacle));
        }
        (Architecture::Gpt2, None) if scaling.is_some() => {
            return Err(no_scaling(Architecture::Gpt2, "it has no frequencies"));
        }
        (architecture, None) => match scaling::of(config, resolved, &meta.stages, scaling)? {
            Ok(written) => (architecture, None, written),
            Err(obstacle) => (Architecture::Longwave, Some(obstacle), None),
        },
        (architecture, obstacle) => (architecture, obstacle, None),
    };
    let ours = tensors::of_model(model)?;
    let pieces = weights::pieces(architecture, resolved, &config.position);
    let bytes = if architecture == Architecture::Longwave {
        tensors::to_bytes(&ours)?
    } else {
        tensors::to_bytes(&tensors::to_theirs(&ours, &pieces)?)?
    };
    let block = block(trained, document, &bytes, scaling)?;
    let mut described = fields::of_run(architecture, config, resolved)?;
    if let Some(written) = written.clone() {
        scaling::insert(&mut described, fields::rotary(architecture, config, resolved), written);
    } else if architecture != Architecture::Longwave {
        scaling::insert_longest(&mut described, config, &meta.stages);
    }
    run_block::insert(&mut described, &block)?;
    // The run's own file, byte for byte: it may say more than our tokenizer reads of it.
    let tokenizer = file::read_text(&run.join("tokenizer.json"))?;
    let longest = |key: &str| Some(described.get(key)?.as_f64()? as usize);
    let longest = longest(scaling::LONGEST).or_else(|| longest("n_positions"));
    let mut class = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": false,
        "model_max_length": longest.unwrap_or(resolved.dimensions.train_length),
    });
    if !config.data.bos.is_empty() {
        class["bos_token"] = config.data.bos.as_str().into();
        class["add_bos_token"] = true.into();
    }
    let [class, described] = [as_json(&class)?, as_json(&Value::Object(described))?];
    let contents: [&[u8]; 4] = [&bytes, tokenizer.as_bytes(), class.as_bytes(), described.as_bytes()];
    let files: Vec<_> = FILES.into_iter().zip(contents).collect();
    file::write_new_folder(folder, &files, NEW)?;
    let bos_note = bos::read_otherwise(&tokenizer, &config.data.bos).filter(|_| obstacle.is_none());
    Ok(Exported { architecture, obstacle, scaling: written, bos_note })
}

/// The run of a folder whose weights are these bytes.
pub(crate) fn block(
    trained: &Trained,
    document: &toml::Table,
    weights: &[u8],
    scaling: Option<&StageReading>,
) -> Result<RunBlock> {
    Ok(RunBlock {
        format: FORMAT,
        config: written::json_value("config.json", document)?,
        checkpoint: trained.meta.clone(),
        weights_sha256: sha256_of(weights),
        scaling: scaling.cloned(),
    })
}

fn no_scaling(architecture: Architecture, obstacle: &str) -> Error {
    Error::usage(format!(
        "`--extend` has no place in the files: other programs scale published models of rotary positions, and this one is \
         written as `{}`: {obstacle}",
        architecture.model_type()
    ))
    .hint("leave `--extend` out; `longwave eval --extend` reads the model with it after an import")
}

pub(crate) fn as_json(value: &Value) -> Result<String> {
    written::json_lines("the export", value)
}
