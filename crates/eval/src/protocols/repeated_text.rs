//! `repeated_text`: a passage repeated to the length, its last copy scored.

use super::keys::{Key, Keys, PASSAGE, TARGET, WINDOWS_PER_DOCUMENT};
use super::rules::{Documents, Given, Rules};
use crate::memory_check;
use crate::metrics::Metric;
use crate::plan::{Plan, Window};
use crate::source::Source;
use crate::text::{Material, Text};
use longwave_core::{Error, Result};
use longwave_data::Split;
use longwave_model::resolved::Resolved;

/// See [`repeated_text`].
#[derive(Clone, Copy, Debug)]
pub struct RepeatedText;

impl Rules for RepeatedText {
    fn description(&self) -> &'static str {
        "A passage repeated to the length, the end of its last copy scored: what a reader gains from a copy\nthat lies \
         in its context."
    }

    fn keys(&self) -> &'static [Key] {
        &[TARGET, WINDOWS_PER_DOCUMENT, PASSAGE]
    }

    /// One passage and one target for all lengths, so that they score the same tokens. The copy must be within reach of
    /// the longest length, and by default not of the window baseline.
    fn resolve(&self, block: &Given<'_>) -> Result<Keys> {
        let (shortest, longest) = (block.shortest, block.longest);
        let passage = block.get(PASSAGE).unwrap_or(block.train_length + 1);
        let target = block.get(TARGET).unwrap_or_else(|| block.train_length.min(passage).min(shortest));
        let most = passage.min(shortest);
        if target > most {
            let limit = if passage < shortest { "the passage" } else { "the shortest of `lengths`" };
            let allowed = format!("it must be at most {most}, {limit}");
            return Err(block.error("target", target, allowed).hint("score fewer tokens"));
        }
        let keys = block.keys.clone().with(PASSAGE, passage).with(TARGET, target);
        let reach = reach(&keys);
        if longest < reach {
            let allowed = format!(
                "no length reaches back to a copy of a passage of {passage} tokens: that takes {reach} tokens"
            );
            return Err(block.error("lengths", longest, allowed).hint(format!(
                "add a length of {reach} tokens or more, or set a shorter `passage`; the window baseline sees a copy up to \
                 {} tokens back",
                block.train_length
            )));
        }
        Ok(keys)
    }

    fn material(&self) -> Material {
        Material::Repeated
    }

    fn text(&self, keys: &Keys, length: usize, source: &Source<'_>) -> Result<Text> {
        Ok(source.tiled(keys.at(PASSAGE), length))
    }

    fn plan(&self, keys: &Keys, length: usize, documents: &Documents<'_>) -> Plan {
        let (passage, target) = (keys.at(PASSAGE), keys.at(TARGET));
        repeated_text(documents.tokens, length, passage, target, keys.windows_per_document())
    }

    fn too_short(&self, keys: &Keys, _length: usize, split: Split, longest: usize) -> Error {
        let passage = keys.at(PASSAGE);
        Error::failed(format!(
            "no document of the {split} split holds a passage of {passage} tokens: the longest has {longest}"
        ))
        .hint("set a shorter `passage`, or use a corpus of longer documents")
    }

    fn at_one_length(&self, keys: &Keys, length: usize) -> std::result::Result<Keys, &'static str> {
        if length < reach(keys) {
            return Err("it must reach back to a copy of the passage, `passage + target - 1` tokens");
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
        match keys.get(TARGET.name) {
            Some(target) => format!(
                "the last {target} tokens of passages of {passage}, repeated to the length (each copy is in reach from {} \
                 tokens on)",
                reach(keys)
            ),
            // Rows of other programs, which scored whole passages.
            None => format!("the last copy of passages of {passage} tokens, repeated to the length"),
        }
    }
}

/// The length from which the copy of every scored token lies within its context.
fn reach(keys: &Keys) -> usize {
    keys.at(PASSAGE).saturating_add(keys.at(TARGET)) - 1
}

/// Passages of `passage` tokens, side by side, each repeated until its copies fill a window of `length + 1` tokens and
/// the last one ends it; the last `target` tokens of each window are scored.
///
/// Whatever the length, the same tokens follow the same tokens, and the copy of each lies `passage` tokens before it.
/// A reading of fewer than `passage + target - 1` tokens does not hold all of these copies, a shorter one than `passage`
/// none. The window baseline holds none where the passage is longer than its window. Windows count tokens in the
/// repeated text (see [`crate::Text::tiled`]): window `m` of a document is `m * (length + 1)..(m + 1) * (length + 1)`.
/// The rest of a document shorter than a passage is left out, and a document without a whole passage skipped.
///
/// Source: the columns "repeated" of Su Jianlin's tables (kexue.fm 9708 and following), whose passages are shorter than
/// the training length.
///
/// # Panics
/// Unless `1 <= target <= passage` and `target <= length`.
pub fn repeated_text(
    documents: &[usize],
    length: usize,
    passage: usize,
    target: usize,
    windows_per_document: Option<usize>,
) -> Plan {
    assert!(
        1 <= target && target <= passage && target <= length,
        "repeated_text needs 1 <= target <= passage and target <= length"
    );
    let mut plan = Plan::default();
    for (document, &tokens) in documents.iter().enumerate() {
        let windows = (0..tokens / passage).map(|window| {
            let (start, end) = (window * (length + 1), (window + 1) * (length + 1));
            Window { document, start, first: end - target, end }
        });
        plan.add_document(windows, windows_per_document);
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::super::tests::rows;
    use super::*;
    use crate::plan::truncate;

    #[test]
    fn repeated_text_scores_the_end_of_each_passage() {
        let plan = repeated_text(&[10, 3, 8], 8, 4, 4, None);
        assert_eq!(rows(&plan), [[0, 0, 5, 9], [0, 9, 14, 18], [2, 0, 5, 9], [2, 9, 14, 18]]);
        assert_eq!(plan.skipped_documents, 1);
        assert_eq!(repeated_text(&[10], 8, 4, 4, Some(1)).windows.len(), 1);
        assert_eq!(rows(&repeated_text(&[10], 8, 4, 3, Some(1))), [[0, 0, 6, 9]]);
    }

    /// How many targets have their copy in their context.
    fn copies_in_reach(plan: &Plan, passage: usize) -> usize {
        let of = |w: &Window| (w.first..w.end).filter(|target| *target >= w.start + passage).count();
        plan.windows.iter().map(of).sum()
    }

    #[test]
    fn the_default_passage_is_out_of_reach_of_the_window_baseline_and_of_no_longer_context() {
        let keys = Keys::default();
        let (shortest, longest) = (128, 1024);
        let given = Given {
            section: "eval",
            train_length: 128,
            shortest,
            longest,
            keys: &keys,
            corpus: None,
            split: Split::Test,
        };
        let keys = RepeatedText.resolve(&given).unwrap();
        let passage = keys.at(PASSAGE);
        for length in [128, 256, 512, 1024] {
            let plan = RepeatedText.plan(&keys, length, &Documents { tokens: &[1000, 400], answers: &[] });
            let copies = if length == 128 { 0 } else { plan.targets() };
            assert_eq!(copies_in_reach(&plan, passage), copies, "{length}");
            for exact in [false, true] {
                assert_eq!(copies_in_reach(&truncate(&plan, 128, exact), passage), 0, "{length}");
            }
        }
    }
}
