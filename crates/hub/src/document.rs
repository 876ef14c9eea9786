//! The config of a run that an import makes, as a TOML document.

use crate::fields;
use crate::run_block::{CHECKSUM_KEY, RUN_KEY};
use longwave_core::{Result, written};
use longwave_train::{FileScaling, Imported, RunConfig};
use serde_json::{Map, Value};
use std::path::Path;
use toml::Table;

/// The corpus that a model from elsewhere is read on, unless another one is named.
const CORPUS: &str = "data/sotu";

/// The config of a model whose identity is its weights.
pub(crate) fn with_weights(mut document: Table, imported: &Imported) -> Result<Table> {
    document.insert("imported".to_owned(), written::toml_value("the import", imported)?);
    Ok(document)
}

/// What a run keeps of the file of a published model.
pub(crate) fn imported(
    json: &Map<String, Value>,
    described: &fields::Described,
    scaling: FileScaling,
    sha256: &str,
) -> Imported {
    let mut json = json.clone();
    for key in [RUN_KEY, CHECKSUM_KEY] {
        json.remove(key);
    }
    Imported {
        weights: sha256.to_owned(),
        scaling: described.scaling().map(|_| scaling),
        config: Some(Value::Object(json).to_string()),
    }
}

/// The config of a model that was not trained here.
pub(crate) fn from_elsewhere(
    folder: &Path,
    described: fields::Described,
    imported: &Imported,
) -> Result<Table> {
    let scaling = imported.scaling.unwrap_or_default();
    let length = toml::Value::Integer(described.train_length(scaling) as i64);
    let fields::Described { model, position, rotary, .. } = described;
    let mut document = Table::new();
    document.insert("name".to_owned(), name_of(folder).into());
    document.insert("data".to_owned(), Table::from_iter([("corpus".to_owned(), CORPUS.into())]).into());
    document.insert("model".to_owned(), model.into());
    document.insert("position".to_owned(), position.into());
    let batch = [("length", length.clone()), ("batch_tokens", length.clone())];
    let train: Table = batch.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    document.insert("train".to_owned(), train.into());
    let lengths = toml::Value::Array(vec![length]);
    let mut block = Table::from_iter([("lengths".to_owned(), lengths)]);
    if let Some(scaling) = rotary.and_then(|rotary| rotary.scaling).filter(|_| scaling == FileScaling::Added)
    {
        let ours = written::toml_value("an extension", &scaling)?;
        block.insert("extend".to_owned(), toml::Value::Array(vec!["direct".into(), ours]));
    }
    document.insert("evaluate".to_owned(), toml::Value::Array(vec![block.into()]));
    with_weights(document, imported)
}

fn name_of(folder: &Path) -> String {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let name: String = name.trim_start_matches('.').chars().map(plain).collect();
    if name.is_empty() { "imported".to_owned() } else { name }
}

/// The config of a document, its evaluations aside.
pub(crate) fn run_config(document: &Table) -> Result<RunConfig> {
    let mut document = document.clone();
    document.remove("evaluate");
    RunConfig::from_table(document)
}

/// Makes a batch of one text of the training length: a model from elsewhere is never trained, so nobody chooses its batches.
pub(crate) fn one_text_a_batch(document: &mut Table) {
    if let Some(train) = document.get_mut("train").and_then(toml::Value::as_table_mut)
        && let Some(length) = train.get("length").cloned()
    {
        train.insert("batch_tokens".to_owned(), length);
    }
}
