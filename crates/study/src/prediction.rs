//! How well a metric that explains predicts one that matters.
//!
//! A point is a reading of a run at a length above L: what each metric changed by since the reading of the same run at L. Spearman's rank correlation
//! is Pearson's of the ranks, the mean rank where values are alike. Of several metrics, only points that have all of them count, so that they are
//! compared on the same.
//!
//! Intervals are percentile bootstraps over seeds: a resample draws as many seeds as there are, with all readings of their runs. They say what other
//! seeds of the same models would give.
//!
//! Source: C. Spearman, "The proof and measurement of association between two things", American Journal of Psychology 15 (1904), 72-101.

use crate::correlation::Correlation;
use crate::results::{Measured, Results};
use crate::statistics::bootstrap::quantile;
use longwave_core::random::Stream;
use longwave_eval::{Metric, WINDOW_BASELINE};
use std::collections::{BTreeMap, BTreeSet};

/// Resamples that an interval is read from.
const RESAMPLES: u64 = 2_000;
/// The part of them inside of an interval.
const LEVEL: f64 = 0.95;

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Correlated {
    pub correlation: Correlation,
    pub points: usize,
    pub runs: usize,
    /// The rank correlation of each metric, with its interval.
    pub of: Vec<(Metric, Estimate)>,
    /// How much stronger one is than another, by size: both, and the difference of their absolute values.
    pub pairs: Vec<(Metric, Metric, Estimate)>,
}

/// A number with its interval; `None` of one seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub value: f64,
    pub interval: Option<(f64, f64)>,
}

impl Correlation {
    /// What the rows say; `None` where fewer than three points have all metrics.
    pub fn measure(&self, results: &Results) -> Option<Correlated> {
        let points = self.points(results);
        if points.len() < 3 {
            return None;
        }
        let seeds: Vec<u64> =
            points.iter().map(|point| point.seed).collect::<BTreeSet<_>>().into_iter().collect();
        let found = self.correlations(&points.iter().collect::<Vec<_>>());
        let mut drawn: Vec<Vec<f64>> = Vec::new();
        let mut stream = Stream::new(0, "correlation", 0);
        for _ in 0..if seeds.len() > 1 { RESAMPLES } else { 0 } {
            let chosen: Vec<u64> =
                seeds.iter().map(|_| seeds[stream.below(seeds.len() as u64) as usize]).collect();
            let resample: Vec<&Point> = chosen
                .iter()
                .flat_map(|seed| points.iter().filter(move |point| point.seed == *seed))
                .collect();
            drawn.push(self.correlations(&resample));
        }
        let estimate = |of: &dyn Fn(&[f64]) -> f64| {
            let mut values: Vec<f64> =
                drawn.iter().map(|one| of(one)).filter(|value| value.is_finite()).collect();
            values.sort_by(f64::total_cmp);
            let outside = (1.0 - LEVEL) / 2.0;
            let ends = || (quantile(&values, outside), quantile(&values, 1.0 - outside));
            Estimate { value: of(&found), interval: (values.len() > 1).then(ends) }
        };
        let of = self.of.iter().enumerate().map(|(at, metric)| (*metric, estimate(&|one| one[at])));
        let pairs = (0..self.of.len()).flat_map(|a| (a + 1..self.of.len()).map(move |b| (a, b)));
        let pairs =
            pairs.map(|(a, b)| (self.of[a], self.of[b], estimate(&|one| one[a].abs() - one[b].abs())));
        Some(Correlated {
            points: points.len(),
            runs: points.iter().map(|point| point.run).collect::<BTreeSet<_>>().len(),
            of: of.collect(),
            pairs: pairs.collect(),
            correlation: self.clone(),
        })
    }

    /// The rank correlation of each metric with what it predicts.
    fn correlations(&self, points: &[&Point]) -> Vec<f64> {
        let predicted = ranks(&points.iter().map(|point| point.predicted).collect::<Vec<_>>());
        let of = |at: usize| ranks(&points.iter().map(|point| point.of[at]).collect::<Vec<_>>());
        (0..self.of.len()).map(|at| pearson(&of(at), &predicted)).collect()
    }

    fn points(&self, results: &Results) -> Vec<Point> {
        let is_here = |it: &&Measured| {
            let settings = &it.row.settings;
            it.row.extend != WINDOW_BASELINE
                && settings.protocol == self.protocol
                && settings.split == self.split
        };
        let rows: Vec<&Measured> = results.of_last().filter(is_here).collect();
        let values = |it: &Measured| -> Option<Vec<f64>> {
            let facts = it.row.facts(None);
            self.of
                .iter()
                .chain([&self.with])
                .map(|metric| metric.value(&facts).filter(|value| value.is_finite()))
                .collect()
        };
        let mut at_training: BTreeMap<(usize, &str), Vec<f64>> = BTreeMap::new();
        for it in rows.iter().filter(|it| it.row.settings.length == it.row.settings.train_length) {
            if let Some(values) = values(it) {
                at_training.insert((it.run, &it.extend), values);
            }
        }
        let point = |it: &&Measured| {
            let before = at_training.get(&(it.run, it.extend.as_str()))?;
            let changes: Vec<f64> =
                values(it)?.iter().zip(before).map(|(now, before)| now - before).collect();
            let (predicted, of) = changes.split_last()?;
            Some(Point { run: it.run, seed: it.row.seed, of: of.to_vec(), predicted: *predicted })
        };
        let longer = rows.iter().filter(|it| it.row.settings.length > it.row.settings.train_length);
        longer.filter_map(point).collect()
    }
}

/// A reading: what each metric changed by, and what is predicted.
#[derive(Clone, Debug)]
struct Point {
    run: usize,
    seed: u64,
    of: Vec<f64>,
    predicted: f64,
}

/// The rank of each number, from 1; those alike share the mean of theirs.
fn ranks(numbers: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|a, b| numbers[*a].total_cmp(&numbers[*b]));
    let mut ranks = vec![0.0; numbers.len()];
    let mut start = 0;
    // In order, what is not below the next is like it.
    for alike in order.chunk_by(|a, b| numbers[*a] >= numbers[*b]) {
        let (first, last) = (start + 1, start + alike.len());
        for &index in alike {
            ranks[index] = f64::midpoint(first as f64, last as f64);
        }
        start = last;
    }
    ranks
}

/// Pearson's correlation; NaN where one does not vary.
fn pearson(a: &[f64], b: &[f64]) -> f64 {
    let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| a.iter().zip(b).map(|(a, b)| of(a - mean_a, b - mean_b)).sum::<f64>();
    sum(&|a, b| a * b) / (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_alike_share_their_rank() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
    }

    #[test]
    fn the_correlation_is_that_of_the_ranks() {
        // Spearman's rho without ties is 1 - 6 sum d^2 / (n (n^2 - 1)): d = (0, 1, -1, 0), so 1 - 12 / 60.
        let (a, b) = ([1.0, 2.0, 30.0, 400.0], [5.0, 7.0, 6.0, 8.0]);
        assert!((pearson(&ranks(&a), &ranks(&b)) - 0.8).abs() < 1e-12);
        assert!(pearson(&[1.0, 1.0], &[1.0, 2.0]).is_nan());
    }
}
