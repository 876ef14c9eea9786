//! Paired differences: the same seeds, the same documents, two readings.

use crate::sample::Sample;
use crate::statistics::{Interval, bootstrap, mean, mean_interval, ratio_interval};
use longwave_eval::metrics::Documents;

/// The measure of one side minus that of the other, in the unit of the metric.
#[derive(Clone, Debug, PartialEq)]
pub struct PairedDifference {
    /// Mean over the seeds that both have.
    pub mean: f64,
    /// Seeds that both have.
    pub seeds: usize,
    /// Documents that both scored; 0 where rows do not list their documents, or list different ones.
    pub documents: usize,
    /// Student's interval over seeds; `None` for fewer than two.
    pub by_seed: Option<Interval>,
    /// Student's interval over documents, seeds averaged; `None` for fewer than two.
    pub by_document: Option<Interval>,
    /// Bootstrap interval over seeds and documents.
    pub bootstrap: Option<(f64, f64)>,
}

impl PairedDifference {
    /// The difference `a - b`, paired by seed and by document, with intervals at `level`. `None` where no
    /// seed is on both sides, or a measure is no number.
    pub fn new(a: &[Sample<'_>], b: &[Sample<'_>], level: f64) -> Option<Self> {
        let pairs: Vec<(&Sample<'_>, &Sample<'_>)> = a
            .iter()
            .filter_map(|a| Some((a, b.iter().find(|b| b.seed() == a.seed())?)))
            .filter(|(a, b)| a.value().is_finite() && b.value().is_finite())
            .collect();
        let by_seed: Vec<f64> = pairs.iter().map(|(a, b)| a.value() - b.value()).collect();
        let sums = Sums::of(&pairs);
        let (by_document, bootstrap, documents) = match &sums {
            Some(sums) => (
                sums.interval(level),
                bootstrap(&sums.differences, &sums.weights, level, 0),
                sums.documents(),
            ),
            None => (None, None, 0),
        };
        Some(Self {
            mean: mean(&by_seed)?,
            seeds: pairs.len(),
            documents,
            by_seed: mean_interval(&by_seed, level),
            by_document,
            bootstrap,
        })
    }

    /// The interval over what varies: seeds where there are several, or else documents.
    pub fn interval(&self) -> Option<Interval> {
        self.by_seed.or(self.by_document)
    }
}

/// Differences per seed and document.
struct Sums {
    /// `a - b` summed over each document, `[seeds, documents]`.
    differences: Vec<Vec<f64>>,
    /// What the sums are divided by: tokens or sequences of each document.
    weights: Vec<u64>,
}

impl Sums {
    /// `None` where a row does not list its documents, or they are not the same throughout.
    fn of(pairs: &[(&Sample<'_>, &Sample<'_>)]) -> Option<Self> {
        let (first, _) = pairs.first()?;
        let weights = first.documents()?.weights;
        let of = |sample: &Sample<'_>| -> Option<Documents> {
            let documents = sample.documents()?;
            (documents.weights == weights && sample.row().same_text(first.row())).then_some(documents)
        };
        let differences = pairs
            .iter()
            .map(|(a, b)| Some(of(a)?.sums.iter().zip(of(b)?.sums).map(|(a, b)| a - b).collect()))
            .collect::<Option<Vec<Vec<f64>>>>()?;
        Some(Self { differences, weights })
    }

    fn documents(&self) -> usize {
        self.weights.iter().filter(|weight| **weight > 0).count()
    }

    fn interval(&self, level: f64) -> Option<Interval> {
        let seeds = self.differences.len() as f64;
        let averaged: Vec<f64> = (0..self.weights.len())
            .map(|document| self.differences.iter().map(|seed| seed[document]).sum::<f64>() / seeds)
            .collect();
        ratio_interval(&averaged, &self.weights, level)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use longwave_eval::row::FORMAT;
    use longwave_eval::{DocumentSums, Metric, Protocol, ResultRow, Split};

    /// A row of one seed with these losses per document of 10 tokens each.
    pub(crate) fn row(extend: &str, length: usize, seed: u64, documents: &[f64]) -> ResultRow {
        let nll = documents.iter().sum::<f64>() / documents.len() as f64;
        let value = serde_json::json!({
            "format": FORMAT, "run": "r", "config_hash": "c", "seed": seed, "encoding": "rope",
            "extend": extend, "extend_config": { "kind": extend }, "checkpoint": "last", "step": 6,
            "protocol": Protocol::FixedTarget, "split": Split::Test, "train_length": 128, "length": length,
            "tokens": 10 * documents.len(), "documents": documents.len(), "skipped_documents": 0,
            "bytes": 0, "nll": nll, "ppl": nll.exp(), "device": "CPU", "threads": 1, "version": "0",
        });
        let mut row: ResultRow = serde_json::from_value(value).unwrap();
        let sums = documents.iter().map(|nll| nll * 10.0).collect();
        row.per_document = Some(DocumentSums::new(vec![10; documents.len()]).with_numbers("nll", sums));
        row
    }

    fn losses(rows: &[ResultRow]) -> Vec<Sample<'_>> {
        rows.iter().map(|row| Sample::new(Metric::Loss, row, rows).unwrap()).collect()
    }

    #[test]
    fn pairing_takes_out_what_seeds_and_documents_share() {
        let hard = [[2.0, 4.0, 3.0], [3.0, 5.0, 4.0]];
        let a: Vec<ResultRow> = (0..2).map(|s| row("ntk", 256, s, &hard[s as usize])).collect();
        let b: Vec<ResultRow> =
            (0..2).map(|s| row("yarn", 256, s, &hard[s as usize].map(|nll| nll - 0.5))).collect();
        // The order of seeds on the other side does not matter.
        let right: Vec<Sample<'_>> = losses(&b).into_iter().rev().collect();
        let difference = PairedDifference::new(&losses(&a), &right, 0.95).unwrap();
        assert!((difference.mean - 0.5).abs() < 1e-12);
        assert_eq!((difference.seeds, difference.documents), (2, 3));
        assert!(difference.by_seed.unwrap().se < 1e-12 && difference.by_document.unwrap().se < 1e-12);
        let (low, high) = difference.bootstrap.unwrap();
        assert!((low - 0.5).abs() < 1e-9 && (high - 0.5).abs() < 1e-9);
    }

    #[test]
    fn other_seeds_are_no_pair_and_other_documents_no_documents() {
        let a = [row("ntk", 256, 0, &[1.0, 2.0])];
        let b = [row("ntk", 256, 1, &[1.0, 2.0])];
        assert_eq!(PairedDifference::new(&losses(&a), &losses(&b), 0.95), None);
        let c = [row("ntk", 256, 0, &[1.0, 2.0, 3.0])];
        let difference = PairedDifference::new(&losses(&a), &losses(&c), 0.95).unwrap();
        assert_eq!((difference.documents, difference.by_document), (0, None));
        // As many tokens of other text are other documents all the same.
        let mut d = [row("ntk", 256, 0, &[2.0, 2.0])];
        (d[0].corpus, d[0].bytes) = (Some("other".to_owned()), 0);
        assert!(PairedDifference::new(&losses(&a), &losses(&d), 0.95).unwrap().by_document.is_some());
        let mut a = a;
        a[0].corpus = Some("one".to_owned());
        let difference = PairedDifference::new(&losses(&a), &losses(&d), 0.95).unwrap();
        assert_eq!((difference.documents, difference.by_document), (0, None));
    }
}
