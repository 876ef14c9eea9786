//! Checksums of a checkpoint: one of each tensor and one of the whole state.

use longwave_core::{canonical, file};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The beginnings of SHA-256 hashes that a checkpoint is verified by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checksums {
    /// Of everything: the metadata without this, and names, shapes and checksums of all tensors.
    state: String,
    /// Of the bytes of each tensor.
    tensors: BTreeMap<String, String>,
}

impl Checksums {
    /// Those of a state: its metadata without checksums, and its tensors with their shapes.
    pub(super) fn of<'a>(
        meta: &Value,
        tensors: impl Iterator<Item = (&'a str, &'a [usize], &'a [u8])>,
    ) -> Self {
        let mut shapes = BTreeMap::new();
        let mut sums = BTreeMap::new();
        for (name, shape, bytes) in tensors {
            shapes.insert(name, shape);
            sums.insert(name.to_owned(), checksum(bytes));
        }
        let whole = canonical::text(json!({ "meta": meta, "shapes": shapes, "tensors": sums }));
        Self { state: checksum(whole.as_bytes()), tensors: sums }
    }

    /// What differs from those that were computed, in words; `None` where nothing does.
    pub(super) fn difference(&self, found: &Self) -> Option<String> {
        let differs =
            |(name, sum): (&String, &String)| (found.tensors.get(name) != Some(sum)).then(|| name.clone());
        if let Some(name) = self.tensors.iter().find_map(differs) {
            return Some(format!("the content of `{name}` has changed since it was written"));
        }
        (self != found).then(|| "its description has changed since it was written".to_owned())
    }
}

/// 64 bits of SHA-256: enough against damage.
fn checksum(bytes: &[u8]) -> String {
    file::sha256_of(bytes)[..16].to_owned()
}
