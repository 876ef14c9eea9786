//! The value of a metric in a row, and its parts by document: what two readings are compared by.

use longwave_eval::metrics::Documents;
use longwave_eval::{Metric, ResultRow, WINDOW_BASELINE};

#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    pub row: &'a ResultRow,
    baseline: Option<&'a ResultRow>,
    pub metric: Metric,
    /// The seed that it is paired by.
    pub seed: u64,
    pub value: f64,
}

/// The window baseline of a row: the same run and the same targets.
pub(crate) fn baseline_of<'a>(
    row: &ResultRow,
    rows: impl IntoIterator<Item = &'a ResultRow>,
) -> Option<&'a ResultRow> {
    let targets = |row: &ResultRow| {
        let mut settings = row.settings.clone();
        settings.exact = None;
        (settings, row.seed, row.step, row.config_hash.clone(), row.checkpoint.clone())
    };
    let wanted = targets(row);
    let mut rows = rows.into_iter();
    rows.find(|other| other.extend == WINDOW_BASELINE && row.same_text(other) && targets(other) == wanted)
}

impl<'a> Sample<'a> {
    /// The value that a row holds; `None` where it holds none. Where the metric needs the row's window baseline, it is
    /// looked up in `rows`.
    pub fn new(
        metric: Metric,
        row: &'a ResultRow,
        rows: impl IntoIterator<Item = &'a ResultRow>,
    ) -> Option<Self> {
        let baseline = if metric.needs_baseline() { Some(baseline_of(row, rows)?) } else { None };
        let value = metric.value(&row.facts(baseline))?;
        Some(Self { row, baseline, metric, seed: row.seed, value })
    }

    /// What a share goes up by where one more of it is right; nothing for other metrics.
    pub(crate) fn step(&self) -> Option<f64> {
        let counted = || self.documents().map_or(self.row.documents as u64, |it| it.weights.iter().sum());
        self.metric.is_share().then(|| 1.0 / counted() as f64)
    }

    /// Its parts by document; `None` where the row does not hold them.
    pub(crate) fn documents(&self) -> Option<Documents> {
        self.metric.documents(&self.row.facts(self.baseline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::tests::row;
    use std::f64::consts::LN_2;

    fn value(metric: Metric, row: &ResultRow, rows: &[ResultRow]) -> Option<f64> {
        Sample::new(metric, row, rows).map(|sample| sample.value)
    }

    #[test]
    fn the_parts_by_document_make_up_the_value() {
        let mut rows =
            [row("ntk", 256, 0, &[1.0, 2.0, 3.0]), row("window_baseline", 256, 0, &[1.5, 1.0, 1.5])];
        rows[1].settings.exact = Some(false);
        let it = &mut rows[0];
        it.bytes = 90;
        it.values.set("bpb", Some(60.0 / (LN_2 * 90.0)));
        it.values.set("accuracy", Some(0.8));
        it.values.set("exact_match", Some(1.0 / 3.0));
        it.per_document = it
            .per_document
            .take()
            .map(|sums| sums.with_counts("correct", vec![10, 9, 5]).with_counts("bytes", vec![20, 30, 40]));
        // What attention does is in rows of its own protocol alone.
        let of_attention = |metric: &Metric| metric.held_by() == Metric::UnseenAngles.held_by();
        for metric in Metric::comparable().filter(|metric| !of_attention(metric)) {
            let sample = Sample::new(metric, &rows[0], &rows).unwrap();
            let documents = sample.documents().unwrap();
            let mean = documents.sums.iter().sum::<f64>() / documents.weights.iter().sum::<u64>() as f64;
            assert!((mean - sample.value).abs() < 1e-12, "{}: {mean}, {}", metric.name(), sample.value);
        }
        assert!((value(Metric::BaselineDifference, &rows[0], &rows).unwrap() - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_row_without_it_says_nothing() {
        let rows = [row("ntk", 256, 0, &[1.0]), row("window_baseline", 256, 1, &[1.0])];
        for metric in [Metric::Accuracy, Metric::ExactMatch, Metric::BitsPerByte, Metric::BaselineDifference]
        {
            assert_eq!(value(metric, &rows[0], &rows), None, "{}", metric.name());
        }
        assert_eq!(value(Metric::Loss, &rows[0], &rows), Some(1.0));
    }
}
