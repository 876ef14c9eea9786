//! `by_position`: the loss at every place of a window.

use super::keys::{Key, Keys, MAX_LENGTH, WINDOWS_PER_DOCUMENT};
use super::rules::{Documents, Given, Rules};
use crate::plan::{Plan, Window, full_windows};
use longwave_core::Result;

const BUCKET: Key = Key::tokens("bucket", "places that are averaged into one point. Default: `\"L/8\"`.");

/// See [`by_position`].
#[derive(Clone, Copy, Debug)]
pub struct ByPosition;

impl Rules for ByPosition {
    fn description(&self) -> &'static str {
        "Full windows side by side, and the loss at every place of the window. Lengths that divide `max_length`\n\
         score the same tokens."
    }

    fn keys(&self) -> &'static [Key] {
        &[MAX_LENGTH, WINDOWS_PER_DOCUMENT, BUCKET]
    }

    fn resolve(&self, block: &Given<'_>) -> Result<Keys> {
        let bucket = block.get(BUCKET).unwrap_or_else(|| (block.train_length / 8).max(1));
        Ok(block.keys.clone().with(BUCKET, bucket))
    }

    fn plan(&self, keys: &Keys, length: usize, documents: &Documents<'_>) -> Plan {
        let max_length = keys.at(MAX_LENGTH);
        let limit = keys.windows_per_document().unwrap_or(usize::MAX);
        let kept = |tokens: usize| max_length * limit.min((tokens - 1) / max_length) + 1;
        by_position(&documents.scored_at_every_length(max_length, kept), length)
    }

    /// A window that does not divide the longest leaves out a tail.
    fn same_tokens_at_every_length(&self, keys: &Keys, lengths: &[usize]) -> bool {
        keys.max_length().is_some_and(|max| lengths.iter().all(|length| max.is_multiple_of(*length)))
    }

    fn bucket(&self, keys: &Keys) -> Option<usize> {
        keys.get(BUCKET.name)
    }

    fn in_words(&self, keys: &Keys) -> String {
        format!("full windows side by side{}", keys.over_max_length())
    }
}

/// Full windows side by side, every place of which is scored, for the loss by position.
///
/// The target at place `p = 0..length` of a window has `p + 1` tokens of context. A tail shorter than
/// a window is left out, so that every place is scored equally often.
///
/// # Panics
/// `length` is 0.
pub fn by_position(documents: &[usize], length: usize) -> Plan {
    assert!(length > 0, "a window without tokens has no place to score");
    let mut plan = Plan::default();
    for (document, &tokens) in documents.iter().enumerate() {
        let windows = full_windows(tokens, length, length).map(|start| Window {
            document,
            start,
            first: start + 1,
            end: start + length + 1,
        });
        plan.add_document(windows, None);
    }
    plan
}
