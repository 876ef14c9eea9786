//! The windows of documents that are read, and the tokens in them that are scored.

pub use longwave_position::extensions::WINDOW_BASELINE;

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

    pub fn targets(&self) -> usize {
        self.end - self.first
    }
}

/// The windows of one measurement, in the order of the documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub windows: Vec<Window>,
    /// Documents too short for one window.
    pub skipped_documents: usize,
}

impl Plan {
    pub fn targets(&self) -> usize {
        self.windows.iter().map(Window::targets).sum()
    }

    pub fn tokens_read(&self) -> usize {
        self.windows.iter().map(Window::reading).sum()
    }

    /// The longest reading, in tokens; 0 for an empty plan.
    pub fn longest_reading(&self) -> usize {
        self.windows.iter().map(Window::reading).max().unwrap_or(0)
    }

    /// Adds up to `limit` of one document's windows; a document without any is skipped.
    pub(crate) fn add_document(&mut self, windows: impl Iterator<Item = Window>, limit: Option<usize>) {
        let before = self.windows.len();
        self.windows.extend(windows.take(limit.unwrap_or(usize::MAX)));
        if self.windows.len() == before {
            self.skipped_documents += 1;
        }
    }
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
pub(crate) fn full_windows(tokens: usize, length: usize, stride: usize) -> impl Iterator<Item = usize> {
    (0..tokens.saturating_sub(length)).step_by(stride)
}
