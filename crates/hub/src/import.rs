//! A folder in Hugging Face's layout -> a run.

use crate::architecture::Architecture;
use crate::bos;
use crate::describe::{ConfigFile, import_bytes, no_block};
use crate::document::{from_elsewhere, imported, one_text_a_batch, run_config, with_weights};
use crate::files::{WeightFiles, not_a_pointer};
use crate::published::Scaled;
use crate::run_block::{RUN_KEY, RunBlock};
use crate::{fields, scaling, tensors, weights};
use burn::tensor::Device;
use longwave_core::config::set;
use longwave_core::file::sha256_of;
use longwave_core::memory_check::{available, product, shortage};
use longwave_core::{Error, Result, file, written};
use longwave_data::Tokenizer;
use longwave_model::resolved::Resolved;
use longwave_position::extensions::rope_parameters::rope_type;
use longwave_position::{Dimensions, ExtensionConfig};
use longwave_train::checkpoint::{self, Meta, StageReading};
use longwave_train::restore::{fresh_model, read_after};
use longwave_train::run::{CheckpointId, checkpoint_path};
use longwave_train::{FileScaling, Imported, RunConfig, memory_check, parameters};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use toml::Table;

/// The files of an imported run, in the order in which they are written: a folder is a run once it has its config.
const FILES: [&str; 3] = ["checkpoints/last.safetensors", "tokenizer.json", "config.toml"];
const NEW: &str = "choose another folder with `--out`";

/// A model that was read and may become a run.
#[derive(Clone, Debug)]
pub struct Import {
    /// The run's config; `name`, `data`, `evaluate` and, for a model from elsewhere, `train.length` may be
    /// changed before [`write`](Self::write).
    pub document: Table,
    pub architecture: Architecture,
    /// The identity the run had, where it is one of ours; else its weights are its identity.
    pub run: Option<Meta>,
    /// What a user should know of it: weights that are not the run's, or positions that its file scales.
    pub notes: Vec<String>,
    folder: PathBuf,
    vocab_size: Option<usize>,
    stages: Vec<StageReading>,
    as_read: Table,
    /// What the tokenizer's files say of the token before a text, and is not taken.
    bos_note: Option<String>,
    config: PathBuf,
    weights: WeightFiles,
}

/// Reads `config.json` and the weights of a folder. `scaling` is what a scaling of positions in its file is.
pub fn import(folder: &Path, scaling: FileScaling) -> Result<Import> {
    let ConfigFile { path, json, block, described } = ConfigFile::read(folder)?;
    let named = |error: Error| error.context(format!("`{}`", path.display()));
    let weights = WeightFiles::read(folder)?;
    let sha256 = weights.sha256();
    let longwave = described.is_none();
    let architecture = described.as_ref().map_or(Architecture::Longwave, |described| described.architecture);
    let vocab_size = described.as_ref().map(|described| described.vocab_size);
    let own = block.as_ref().filter(|block| block.weights_sha256 == sha256);
    let (mut notes, mut bos_note) = (Vec::new(), None);
    match block.as_ref().and_then(|block| block.scaling.as_ref()) {
        Some(reading) if json.contains_key("torch") => notes.push(torch_note(reading)),
        Some(_) if own.is_some() => notes.push(exported_note(&path, json.get("rope_parameters"))),
        _ => {}
    }
    if block.is_some() && own.is_none() {
        notes.push("its weights are not those that were exported: they are a model of their own".to_owned());
    }
    // The stages made the model, whoever changed its weights since. Published fields say them in their own way.
    let stages = match &block {
        Some(block) if own.is_some() || longwave => block.checkpoint.stages.clone(),
        _ => Vec::new(),
    };
    let described_elsewhere = own.is_none() && !longwave;
    let document = match (own, block.as_ref(), described) {
        (Some(block), _, _) => {
            agrees(&json, block, architecture).map_err(named)?;
            fields::table(&block.config)?
        }
        (None, Some(block), None) => {
            // A scaling that its file once said is part of the model.
            let document = fields::table(&block.config)?;
            let before = run_config(&document)?.imported;
            let (scaling, config) = before.map_or((None, None), |before| (before.scaling, before.config));
            with_weights(document, &Imported { weights: sha256, scaling, config })?
        }
        (None, _, Some(described)) => {
            let imported = imported(&json, &described, scaling, &sha256);
            let mut document = from_elsewhere(folder, described, &imported).map_err(named)?;
            let begins = bos::of_folder(folder)?;
            if let Some(token) = begins.token {
                set(&mut document, &format!("data.bos={}", toml::Value::String(token)))?;
            }
            bos_note = begins.note;
            document
        }
        (None, None, None) => return Err(named(no_block())),
    };
    if described_elsewhere {
        // What the file says must be allowed by itself, before anything is changed.
        run_config(&document)
            .and_then(|config| config.model.resolve(vocab_size.unwrap_or(1), config.train.length))
            .map_err(named)?;
    }
    Ok(Import {
        as_read: document.clone(),
        bos_note,
        document,
        architecture,
        run: own.map(|block| block.checkpoint.clone()),
        config: path,
        notes,
        folder: folder.to_owned(),
        vocab_size,
        stages,
        weights,
    })
}

/// Holds the fields that other tools read against the run's config.
fn agrees(json: &Map<String, Value>, block: &RunBlock, architecture: Architecture) -> Result<()> {
    let config = run_config(&fields::table(&block.config)?)?;
    let vocab_size = json.get("vocab_size").and_then(Value::as_u64).unwrap_or_default() as usize;
    let resolved = config.model.resolve(vocab_size, config.train.length)?;
    let mut fields = fields::of_run(architecture, &config, &resolved)?;
    if architecture != Architecture::Longwave {
        let stages = &block.checkpoint.stages;
        match scaling::of(&config, &resolved, stages, block.scaling.as_ref())? {
            Ok(Some(written)) => {
                scaling::insert(&mut fields, fields::rotary(architecture, &config, &resolved), written);
            }
            // Earlier versions wrote the length of the first stage.
            Ok(None) if fields.get(scaling::LONGEST) == json.get(scaling::LONGEST) => {}
            _ => scaling::insert_longest(&mut fields, &config, stages),
        }
    }
    for (key, expected) in fields {
        // As the file has it: text may hold a number a last digit off.
        let expected = serde_json::from_str(&expected.to_string()).unwrap_or(expected);
        let found = json.get(&key).unwrap_or(&Value::Null);
        if !fields::same(found, &expected) {
            return Err(Error::value(&key, found, format!("the run under `{RUN_KEY}` has {expected}"))
                .hint(format!("restore it, or remove `{RUN_KEY}` to read the file without its run")));
        }
    }
    Ok(())
}

/// What the fields for other programs say of the positions of a run of ours, and how to read the model that way here.
fn exported_note(config: &Path, scaling: Option<&Value>) -> String {
    let kind = scaling.and_then(Value::as_object).and_then(rope_type).and_then(Value::as_str);
    format!(
        "its file scales positions (`{}`): `direct` reads the model without that, `--extend {}` with it",
        kind.unwrap_or_default(),
        config.display()
    )
}

/// What `model.py` reads a run with, and how to read it that way here.
fn torch_note(reading: &StageReading) -> String {
    let kind = reading.extend.get("kind").and_then(Value::as_str).unwrap_or_default();
    let plain = ExtensionConfig::from_value(&kind.into(), "extend").ok();
    let plain = plain.and_then(|plain| serde_json::to_value(plain).ok());
    let extend = match toml::Value::try_from(&reading.extend) {
        Ok(value) if plain.as_ref() != Some(&reading.extend) => format!("'{value}'"),
        _ => kind.to_owned(),
    };
    format!(
        "its `model.py` reads texts of up to {} tokens with `{kind}`: `direct` reads the run without that, `--extend {extend}` with it",
        reading.length
    )
}

impl Import {
    /// Changes keys of the run's config, as `data.corpus=texts` does.
    pub fn change(&mut self, assignments: &[String]) -> Result<()> {
        for assignment in assignments {
            set(&mut self.document, assignment)?;
        }
        let length = |document: &Table| document.get("train")?.get("length").cloned();
        if self.run.is_none() && length(&self.document) != length(&self.as_read) {
            one_text_a_batch(&mut self.document);
        }
        Ok(())
    }

    /// How it will be read: what its file's scaling is, and the token that texts begin with.
    pub fn reading_notes(&self) -> Result<Vec<String>> {
        let config = run_config(&self.document)?;
        let mut notes: Vec<String> =
            Scaled::of(&config)?.map(|scaled| scaled.note(&self.config)).into_iter().collect();
        if self.run.is_none() && !config.data.bos.is_empty() {
            notes.push(format!(
                "every text begins with `{}`, as its tokenizer's files ask (`data.bos`); `--set data.bos=` leaves it out",
                config.data.bos
            ));
        }
        // Who sets the key has chosen.
        let key = |document: &Table| document.get("data").and_then(|data| data.get("bos")).cloned();
        if key(&self.document) == key(&self.as_read) {
            notes.extend(self.bos_note.clone());
        }
        Ok(notes)
    }

    /// Writes a run's folder, or completes what was stopped there: checkpoint and tokenizer, and the config at last.
    pub fn write(&self, out: &Path, device: &Device) -> Result<RunConfig> {
        file::check_new_folder(out, &FILES, NEW)?;
        let path = self.folder.join("tokenizer.json");
        let text = file::read_text(&path)?;
        not_a_pointer(&path, text.as_bytes())?;
        let tokenizer = Tokenizer::load(&path)?;
        let hash = sha256_of(text.as_bytes());
        let expected = self.run.as_ref().and_then(|run| run.tokenizer.as_ref());
        if expected.is_some_and(|expected| *expected != hash) {
            return Err(Error::failed(format!("`{}` is not the one that was exported", path.display()))
                .hint("bring the old file back, or export the run again"));
        }
        let mut document = self.document.clone();
        if self.run.is_none() {
            use_tokenizer(&mut document, &out.join("tokenizer.json"));
        }
        let found = tokenizer.vocab_size();
        let mut config = run_config(&document)?;
        self.same_model(&config)?;
        match self.vocab_size {
            // Published tables are often padded to a round number.
            Some(embeddings) if embeddings > found => config.model.vocab_size = Some(embeddings),
            Some(embeddings) if embeddings < found => {
                return Err(Error::failed(format!(
                    "config.json says `vocab_size = {embeddings}`, and tokenizer.json has {found} entries"
                ))
                .hint("the model must have an embedding for each entry: take the tokenizer.json that it was trained with"));
            }
            _ => {}
        }
        let resolved = config.model.resolve(found, config.train.length)?;
        self.check_size(&resolved, &config)?;
        let fresh = fresh_model(&config, &resolved, device).map_err(|error| self.of_file(error))?;
        let fresh = read_after(&config, fresh, &self.stages)?;
        let in_weights = |error: Error| error.context(format!("`{}`", self.weights.shown()));
        let theirs = self.weights.tensors()?;
        let ours = if self.architecture == Architecture::Longwave {
            theirs
        } else {
            let pieces = weights::pieces(self.architecture, &resolved, &config.position);
            let (prefix, head) = weights::prefix_and_head(self.architecture);
            let theirs = tensors::with_prefix(theirs, prefix, head);
            tensors::to_ours(theirs, &pieces, &parameters::list(&fresh), head, resolved.config.tied)
                .map_err(in_weights)?
        };
        let model = tensors::into_model(fresh, ours, device).map_err(in_weights)?;
        let meta = match &self.run {
            Some(meta) => meta.clone(),
            None => Meta::new(0, &config.weights_hash()?, None, self.stages.clone()),
        };
        let meta = Meta { tokenizer: Some(hash), ..meta };
        let mut resolved_document = config.to_table()?;
        if let Some(evaluate) = document.remove("evaluate") {
            resolved_document.insert("evaluate".to_owned(), evaluate);
        }
        let toml = written::toml("the config", &resolved_document)?;
        let saved = checkpoint::encoded(&checkpoint_path(out, CheckpointId::Last), &model, None, &[], &meta)?;
        let contents: [&[u8]; 3] = [&saved, text.as_bytes(), toml.as_bytes()];
        let files: Vec<_> = FILES.into_iter().zip(contents).collect();
        file::write_new_folder(out, &files, NEW)?;
        Ok(config)
    }

    /// A run of ours has a config that was checked: what goes wrong where its model is made is of the file.
    fn of_file(&self, error: Error) -> Error {
        error.context(format!("`{}`", self.config.display()))
    }

    /// Checks that the file of the weights can hold what the config asks for, before anything of that size is made. No form of
    /// a number takes less than a byte.
    fn check_size(&self, resolved: &Resolved, config: &RunConfig) -> Result<()> {
        let bytes = self.weights.bytes();
        let Dimensions { layers, width, heads, head_dim, .. } = resolved.dimensions;
        // Even to count the parameters of a million layers takes minutes: those of q are the least of a layer.
        let of_queries = product(&[layers, width, heads, head_dim]);
        let numbers = if of_queries > bytes {
            of_queries
        } else {
            memory_check::parameters(config, resolved).map_err(|error| self.of_file(error))?
        };
        if numbers <= bytes {
            return match shortage(import_bytes(bytes, numbers), available()) {
                None => Ok(()),
                Some(shortage) => {
                    Err(Error::failed(format!("importing {numbers} parameters needs {shortage}"))
                        .hint("import a smaller model, or on a machine with more memory"))
                }
            };
        }
        let shown = self.weights.shown();
        Err(Error::failed(format!(
            "`config.json` asks for {numbers} numbers or more, and `{shown}` has only {bytes} bytes"
        ))
        .hint("`config.json` and the weights must be of one model"))
    }

    /// Changes may move a run to another place; they may not make another run of it.
    fn same_model(&self, config: &RunConfig) -> Result<()> {
        let before = run_config(&self.as_read)?;
        let mut allowed = before.clone();
        if self.run.is_none() {
            allowed.train.length = config.train.length;
            allowed.train.batch_tokens = config.train.batch_tokens;
        }
        if allowed.weights_hash()? == config.weights_hash()? {
            return Ok(());
        }
        let may = if self.run.is_none() {
            "`name`, `data`, `evaluate` and `train.length`"
        } else {
            "`name`, `data` and `evaluate`"
        };
        Err(Error::usage(format!("`--set` makes another model of it: only {may} may be changed"))
            .hint("leave the other keys as they were exported"))
    }
}

/// The tokenizer that lies in the run's folder, unless the config names one.
fn use_tokenizer(document: &mut Table, path: &Path) {
    let data = document.entry("data").or_insert_with(|| Table::new().into());
    if let Some(data) = data.as_table_mut() {
        let file = [("kind", "file".to_owned()), ("path", path.to_string_lossy().into_owned())];
        let file: Table = file.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
        data.insert("tokenizer".to_owned(), file.into());
    }
}
