//! `non_overlapping`: windows side by side.

use super::keys::{Key, Keys};
use super::rules::{Documents, Rules};
use super::sliding::{STRIDE, sliding};
use crate::plan::Plan;

/// See [`non_overlapping`].
#[derive(Clone, Copy, Debug)]
pub struct NonOverlapping;

impl Rules for NonOverlapping {
    fn description(&self) -> &'static str {
        "Windows side by side, every token scored. Tokens early in a window have little context, and\nlonger windows \
         have fewer of them."
    }

    fn plan(&self, keys: &Keys, length: usize, documents: &Documents<'_>) -> Plan {
        non_overlapping(documents.tokens, length, keys.windows_per_document())
    }

    fn key_of_length(&self) -> Option<Key> {
        Some(STRIDE)
    }

    fn in_words(&self, _keys: &Keys) -> String {
        "windows side by side".into()
    }
}

/// Every target once, by windows that lie side by side: [`sliding`] with a stride of `length`.
///
/// # Panics
/// `length` is 0.
pub fn non_overlapping(documents: &[usize], length: usize, windows_per_document: Option<usize>) -> Plan {
    sliding(documents, length, length, windows_per_document)
}
