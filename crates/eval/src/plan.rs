//! Which windows of which documents are read, and which of their tokens are scored.
//!
//! The functions know nothing of a model: they turn the token counts of documents into a [`Plan`].
//! A token `t`, counted from 0 in its document, is a target when it is predicted from the tokens
//! `start..t` before it in its window. The context is `t - start` tokens and at least one, so token 0
//! of a document is never scored. No window crosses a document.
//!
//! A reading of `N` tokens `start..start + N` predicts the targets `start + 1..=start + N`; a window
//! of length `N` therefore needs `N + 1` tokens, and a document with fewer is skipped and counted.

/// One reading of a document, in tokens counted from the document's beginning.
///
/// The model reads the tokens `start..end - 1`, and the targets `first..end` are scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Index of the document; skipped documents count.
    pub document: usize,
    /// The first token read.
    pub start: usize,
    /// The first target scored; `start < first`.
    pub first: usize,
    /// One past the last target scored; `first < end`.
    pub end: usize,
}

impl Window {
    /// How many tokens the model reads: the context of the last target.
    pub fn reading(&self) -> usize {
        self.end - 1 - self.start
    }

    /// How many targets are scored.
    pub fn targets(&self) -> usize {
        self.end - self.first
    }
}

/// The name of the measurement that a longer context must beat: the context truncated to the last `train.length`
/// tokens, see [`truncate`].
pub const WINDOW_BASELINE: &str = "window_baseline";

/// The windows of one measurement, in the order of the documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What is read and scored.
    pub windows: Vec<Window>,
    /// Documents too short for one window.
    pub skipped_documents: usize,
}

impl Plan {
    /// The targets of all windows together.
    pub fn targets(&self) -> usize {
        self.windows.iter().map(Window::targets).sum()
    }

    /// The longest reading, in tokens; 0 for an empty plan.
    pub fn longest_reading(&self) -> usize {
        self.windows.iter().map(Window::reading).max().unwrap_or(0)
    }

    /// Adds up to `limit` of one document's windows; a document without any is skipped.
    fn add_document(&mut self, windows: impl Iterator<Item = Window>, limit: Option<usize>) {
        let before = self.windows.len();
        self.windows.extend(windows.take(limit.unwrap_or(usize::MAX)));
        if self.windows.len() == before {
            self.skipped_documents += 1;
        }
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
/// twice), which [`crate::EvaluateConfig::validate`] makes sure of.
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

/// Every target of every document, by windows of `length` tokens that advance by `stride`.
///
/// Window `m` begins at `m * stride` and scores what no earlier window has scored, so every target
/// but those of the first window has at least `length - stride + 1` tokens of context. The last
/// window may be shorter: no tail is dropped. `windows_per_document` keeps the first so many windows
/// of each document.
///
/// # Panics
/// Unless `1 <= stride <= length`.
pub fn sliding(
    documents: &[usize],
    length: usize,
    stride: usize,
    windows_per_document: Option<usize>,
) -> Plan {
    assert!(1 <= stride && stride <= length, "sliding needs 1 <= stride <= length");
    let mut plan = Plan::default();
    for (document, &tokens) in documents.iter().enumerate() {
        let mut first = 1;
        let windows = (0..).step_by(stride).map_while(|start: usize| {
            if tokens <= length || first >= tokens {
                return None;
            }
            let end = (start + length + 1).min(tokens);
            let window = Window { document, start, first, end };
            first = end;
            Some(window)
        });
        plan.add_document(windows, windows_per_document);
    }
    plan
}

/// Every target once, by windows that lie side by side: [`sliding`] with a stride of `length`.
///
/// # Panics
/// `length` is 0.
pub fn non_overlapping(documents: &[usize], length: usize, windows_per_document: Option<usize>) -> Plan {
    sliding(documents, length, length, windows_per_document)
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

/// The window baseline: the targets of `plan`, each with a context of at most `window` tokens.
///
/// A target whose context is at most `window` keeps it, in one reading with its like. The others are
/// read in blocks of `max(1, window / 8)` targets (of one target where `exact`): a block's reading
/// begins `window` tokens before its last target, so that no target sees more than `window` tokens,
/// and none less than `window` minus the block but one. `exact` gives every target
/// `min(context, window)` tokens, at one reading per target.
///
/// # Panics
/// `window` is 0.
pub fn truncate(plan: &Plan, window: usize, exact: bool) -> Plan {
    assert!(window > 0, "a target needs one token of context at least");
    let block = if exact { 1 } else { (window / 8).max(1) };
    let mut windows = Vec::new();
    for &original in &plan.windows {
        let within = (original.start + window + 1).clamp(original.first, original.end);
        if original.first < within {
            windows.push(Window { end: within, ..original });
        }
        for first in (within..original.end).step_by(block) {
            let end = (first + block).min(original.end);
            windows.push(Window { start: end - 1 - window, first, end, ..original });
        }
    }
    Plan { windows, skipped_documents: plan.skipped_documents }
}

/// Where windows of `length + 1` tokens begin in a document of `tokens`, `stride` apart.
fn full_windows(tokens: usize, length: usize, stride: usize) -> impl Iterator<Item = usize> {
    (0..tokens.saturating_sub(length)).step_by(stride)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(plan: &Plan) -> Vec<[usize; 4]> {
        plan.windows.iter().map(|w| [w.document, w.start, w.first, w.end]).collect()
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

    #[test]
    fn windows_per_document_keeps_the_first() {
        let documents = [200, 40, 150];
        let plan = fixed_target(&documents, 32, 16, 64, 64, Some(1));
        assert_eq!(rows(&plan), [[0, 32, 49, 65], [2, 32, 49, 65]]);
        assert_eq!(plan.skipped_documents, 1);
        assert_eq!(rows(&sliding(&[200], 64, 32, Some(2))), [[0, 0, 1, 65], [0, 32, 65, 97]]);
        assert_eq!(by_position(&documents, 64, Some(1)).windows.len(), 2);
    }

    #[test]
    fn sliding_scores_every_token_once_and_keeps_its_context() {
        for tokens in [65, 66, 97, 128, 129, 200] {
            for stride in [1, 7, 32, 64] {
                let plan = sliding(&[tokens], 64, stride, None);
                let mut next = 1;
                for window in &plan.windows {
                    assert_eq!(window.first, next);
                    assert!(window.reading() <= 64);
                    assert!(window.start == 0 || window.first - window.start > 64 - stride);
                    next = window.end;
                }
                assert_eq!(next, tokens, "stride {stride}");
            }
        }
    }

    #[test]
    fn a_document_of_exactly_one_window_is_read_and_one_token_less_is_skipped() {
        assert_eq!(rows(&non_overlapping(&[9], 8, None)), [[0, 0, 1, 9]]);
        assert_eq!(non_overlapping(&[8, 0], 8, None), Plan { windows: vec![], skipped_documents: 2 });
        assert_eq!(by_position(&[8, 9], 8, None).skipped_documents, 1);
    }

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

    #[test]
    fn exact_truncation_gives_every_target_the_shorter_context() {
        let plan = sliding(&[100], 64, 16, None);
        let truncated = truncate(&plan, 8, true);
        let contexts = |plan: &Plan| {
            let of = |w: &Window| (w.first..w.end).map(|t| t - w.start).collect::<Vec<_>>();
            plan.windows.iter().flat_map(of).collect::<Vec<_>>()
        };
        let expected: Vec<usize> = contexts(&plan).iter().map(|&context| context.min(8)).collect();
        assert_eq!(contexts(&truncated), expected);
    }

    #[test]
    fn blocks_never_see_more_than_the_window() {
        let plan = fixed_target(&[513, 1100], 512, 128, 512, 512, None);
        let truncated = truncate(&plan, 128, false);
        assert_eq!(truncated.targets(), plan.targets());
        assert_eq!(truncated.windows.len(), 8 * plan.windows.len());
        assert!(truncated.windows.iter().all(|w| w.reading() == 128 && w.first - w.start == 113));
        // A window that is short enough already stays as it is.
        let short = fixed_target(&[513], 128, 128, 512, 512, None);
        assert_eq!(truncate(&short, 128, false), short);
    }
}
