//! How well a metric that explains predicts one that matters.
//!
//! A point is a reading of a run at a length above L: what each metric changed by since the reading of the same run at L. Spearman's rank correlation
//! is Pearson's of the ranks, the mean rank where values are alike. Of several metrics, only points that have all of them count, so that they are
//! compared on the same.
//!
//! Errors are the jackknife's over seeds: with `z = atanh r` of all `n` seeds and `z_i` of all but seed i, the pseudo-values `n z - (n - 1) z_i` are
//! taken for `n` independent numbers, and Student's t with `n - 1` degrees of freedom gives the interval around `z`, and so around `r`. On this
//! scale an error does not shrink where `r` comes near 1. How much stronger one metric is than another is judged by `|r|` itself. Intervals say what
//! other seeds of the same models would give. Few seeds have few resamples, so a bootstrap would call three seeds sure. Few points agree perfectly by
//! chance (three in one of three studies), so there is no interval where fewer than six are left without one of the seeds. Holm's correction
//! counts all metrics and all pairs of the table.
//!
//! Sources: R. A. Fisher, "On the probable error of a coefficient of correlation deduced from a small sample", Metron 1 (1921), 3-32. C. Spearman, "The proof and measurement of association between two things", American Journal of Psychology 15 (1904), 72-101. J. W. Tukey,
//! "Bias and confidence in not-quite large samples", Annals of Mathematical Statistics 29 (1958), 614.

use crate::correlation::Correlation;
use crate::results::{Measured, Results};
use crate::statistics::{Interval, holm, standard_deviation};
use longwave_eval::{Metric, Settings, WINDOW_BASELINE};
use std::collections::BTreeSet;

/// The probability that any verdict of a table is wrong.
const ALPHA: f64 = 0.05;
/// The fewest points without any one seed that give an interval.
pub const LEAST_POINTS: usize = 6;
/// A perfect correlation has no end on Fisher's scale.
const LARGEST: f64 = 1.0 - 1e-12;

#[derive(Clone, Debug, PartialEq)]
pub struct Correlated {
    pub correlation: Correlation,
    pub points: usize,
    pub runs: usize,
    pub of: Vec<(Metric, Estimate)>,
    /// How much stronger one is than another, by size: both, and the difference of their absolute values.
    pub pairs: Vec<(Metric, Metric, Estimate)>,
}

/// A number with its interval, at the level of Holm's step; `None` of one seed, of few points, and where it is no number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub value: f64,
    pub interval: Option<Interval>,
    pub level: f64,
}

impl Correlation {
    /// What the rows say.
    pub fn measure(&self, results: &Results) -> Correlated {
        let points = self.points(results);
        let seeds: BTreeSet<u64> = points.iter().map(|point| point.seed).collect();
        let of_points = |without: Option<u64>| {
            self.correlations(&points.iter().filter(|point| Some(point.seed) != without).collect::<Vec<_>>())
        };
        let found = of_points(None);
        let without: Vec<Vec<f64>> = seeds.iter().map(|seed| of_points(Some(*seed))).collect();
        let left = |seed: &u64| points.iter().filter(|point| point.seed != *seed).count();
        let are_enough = seeds.iter().all(|seed| left(seed) >= LEAST_POINTS);
        let estimate = |of: &dyn Fn(&[f64]) -> f64, scale: fn(f64) -> f64| {
            let without: Vec<f64> = without.iter().map(|one| scale(of(one))).collect();
            let interval = jackknife(scale(of(&found)), &without).filter(|_| are_enough);
            Estimate { value: of(&found), interval, level: 1.0 - ALPHA }
        };
        let count = self.of.len();
        let pairs: Vec<(usize, usize)> =
            (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b))).collect();
        let single = (0..count).map(|at| estimate(&|one| one[at], fisher));
        let both = pairs.iter().map(|&(a, b)| estimate(&|one| one[a].abs() - one[b].abs(), |it| it));
        let mut of = corrected(single.chain(both).collect());
        let both = of.split_off(count);
        for interval in of.iter_mut().filter_map(|it| it.interval.as_mut()) {
            (interval.low, interval.high) = (interval.low.tanh(), interval.high.tanh());
        }
        let of = self.of.iter().copied().zip(of);
        let pairs = pairs.into_iter().zip(both).map(|((a, b), it)| (self.of[a], self.of[b], it));
        Correlated {
            points: points.len(),
            runs: points.iter().map(|point| point.run).collect::<BTreeSet<_>>().len(),
            of: of.collect(),
            pairs: pairs.collect(),
            correlation: self.clone(),
        }
    }

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
            let facts = it.row.facts(results.baseline_of(it));
            self.of
                .iter()
                .chain([&self.with])
                .map(|metric| metric.value(&facts).filter(|value| value.is_finite()))
                .collect()
        };
        // One run may be read on several texts, or in several ways.
        let mut at_training: Vec<(usize, &str, Settings, Vec<f64>)> = Vec::new();
        for it in rows.iter().filter(|it| it.row.settings.length == it.row.settings.train_length) {
            if let Some(values) = values(it) {
                at_training.push((it.run, &it.extend, it.row.settings.without_length(), values));
            }
        }
        let point = |it: &&Measured| {
            let settings = it.row.settings.without_length();
            let is_of = |(run, extend, of, _): &&(usize, &str, Settings, Vec<f64>)| {
                (*run, *extend, of) == (it.run, it.extend.as_str(), &settings)
            };
            let (.., before) = at_training.iter().find(is_of)?;
            let changes: Vec<f64> =
                values(it)?.iter().zip(before).map(|(now, before)| now - before).collect();
            let (predicted, of) = changes.split_last()?;
            Some(Point { run: it.run, seed: it.row.seed, of: of.to_vec(), predicted: *predicted })
        };
        let longer = rows.iter().filter(|it| it.row.settings.length > it.row.settings.train_length);
        longer.filter_map(point).collect()
    }
}

fn fisher(correlation: f64) -> f64 {
    correlation.clamp(-LARGEST, LARGEST).atanh()
}

/// The interval of a number from what it is without each seed; `None` for fewer than two, or where it is no number.
fn jackknife(all: f64, without: &[f64]) -> Option<Interval> {
    let n = without.len() as f64;
    let pseudo: Vec<f64> = without.iter().map(|one| n * all - (n - 1.0) * one).collect();
    let se = standard_deviation(&pseudo)? / n.sqrt();
    (se.is_finite() && all.is_finite()).then(|| Interval::new(all, se, n - 1.0, 1.0 - ALPHA))
}

/// The same at the levels that Holm's procedure gives them.
fn corrected(estimates: Vec<Estimate>) -> Vec<Estimate> {
    let p_value = |it: &Estimate| it.interval.map_or(f64::NAN, |interval| interval.p_against(0.0));
    let p: Vec<f64> = estimates.iter().map(p_value).collect();
    let steps = holm::steps(&p, ALPHA, p.len());
    let of = |(it, step): (Estimate, holm::Step)| Estimate {
        interval: it.interval.map(|interval| interval.at(step.level)),
        level: step.level,
        ..it
    };
    estimates.into_iter().zip(steps).map(of).collect()
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

    /// A correlation of two metrics over rows of `seeds` seeds: each metric and the loss are drawn by `draw`.
    fn drawn(seeds: u64, readings: usize, draw: &mut dyn FnMut() -> f64) -> Correlated {
        let mut results = crate::results::tests::results();
        let template = results.rows[0].clone();
        results.rows.clear();
        for seed in 0..seeds {
            for reading in 0..readings {
                for length in [128, 256] {
                    let mut it = template.clone();
                    (it.run, it.extend) = (seed as usize, format!("r{reading}"));
                    (it.row.seed, it.row.settings.length) = (seed, length);
                    for name in ["nll", "accuracy"] {
                        it.row.values.set(name, Some(draw()));
                    }
                    results.rows.push(it);
                }
            }
        }
        let (protocol, split) = (template.row.settings.protocol, template.row.settings.split);
        Correlation { of: vec![Metric::Accuracy], with: Metric::Loss, protocol, split }.measure(&results)
    }

    #[test]
    fn metrics_that_say_nothing_predict_in_one_study_of_twenty_at_most() {
        let mut state = 7u64;
        let mut draw = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        for (seeds, readings) in [(2, 6), (3, 6), (5, 6), (3, 3), (4, 2), (7, 1), (8, 1)] {
            let is_wrong =
                |found: Correlated| found.of[0].1.interval.is_some_and(|it| it.low > 0.0 || it.high < 0.0);
            let wrong = (0..1000).filter(|_| is_wrong(drawn(seeds, readings, &mut draw))).count();
            // 5% of 1000 and three standard deviations of that count. A percentile bootstrap has 490, 230 and 140.
            assert!(wrong <= 71, "{seeds} seeds of {readings}: {wrong} of 1000");
        }
        // Each of these would be wrong in 7 to 46 of 100 studies.
        for (seeds, readings) in [(2, 2), (2, 5), (3, 1), (5, 1)] {
            assert_eq!(
                drawn(seeds, readings, &mut draw).of[0].1.interval,
                None,
                "{seeds} seeds of {readings}"
            );
        }
        assert_eq!(drawn(0, 0, &mut draw).points, 0);
    }

    #[test]
    fn a_change_is_since_the_reading_of_the_same_text() {
        let mut results = crate::results::tests::results();
        let template = results.rows[0].clone();
        results.rows.clear();
        // On each text the loss grows by as much as the accuracy falls, from levels of its own.
        for (text, level) in [(None, 1.0), (Some("other".to_owned()), 3.0)] {
            for (length, change) in [(128, 0.0), (256, 0.125), (512, 0.25), (1024, 0.375)] {
                let mut it = template.clone();
                (it.row.settings.length, it.row.settings.corpus_hash) = (length, text.clone());
                it.row.values.set("nll", Some(level + change));
                it.row.values.set("accuracy", Some(0.5 - change));
                results.rows.push(it);
            }
        }
        let (protocol, split) = (template.row.settings.protocol, template.row.settings.split);
        let asked = Correlation { of: vec![Metric::Accuracy], with: Metric::Loss, protocol, split };
        let found = asked.measure(&results);
        assert_eq!(found.points, 6);
        assert!((found.of[0].1.value + 1.0).abs() < 1e-12, "{:?}", found.of);
    }

    #[test]
    fn pseudo_values_are_what_each_seed_adds() {
        // Of a mean, the pseudo-values are the numbers themselves: 0.2, 0.4 and 0.9 without each are 0.65, 0.55 and 0.3.
        let interval = jackknife(0.5, &[0.65, 0.55, 0.3]).unwrap();
        let plain = crate::statistics::mean_interval(&[0.2, 0.4, 0.9], 0.95).unwrap();
        assert!((interval.se - plain.se).abs() < 1e-12 && (interval.high - plain.high).abs() < 1e-12);
        assert_eq!(jackknife(0.5, &[0.5]), None);
    }
}
