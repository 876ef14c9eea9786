//! What was noticed while a corpus was read, so that it can be said whenever its tokens are used.

use crate::tokenizer::Unread;
use longwave_core::{Error, Result, file};
use serde::{Deserialize, Serialize};
use std::path::Path;

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
    /// What tokens of each split do not stand for.
    pub(crate) unread: [Unread; 3],
    pub(crate) overlap: Overlap,
}

/// What documents of a corpus have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Overlap {
    /// One document in so many was compared with the others as a whole.
    pub(crate) documents_every: u64,
    /// Documents of each split that are equal to an earlier one of it.
    pub(crate) repeated: [u64; 3],
    /// Documents of each split that are equal to one to train; 0 of training itself.
    pub(crate) in_train: [u64; 3],
    /// Documents to test that are equal to one to validate.
    pub(crate) test_in_valid: u64,
    /// One n-gram in so many was looked for.
    pub(crate) grams_every: u64,
    /// The n-grams of validation and test documents that are in training documents.
    pub(crate) held_out: [HeldOut; 2],
}

/// The n-grams of the documents of a split that are in training documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldOut {
    /// All that were looked for.
    pub(crate) grams: u64,
    /// Those that are in training documents.
    pub(crate) found: u64,
    /// Documents with enough n-grams to be judged.
    pub(crate) judged: u64,
    /// Those of them with a share of [`CONTAINED`](crate::overlap::CONTAINED) or more.
    pub(crate) contained: u64,
    /// The place in its split of the judged document with the largest share, its n-grams, and those found.
    pub(crate) most: [u64; 3],
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
