//! `fixed_target`: the same last tokens of the same windows at every length.

use super::keys::{Key, Keys, MAX_LENGTH, TARGET, WINDOWS_PER_DOCUMENT};
use super::rules::{Documents, Given, Rules};
use crate::plan::{Plan, Window, full_windows};
use longwave_core::Result;

const WINDOW_STRIDE: Key =
    Key::tokens("window_stride", "tokens from one window's beginning to the next. Default: `max_length`.")
        .always_in_rows();

/// See [`fixed_target`].
#[derive(Clone, Copy, Debug)]
pub struct FixedTarget;

impl Rules for FixedTarget {
    fn description(&self) -> &'static str {
        "The same last tokens of the same windows at every length; only the prefix grows."
    }

    fn keys(&self) -> &'static [Key] {
        &[TARGET, MAX_LENGTH, WINDOW_STRIDE, WINDOWS_PER_DOCUMENT]
    }

    fn resolve(&self, block: &Given<'_>) -> Result<Keys> {
        let (shortest, max_length) = (block.shortest, block.keys.at(MAX_LENGTH));
        let given = block.get(TARGET);
        let target = given.unwrap_or(block.train_length);
        // Of one that nobody gave, the lengths are at fault.
        if given.is_some() && target > max_length {
            let allowed = format!("it must be at most `max_length = {max_length}`");
            return Err(block
                .error("target", target, allowed)
                .hint("score fewer tokens, or set a larger `max_length`"));
        }
        if shortest < target {
            let allowed =
                format!("a length must be at least `target = {target}`, the tokens that are scored");
            let meant = block.meant_multiple().map(|meant| format!("{meant}; ")).unwrap_or_default();
            return Err(block.error("lengths", shortest, allowed).hint(format!(
                "{meant}remove it, or score fewer tokens at every length with `target = {shortest}`"
            )));
        }
        let window_stride = block.get(WINDOW_STRIDE).unwrap_or(max_length);
        if window_stride < target {
            let allowed = format!("it must be at least `target = {target}`, or tokens are scored twice");
            return Err(block
                .error("window_stride", window_stride, allowed)
                .hint(format!("use {target} or more, or leave it out for `max_length`")));
        }
        Ok(block.keys.clone().with(TARGET, target).with(WINDOW_STRIDE, window_stride))
    }

    fn plan(&self, keys: &Keys, length: usize, documents: &Documents<'_>) -> Plan {
        let (target, max_length, stride) = (keys.at(TARGET), keys.at(MAX_LENGTH), keys.at(WINDOW_STRIDE));
        fixed_target(documents.tokens, length, target, max_length, stride, keys.windows_per_document())
    }

    fn at_one_length(&self, keys: &Keys, length: usize) -> std::result::Result<Keys, &'static str> {
        if keys.at(TARGET) > length {
            return Err("it must hold the scored tokens, `target`");
        }
        Ok(keys.clone().with(MAX_LENGTH, length).with(WINDOW_STRIDE, length))
    }

    fn keys_of_rows(&self) -> &'static [Key] {
        &[TARGET, MAX_LENGTH, WINDOW_STRIDE]
    }

    fn same_tokens_at_every_length(&self, _keys: &Keys, _lengths: &[usize]) -> bool {
        true
    }

    fn in_words(&self, keys: &Keys) -> String {
        let (target, max_length, stride) = (keys.at(TARGET), keys.at(MAX_LENGTH), keys.at(WINDOW_STRIDE));
        format!("the last {target} tokens of windows of {max_length}, {stride} apart")
    }
}

/// The same targets at every length: the last `target` tokens of windows of `max_length + 1` tokens.
///
/// Windows begin at 0, `window_stride`, `2 * window_stride`, ... while they fit their document, and
/// each keeps its targets whatever `length` is; only the place where the reading begins moves. A
/// document shorter than `max_length + 1` tokens is skipped at every length.
/// `windows_per_document` keeps the first so many windows of each document.
///
/// Source: `eval_loss.py` of the `ReRoPE` repository (prefix of 0, L, 3L, ... before the same tokens).
///
/// # Panics
/// Unless `1 <= target <= length <= max_length` and `window_stride >= target` (no token is scored
/// twice), which [`FixedTarget`] checks.
pub fn fixed_target(
    documents: &[usize],
    length: usize,
    target: usize,
    max_length: usize,
    window_stride: usize,
    windows_per_document: Option<usize>,
) -> Plan {
    assert!(
        1 <= target && target <= length && length <= max_length && target <= window_stride,
        "fixed_target needs 1 <= target <= length <= max_length and target <= window_stride"
    );
    let mut plan = Plan::default();
    for (document, &tokens) in documents.iter().enumerate() {
        let windows = full_windows(tokens, max_length, window_stride).map(|begin| {
            let last = begin + max_length;
            Window { document, start: last - length, first: last + 1 - target, end: last + 1 }
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
    fn a_length_that_was_meant_as_a_multiple_is_told_so() {
        let hint = |train_length, shortest| {
            let keys = Keys::default().with(MAX_LENGTH, 512);
            let block = Given {
                section: "eval",
                train_length,
                shortest,
                longest: 512,
                keys: &keys,
                corpus: None,
                split: longwave_data::Split::Test,
            };
            FixedTarget.resolve(&block).unwrap_err().hint_text().unwrap().to_owned()
        };
        let or = "; remove it, or score fewer tokens at every length with `target = ";
        assert_eq!(hint(64, 8), format!("`\"8L\"` is 8 times the training length, 512 tokens{or}8`"));
        assert_eq!(hint(64, 1), format!("`\"L\"` is the training length, 64 tokens{or}1`"));
        // Nobody reads 100 times the training length.
        assert!(hint(128, 100).starts_with("remove it, or"));
    }

    #[test]
    fn fixed_target_scores_the_same_tokens_at_every_length() {
        let documents = [64, 65, 200];
        let targets = |length| {
            let plan = fixed_target(&documents, length, 16, 64, 64, None);
            assert_eq!(plan.longest_reading(), length);
            rows(&plan).iter().map(|[d, _, first, end]| [*d, *first, *end]).collect::<Vec<_>>()
        };
        assert_eq!(targets(64), targets(16));
        assert_eq!(targets(16), [[1, 49, 65], [2, 49, 65], [2, 113, 129], [2, 177, 193]]);
    }
}
