//! Windows read while attention is looked at, for an explanation and for the rows of `diagnostics`.

use super::attention::Watcher;
use super::gather::{Gathered, Key};
use super::shown;
use crate::measure::{Measurement, Subject};
use crate::metrics::attention::{ALL, OfAttention};
use crate::plan::{Plan, Window};
use crate::text::Text;
use longwave_core::Result;
use longwave_model::attention::watched;
use longwave_position::Reading;

pub(super) fn inputs(text: &Text, window: &Window, reading: &Reading) -> Vec<u32> {
    let mut inputs = text.read(window.document, window.start..window.end - 1);
    let length = inputs.len();
    text.begin(&mut inputs, length, reading.layout());
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
    let shown = shown::of_run(subject)?;
    let mut watcher = Watcher::new(subject.model, reading, train_length, &shown);
    for (window, document) in windows {
        let tokens = inputs(text, window, reading);
        let first = window.first - 1 - window.start;
        watcher.text(&tokens, first, document, gathered)?;
        read(tokens.len())?;
    }
    watcher.finish(gathered);
    Ok(())
}

/// What attention does in the windows of a measurement, those of `plan`, as sums of each document by the names of metrics: the mean of the document times its
/// scored `tokens`, so that every metric has the same weights.
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
    let of = |metric: &OfAttention| {
        let means = gathered.of_documents(&Key::whole(metric.diagnostic))?;
        let sums = means.iter().zip(tokens).map(|(mean, &tokens)| mean.unwrap_or_default() * tokens as f64);
        Some((metric.column.name, sums.collect()))
    };
    Ok(ALL.iter().filter_map(of).collect())
}
