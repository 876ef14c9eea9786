//! What the `config.json` of a folder says of a model, before its weights are read.

use crate::architecture::Architecture;
use crate::document::{from_elsewhere, imported, one_text_a_batch, run_config};
use crate::fields;
use crate::files::not_a_pointer;
use crate::published::Scaled;
use crate::run_block::{self, FORMAT, RUN_KEY, RunBlock};
use longwave_core::config::{set, without_types};
use longwave_core::{Error, Result, file};
use longwave_model::resolved::Resolved;
use longwave_train::{FileScaling, RunConfig, memory_check};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// A `config.json`, before any weights are read.
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    pub(crate) json: Map<String, Value>,
    /// Our run, where one is in it.
    pub(crate) block: Option<RunBlock>,
    /// What the fields of a published architecture say; `None` for `longwave`.
    pub(crate) described: Option<fields::Described>,
}

impl ConfigFile {
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("config.json");
        if !path.exists() {
            return Err(no_model(folder));
        }
        let text = file::read_text(&path)?;
        not_a_pointer(&path, text.as_bytes())?;
        let json: Map<String, Value> = serde_json::from_str(&text).map_err(|error| {
            Error::failed(format!("`{}` is damaged: {error}", path.display()))
                .hint("download or export it again")
        })?;
        let named = |error: Error| error.context(format!("`{}`", path.display()));
        let block = json.get(RUN_KEY).map(read_block).transpose().map_err(named)?;
        run_block::check(&json).map_err(named)?;
        let longwave = json.get("model_type").is_some_and(|kind| kind == Architecture::Longwave.model_type());
        let described = if longwave { None } else { Some(fields::read(&json).map_err(named)?) };
        Ok(Self { path, json, block, described })
    }
}

/// Why a path is no folder of a model: it may be a file of one.
fn no_model(path: &Path) -> Error {
    let shown = path.display();
    let hint = "name a folder with `config.json`, `model.safetensors` and `tokenizer.json`";
    if !path.is_file() {
        return Error::usage(format!("`{shown}` holds no model: it has no `config.json`")).hint(hint);
    }
    let error = Error::usage(format!("`{shown}` is a file, and not the folder of a model"));
    match path.parent().filter(|folder| folder.join("config.json").exists()) {
        None => error.hint(hint),
        Some(folder) if folder.as_os_str().is_empty() => error.hint("did you mean `.`?"),
        Some(folder) => error.hint(format!("did you mean `{}`?", folder.display())),
    }
}

pub(crate) fn no_block() -> Error {
    Error::usage(format!("`{RUN_KEY}` is missing"))
        .hint("a `longwave` model needs the config that `longwave export` wrote there")
}

/// A model as its `config.json` describes it, without its weights.
#[derive(Clone, Debug)]
pub struct Description {
    pub architecture: Architecture,
    /// The config that its run would have.
    pub config: RunConfig,
    pub resolved: Resolved,
    /// How many trained numbers it has.
    pub parameters: u64,
    /// The memory that an import takes, in bytes: an estimate.
    pub import_bytes: u64,
    /// How its file scales positions, where it does.
    pub scaled: Option<Scaled>,
}

/// Reads the `config.json` of a folder alone: the weights and the tokenizer may still be missing. `assignments` change the
/// run's config, as `train.length=2048` does.
pub fn describe(folder: &Path, scaling: FileScaling, assignments: &[String]) -> Result<Description> {
    let ConfigFile { path, json, block, described } = ConfigFile::read(folder)?;
    let named = |error: Error| error.context(format!("`{}`", path.display()));
    let architecture = described.as_ref().map_or(Architecture::Longwave, |described| described.architecture);
    let stored = json.get("vocab_size").and_then(Value::as_u64).map(|size| size as usize);
    let vocab_size = described.as_ref().map(|described| described.vocab_size).or(stored).unwrap_or(1);
    let elsewhere = block.is_none();
    let mut document = match (block, described) {
        (Some(block), _) => fields::table(&block.config)?,
        (None, Some(described)) => {
            let imported = imported(&json, &described, scaling, "");
            from_elsewhere(folder, described, &imported).map_err(named)?
        }
        (None, None) => return Err(named(no_block())),
    };
    // What the file says must be allowed by itself, before anything is changed.
    let sizes = |document: &toml::Table| {
        let config = run_config(document)?;
        let resolved = config.model.resolve(vocab_size, config.train.length)?;
        Ok::<_, Error>((memory_check::parameters(&config, &resolved)?, config, resolved))
    };
    sizes(&document).map_err(named)?;
    for assignment in assignments {
        set(&mut document, assignment)?;
    }
    if elsewhere {
        one_text_a_batch(&mut document);
    }
    let (parameters, config, resolved) = sizes(&document)?;
    let scaled = Scaled::of(&config)?;
    let stored = ["torch_dtype", "dtype"].iter().find_map(|key| json.get(*key)?.as_str());
    let bytes = if stored == Some("float32") { 4 } else { 2 };
    let import_bytes = import_bytes(parameters.saturating_mul(bytes), parameters);
    Ok(Description { architecture, config, resolved, parameters, import_bytes, scaled })
}

/// What an import takes: the file, and each number as it was read, as ours, in the model and in the checkpoint.
pub(crate) fn import_bytes(file: u64, parameters: u64) -> u64 {
    file.saturating_add(parameters.saturating_mul(16))
}

fn read_block(value: &Value) -> Result<RunBlock> {
    let format = value.get("format").and_then(Value::as_u64).unwrap_or_default();
    if format > u64::from(FORMAT) {
        return Err(Error::failed(format!(
            "`{RUN_KEY}` has format {format}, and this version reads up to {FORMAT}"
        ))
        .hint("use the newer version that wrote it"));
    }
    serde_json::from_value(value.clone()).map_err(|error| {
        Error::failed(format!("`{RUN_KEY}` is damaged: {}", without_types(&error.to_string())))
    })
}
