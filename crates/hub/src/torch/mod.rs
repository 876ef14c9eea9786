//! A run -> a folder with one file of `PyTorch` that computes it: `model.py`, `model.safetensors`, `config.json`, `tokenizer.json`.
//!
//! The weights have our own names, and `config.json` holds the run as that of any other export, so an import reads the folder back, also
//! with other weights. What the model reads besides stands there under `torch`: `reading` says of every encoding what its hooks describe
//! and of every layer how it is read, as numbers. `model.py` is `source`'s: a template of which only the needed parts are written, and the
//! Python class of an encoding that has one ([`Configure::PYTORCH`](longwave_position::encoding::Configure::PYTORCH)).

mod encoding;
mod linear;
mod reading;
mod source;

use crate::architecture::Architecture;
use crate::export::{NEW, as_json, block};
use crate::{fields, run_block, tensors};
use longwave_core::{Error, Result, file, written};
use longwave_position::{ExtensionConfig, Lengths};
use longwave_train::Trained;
use longwave_train::checkpoint::StageReading;
use serde_json::Value;
use std::path::Path;

/// In the order in which they are written: no program reads a folder without `config.json`.
const FILES: [&str; 4] = ["model.safetensors", "tokenizer.json", "model.py", "config.json"];

/// How the file reads texts: with an extension, and up to which length.
#[derive(Clone, Debug)]
pub struct Extended {
    pub extend: ExtensionConfig,
    /// The longest text, in tokens.
    pub longest: usize,
}

/// Writes a run's model to a new folder, or completes what was stopped there. `run` is the run's own folder, `document` its whole config.
pub fn export(
    folder: &Path,
    run: &Path,
    trained: &Trained,
    document: &toml::Table,
    extended: &Extended,
) -> Result<()> {
    file::check_new_folder(folder, &FILES, NEW)?;
    let Trained { config, resolved, model, .. } = trained;
    let bytes = tensors::to_bytes(&tensors::of_model(model)?)?;
    let read = (extended.extend != ExtensionConfig::from_value(&"direct".into(), "extend")?)
        .then(|| written::json_value("an extension", &extended.extend))
        .transpose()?
        .map(|extend| StageReading { length: extended.longest, extend, head_scale: None });
    let block = block(trained, document, &bytes, read.as_ref())?;
    let torch = reading::described(trained, extended)?;
    let source = source::written(&torch, resolved, config)?;
    let mut described = fields::of_run(Architecture::Longwave, config, resolved)?;
    run_block::insert(&mut described, &block)?;
    described.insert("torch".to_owned(), torch.config);
    let tokenizer = file::read_text(&run.join("tokenizer.json"))?;
    let described = as_json(&Value::Object(described))?;
    let contents: [&[u8]; 4] = [&bytes, tokenizer.as_bytes(), source.as_bytes(), described.as_bytes()];
    let files: Vec<_> = FILES.into_iter().zip(contents).collect();
    file::write_new_folder(folder, &files, NEW)
}

/// The lengths whose readings are written: half of L, and from L on twice as many tokens each, up to the longest.
pub fn lengths(train: usize, longest: usize) -> Vec<usize> {
    let mut lengths = vec![(train / 2).max(1)];
    lengths.extend(
        std::iter::successors(Some(train), |length| Some(2 * length)).take_while(|length| *length < longest),
    );
    lengths.retain(|length| *length < longest);
    lengths.push(longest);
    lengths
}

fn no_python(kind: &str, what: &str) -> Error {
    Error::usage(format!("`{kind}` cannot be written for PyTorch: {what}")).hint(
        "what an encoding does beyond rotations, biases by distance and vectors by position stands in a Python class, its \
         `Configure::PYTORCH`; or export the run without `torch`",
    )
}

fn at(train: usize, length: usize) -> Lengths {
    Lengths { train, length }
}
