//! What was noticed while a corpus was read, so that it can be said whenever its tokens are used.

use crate::overlap::Overlap;
use longwave_core::{Error, Result, file};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The file in an entry of the cache.
const FILE: &str = "noticed.json";

/// What was left out, what was taken in one of two ways, and what is there twice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Noticed {
    /// Documents of blanks alone.
    pub(crate) blank: u64,
    /// Lines without a document.
    pub(crate) bad_lines: u64,
    /// Why the first of them has none.
    pub(crate) first_bad: Option<String>,
    /// Text files that a line parts into documents.
    pub(crate) parted: u64,
    /// The only text of the corpus was cut into its splits.
    pub(crate) cut: bool,
    /// Tokens of each split that stand for what the tokenizer does not know.
    pub(crate) unknown: [u64; 3],
    /// What its documents have in common.
    pub(crate) overlap: Overlap,
}

impl Noticed {
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_vec(self).map_err(|error| Error::failed(error.to_string()))?;
        file::write(&folder.join(FILE), &text)
    }

    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        serde_json::from_str(&file::read_text(&path)?)
            .map_err(|error| Error::failed(format!("`{}` is damaged: {error}", path.display())))
    }
}
