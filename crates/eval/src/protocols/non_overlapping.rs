//! `non_overlapping`: windows side by side.

use super::keys::{Key, Keys, MAX_LENGTH, WINDOWS_PER_DOCUMENT};
use super::rules::{Documents, Rules};
use super::sliding::{STRIDE, sliding};
use crate::plan::Plan;

/// [`sliding`] with a stride of `length`.
#[derive(Clone, Copy, Debug)]
pub struct NonOverlapping;

impl Rules for NonOverlapping {
    fn description(&self) -> &'static str {
        "Windows side by side, every token of the windows of `max_length` scored. Tokens early in a window have\n\
         little context, and longer windows have fewer of them."
    }

    fn keys(&self) -> &'static [Key] {
        &[MAX_LENGTH, WINDOWS_PER_DOCUMENT]
    }

    fn plan(&self, keys: &Keys, length: usize, documents: &Documents<'_>) -> Plan {
        let max_length = keys.at(MAX_LENGTH);
        let windows = keys.windows_per_document().unwrap_or(usize::MAX);
        let kept = |_| max_length.saturating_mul(windows).saturating_add(1);
        sliding(&documents.scored_at_every_length(max_length, kept), length, length)
    }

    fn same_tokens_at_every_length(&self, keys: &Keys, _lengths: &[usize]) -> bool {
        keys.max_length().is_some()
    }

    fn key_of_length(&self) -> Option<Key> {
        Some(STRIDE)
    }

    fn in_words(&self, keys: &Keys) -> String {
        format!("windows side by side{}", keys.over_max_length())
    }
}
