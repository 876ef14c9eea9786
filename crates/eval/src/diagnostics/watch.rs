//! Windows read while attention is looked at, for an explanation and for the rows of `diagnostics`.

use super::attention::{Watched, Watcher};
use super::finding::Diagnostic;
use super::gather::{Gathered, Key};
use crate::measure::{Measurement, Subject};
use crate::plan::{Plan, Window};
use crate::text::Text;
use longwave_core::Result;
use longwave_model::attention::watched;
use longwave_position::Reading;
use std::collections::BTreeMap;

/// The diagnostics that are metrics of rows, by the names of these.
const METRICS: [(Diagnostic, &str); 6] = [
    (Diagnostic::UnseenAngles, "unseen_angles"),
    (Diagnostic::FirstToken, "first_token"),
    (Diagnostic::EffectiveKeys, "effective_keys"),
    (Diagnostic::Entropy, "entropy"),
    (Diagnostic::BeyondLength, "beyond_length"),
    (Diagnostic::StableRank, "stable_rank"),
];

/// The tokens that a window reads.
pub(super) fn inputs(text: &Text, window: &Window) -> Vec<u32> {
    let mut inputs = text.read(window.document, window.start..window.end - 1);
    let length = inputs.len();
    text.begin(&mut inputs, length);
    inputs
}

/// Reads windows, each with the place of its sums, and adds what attention does there.
pub(super) fn watch<'w>(
    subject: &Subject<'_>,
    train_length: usize,
    reading: &Reading,
    text: &Text,
    windows: impl Iterator<Item = (&'w Window, usize)>,
    gathered: &mut Gathered,
    read: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<()> {
    let Subject { model, config, stage, .. } = *subject;
    let of = Watched { model, reading, train_length, shown_length: config.stage(stage).length };
    // Texts of a task have lengths of their own.
    let mut watchers: BTreeMap<usize, Watcher<'_>> = BTreeMap::new();
    for (window, document) in windows {
        let tokens = inputs(text, window);
        let first = window.first - 1 - window.start;
        let watcher = watchers.entry(tokens.len()).or_insert_with(|| Watcher::new(of, tokens.len()));
        watcher.text(&tokens, first, document, gathered)?;
        read(tokens.len())?;
    }
    if let Some(watcher) = watchers.values().next_back() {
        watcher.finish(gathered);
    }
    Ok(())
}

/// What attention does in the windows of a measurement, those of `plan`, as sums of each document by the names of metrics: the mean of the document times its
/// scored `tokens`, so that every metric has the same weights.
///
/// # Errors
/// The reading has no probabilities.
pub(crate) fn sums(
    subject: &Subject<'_>,
    task: &Measurement,
    plan: &Plan,
    train_length: usize,
    tokens: &[u64],
    read: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<Vec<(&'static str, Vec<f64>)>> {
    watched::check(&task.reading)?;
    let mut gathered = Gathered::new(tokens.len());
    let windows = plan.windows.iter().map(|window| (window, task.parts.of_window(window)));
    watch(subject, train_length, &task.reading, &task.text, windows, &mut gathered, read)?;
    let of = |&(diagnostic, name): &(Diagnostic, &'static str)| {
        let means = gathered.of_documents(&Key::whole(diagnostic))?;
        let sums = means.iter().zip(tokens).map(|(mean, &tokens)| mean.unwrap_or_default() * tokens as f64);
        Some((name, sums.collect()))
    };
    Ok(METRICS.iter().filter_map(of).collect())
}
