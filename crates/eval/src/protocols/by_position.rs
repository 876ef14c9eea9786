//! `by_position`: the loss at every place of a window.

use super::keys::{Key, Keys, WINDOWS_PER_DOCUMENT};
use super::rules::{Documents, Given, Rules};
use crate::plan::{Plan, Window, full_windows};
use longwave_core::Result;

const BUCKET: Key =
    Key::tokens("bucket", "`by_position`: places that are averaged into one point. Default: `\"L/8\"`.");

/// See [`by_position`].
#[derive(Clone, Copy, Debug)]
pub struct ByPosition;

impl Rules for ByPosition {
    fn description(&self) -> &'static str {
        "Windows side by side, and the loss at every place of the window."
    }

    fn keys(&self) -> &'static [Key] {
        &[WINDOWS_PER_DOCUMENT, BUCKET]
    }

    fn resolve(&self, block: &Given<'_>) -> Result<Keys> {
        let bucket = block.get(BUCKET).unwrap_or_else(|| (block.train_length / 8).max(1));
        Ok(block.keys.clone().with(BUCKET, bucket))
    }

    fn plan(&self, keys: &Keys, length: usize, documents: &Documents<'_>) -> Plan {
        by_position(documents.tokens, length, keys.windows_per_document())
    }

    fn bucket(&self, keys: &Keys) -> Option<usize> {
        keys.get(BUCKET.name)
    }

    fn in_words(&self, _keys: &Keys) -> String {
        "full windows side by side".into()
    }
}

/// Full windows side by side, every place of which is scored, for the loss by position.
///
/// The target at place `p = 0..length` of a window has `p + 1` tokens of context. A tail shorter than
/// a window is left out, so that every place is scored equally often.
///
/// # Panics
/// `length` is 0.
pub fn by_position(documents: &[usize], length: usize, windows_per_document: Option<usize>) -> Plan {
    assert!(length > 0, "a window without tokens has no place to score");
    let mut plan = Plan::default();
    for (document, &tokens) in documents.iter().enumerate() {
        let windows = full_windows(tokens, length, length).map(|start| Window {
            document,
            start,
            first: start + 1,
            end: start + length + 1,
        });
        plan.add_document(windows, windows_per_document);
    }
    plan
}
