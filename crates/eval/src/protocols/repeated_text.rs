//! `repeated_text`: a passage repeated to the length, its last copy scored.

use super::keys::{Key, Keys, WINDOWS_PER_DOCUMENT};
use super::rules::{Documents, Given, Rules};
use crate::memory_check;
use crate::metrics::Metric;
use crate::plan::{Plan, Window};
use crate::source::Source;
use crate::text::{Material, Text};
use longwave_core::{Error, Result};
use longwave_data::Split;
use longwave_model::config::Resolved;

const PASSAGE: Key = Key::tokens(
    "passage",
    "tokens of a passage. Default: `train.length` or half of the shortest of\n`lengths`, whichever is \
     less.",
);

/// See [`repeated_text`].
#[derive(Clone, Copy, Debug)]
pub struct RepeatedText;

impl Rules for RepeatedText {
    fn description(&self) -> &'static str {
        "A passage repeated to the length, its last copy scored: what a reader gains from a copy that lies\nin its \
         context."
    }

    fn keys(&self) -> &'static [Key] {
        &[WINDOWS_PER_DOCUMENT, PASSAGE]
    }

    /// One passage for all lengths, so that they score the same tokens, each after a whole copy.
    fn resolve(&self, block: &Given<'_>) -> Result<Keys> {
        let shortest = block.shortest;
        let passage = block.get(PASSAGE).unwrap_or_else(|| (shortest / 2).min(block.train_length).max(1));
        if 2 * passage > shortest {
            let allowed = format!("it must be at most half of the shortest of `lengths`, {shortest}");
            return Err(block
                .error("passage", passage, allowed)
                .hint("every scored token needs a whole copy of its passage before it"));
        }
        Ok(block.keys.clone().with(PASSAGE, passage))
    }

    fn material(&self) -> Material {
        Material::Repeated
    }

    fn text(&self, keys: &Keys, length: usize, source: &Source<'_>) -> Result<Text> {
        Ok(source.tiled(keys.at(PASSAGE), length))
    }

    fn plan(&self, keys: &Keys, length: usize, documents: &Documents<'_>) -> Plan {
        repeated_text(documents.tokens, length, keys.at(PASSAGE), keys.windows_per_document())
    }

    fn too_short(&self, keys: &Keys, _length: usize, split: Split, longest: usize) -> Error {
        let passage = keys.at(PASSAGE);
        Error::failed(format!(
            "no document of the {split} split holds a passage of {passage} tokens: the longest has {longest}"
        ))
        .hint("set a shorter `passage`, or use a corpus of longer documents")
    }

    fn at_one_length(&self, keys: &Keys, length: usize) -> std::result::Result<Keys, &'static str> {
        if 2 * keys.at(PASSAGE) > length {
            return Err("it must hold two copies of the passage, `passage`");
        }
        Ok(keys.clone())
    }

    fn check_memory(&self, _keys: &Keys, length: usize, model: &Resolved, free: Option<u64>) -> Result<()> {
        memory_check::of_text(length, model, free)
    }

    fn shown(&self) -> &'static [Metric] {
        &[Metric::Accuracy, Metric::Perplexity]
    }

    fn keys_of_rows(&self) -> &'static [Key] {
        &[PASSAGE]
    }

    fn same_tokens_at_every_length(&self, _keys: &Keys, _lengths: &[usize]) -> bool {
        true
    }

    fn in_words(&self, keys: &Keys) -> String {
        let passage = keys.at(PASSAGE);
        format!("the last copy of passages of {passage} tokens, repeated to the length")
    }
}

/// Passages of `passage` tokens, side by side, each repeated from its beginning to a window of
/// `length + 1` tokens; the last `passage` tokens of each window are scored.
///
/// Whatever the length, the same tokens follow the same tokens, each with a whole copy of the passage
/// before it at least; what grows is the number of copies. Windows count tokens in the repeated text
/// (see [`crate::Text::tiled`]): window `m` of a document is `m * (length + 1)..(m + 1) * (length + 1)`.
/// The rest of a document shorter than a passage is left out, and a document without a whole passage
/// skipped.
///
/// Source: the columns "repeated" of Su Jianlin's tables (kexue.fm 9708 and following), with passages of
/// up to the training length.
///
/// # Panics
/// Unless `1 <= passage` and `2 * passage <= length`.
pub fn repeated_text(
    documents: &[usize],
    length: usize,
    passage: usize,
    windows_per_document: Option<usize>,
) -> Plan {
    assert!(1 <= passage && 2 * passage <= length, "repeated_text needs 1 <= passage <= length / 2");
    let mut plan = Plan::default();
    for (document, &tokens) in documents.iter().enumerate() {
        let windows = (0..tokens / passage).map(|window| {
            let (start, end) = (window * (length + 1), (window + 1) * (length + 1));
            Window { document, start, first: end - passage, end }
        });
        plan.add_document(windows, windows_per_document);
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::super::tests::rows;
    use super::*;

    #[test]
    fn repeated_text_scores_a_copy_of_each_passage() {
        let plan = repeated_text(&[10, 3, 8], 8, 4, None);
        assert_eq!(rows(&plan), [[0, 0, 5, 9], [0, 9, 14, 18], [2, 0, 5, 9], [2, 9, 14, 18]]);
        assert_eq!(plan.skipped_documents, 1);
        assert_eq!(repeated_text(&[10], 8, 4, Some(1)).windows.len(), 1);
        // The first scored token has the whole passage before it, at any length.
        for length in [8, 9, 11, 64] {
            let plan = repeated_text(&[8], length, 4, None);
            assert!(plan.windows.iter().all(|w| w.first - w.start > 4 && w.targets() == 4));
        }
    }
}
