//! What a run's folder keeps of the text that it was trained on, so that the text is known again elsewhere.

use crate::notes::Note;
use crate::split::Split;
use longwave_core::config::without_types;
use longwave_core::{Error, Result, file, written};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

const FILE: &str = "data.json";

const FORMAT: u32 = 1;

/// The text that a run was trained on, by its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    format: u32,
    /// The corpus as the config has it.
    pub corpus: String,
    /// Where it lay, from the root of the file system.
    pub path: String,
    /// Identifies documents, splits, tokenizer and separator, see [`crate::Dataset::content_hash`].
    pub content_hash: String,
    /// SHA-256 of each split's text, see [`crate::Dataset::text_hash`]; absent of a split without documents.
    pub text: BTreeMap<Split, String>,
    /// How it was read, see [`crate::Dataset::notes`].
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Record {
    pub(crate) fn new(
        corpus: &str,
        path: &str,
        content_hash: &str,
        text: &[Option<String>; 3],
        notes: &[Note],
    ) -> Self {
        let path =
            std::path::absolute(path).map_or_else(|_| path.into(), |path| path.to_string_lossy().into());
        let known = Split::ALL.into_iter().zip(text);
        let text = known.filter_map(|(split, hash)| Some((split, hash.clone()?))).collect();
        let (corpus, content_hash) = (corpus.to_owned(), content_hash.to_owned());
        let notes = notes.iter().map(ToString::to_string).collect();
        Self { format: FORMAT, corpus, path, content_hash, text, notes }
    }

    /// Reads the record of a run's folder; `None` in folders of tasks and of imported models.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let damaged = |error: &dyn std::fmt::Display| {
            Error::failed(format!("`{}` is damaged: {}", path.display(), without_types(&error.to_string()))).hint(
                "bring a copy of it back, or remove it: the run is then read without what it says of its text",
            )
        };
        let value: serde_json::Value =
            serde_json::from_str(&file::read_text(&path)?).map_err(|error| damaged(&error))?;
        let format = value.get("format").and_then(serde_json::Value::as_u64).unwrap_or(0);
        if format > u64::from(FORMAT) {
            return Err(Error::failed(format!(
                "`{}` has format {format}, and this version reads up to {FORMAT}",
                path.display()
            ))
            .hint("use the version of longwave that wrote it"));
        }
        serde_json::from_value(value).map(Some).map_err(|error| damaged(&error))
    }

    pub fn write(&self, folder: &Path) -> Result<()> {
        let text = written::json_lines(format!("`{FILE}`"), self)?;
        file::write(&folder.join(FILE), text.as_bytes())
    }

    /// Whether the text of every split is this.
    pub(crate) fn has_text(&self, text: &[Option<String>; 3]) -> bool {
        let same = |it: (Split, &Option<String>)| self.text.get(&it.0) == it.1.as_ref();
        !self.text.is_empty() && Split::ALL.into_iter().zip(text).all(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_record_can_be_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        for text in ["", "null", "[]", "{"] {
            std::fs::write(&path, text).unwrap();
            let error = Record::read(folder.path()).unwrap_err();
            assert!(error.message().contains("data.json` is damaged"), "{error}");
            assert!(error.hint_text().is_some_and(|hint| hint.contains("or remove it")), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(Record::read(folder.path()), Ok(None));
    }
}
