//! One measured value: of one seed with its error over documents, or of several seeds with their spread.
//!
//! The perplexity of several seeds is `exp` of the mean of their losses, so that one bad seed of 5,000 does not hide two
//! of 500. Its spread is the standard deviation of those losses, in per cent of the perplexity: 100 times the deviation
//! in nats. Everything else is averaged as it is, with the deviation in its own unit.

use crate::grid::Entry;
use longwave_eval::statistics::{mean, standard_deviation};
use longwave_eval::{Metric, ResultRow};

#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub metric: Metric,
    /// The value; the mean over seeds where there are several.
    pub value: f64,
    /// Its standard error over documents (of a perplexity `ppl * nll_se`, the delta method), or its interval where the
    /// metric has one; its spread over seeds where there are several.
    pub error: Option<Spread>,
    /// How many seeds it is the mean of.
    pub seeds: usize,
    /// Whether it is the best of its run and length, the window baseline aside.
    pub best: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// In the unit of the value.
    Absolute(f64),
    /// Both ends of the 95% interval of one seed's value.
    Interval(f64, f64),
    /// Of a perplexity over seeds: the standard deviation of the loss, in nats. Tables have it in per cent of the
    /// perplexity.
    Relative(f64),
}

impl Spread {
    /// Both ends of an error bar around `value`.
    pub fn ends(self, value: f64) -> (f64, f64) {
        match self {
            Self::Absolute(error) => (value - error, value + error),
            Self::Interval(low, high) => (low, high),
            Self::Relative(nats) => (value * (-nats).exp(), value * nats.exp()),
        }
    }
}

/// Nats of loss in per cent of the perplexity.
pub fn percent(nats: f64) -> String {
    let percent = 100.0 * nats;
    if percent < 99.95 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

impl Cell {
    /// The cell of the rows of one length, one per seed; `None` where none has the metric.
    pub fn new(metric: Metric, rows: &[&ResultRow]) -> Option<Self> {
        let factor = metric.factor();
        let measured = rows.iter().filter_map(|row| {
            let interval =
                row.interval(metric).map(|(low, high)| Spread::Interval(factor * low, factor * high));
            let error = || row.error(metric).map(|error| Spread::Absolute(factor * error));
            Some((factor * row.value(metric)?, interval.or_else(error)))
        });
        let measured: Vec<(f64, Option<Spread>)> = measured.collect();
        let (value, error) = match measured.as_slice() {
            [] => return None,
            [(value, error)] => (*value, *error),
            _ if metric.is_exponential() => {
                let losses: Vec<f64> = rows.iter().map(|row| row.nll()).collect();
                let (mean, deviation) = mean_and_deviation(&losses);
                (mean.exp(), deviation.map(Spread::Relative))
            }
            several => {
                let values: Vec<f64> = several.iter().map(|(value, _)| *value).collect();
                return Self::of_seeds(metric, &values);
            }
        };
        Some(Self { metric, value, error, seeds: measured.len(), best: false })
    }

    /// The cell of values of seeds whose errors are not known; `None` without a value.
    pub fn of_seeds(metric: Metric, values: &[f64]) -> Option<Self> {
        let (value, error) = match values {
            [] => return None,
            [value] => (*value, None),
            several => mean_and_deviation(several),
        };
        Some(Self { metric, value, error: error.map(Spread::Absolute), seeds: values.len(), best: false })
    }

    pub(crate) fn entry(&self) -> Entry {
        let (value, error) = self.texts();
        Entry { value, error, best: self.best, ..Entry::default() }
    }

    /// The value, and its error to the same decimal place, in per cent, or as an interval in brackets.
    pub fn texts(&self) -> (String, Option<String>) {
        match self.error {
            Some(Spread::Relative(nats)) if self.value.is_finite() => {
                (self.metric.shown(self.value, None).0, Some(percent(nats)))
            }
            Some(Spread::Interval(low, high)) => {
                let [low, high] = [low, high].map(|end| self.metric.shown(end, None).0);
                (self.metric.shown(self.value, None).0, Some(format!("[{low}, {high}]")))
            }
            Some(Spread::Absolute(error)) => self.metric.shown(self.value, Some(error)),
            _ => self.metric.shown(self.value, None),
        }
    }
}

/// Mean and standard deviation of two values or more; no deviation where one is not finite.
fn mean_and_deviation(values: &[f64]) -> (f64, Option<f64>) {
    let deviation = standard_deviation(values).filter(|deviation| deviation.is_finite());
    (mean(values).unwrap_or(f64::NAN), deviation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    fn seeds(ppl: &[f64]) -> Vec<ResultRow> {
        let row = |(seed, ppl): (usize, &f64)| ResultRow {
            seed: seed as u64,
            ..example::row("rope", "direct", 128, *ppl)
        };
        ppl.iter().enumerate().map(row).collect()
    }

    fn cell(metric: Metric, rows: &[ResultRow]) -> Cell {
        Cell::new(metric, &rows.iter().collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_perplexity_over_seeds_is_exp_of_the_mean_loss() {
        // Losses ln 10 - 0.2, ln 10 and ln 10 + 0.2.
        let rows = seeds(&[10.0 * (-0.2f64).exp(), 10.0, 10.0 * 0.2f64.exp()]);
        let of = cell(Metric::Perplexity, &rows);
        let Some(Spread::Relative(nats)) = of.error else { panic!("{of:?}") };
        assert!((of.value - 10.0).abs() < 1e-12 && (nats - 0.2).abs() < 1e-12 && of.seeds == 3);
        assert_eq!(of.texts(), ("10.00".to_owned(), Some("20.0%".to_owned())));
        let (low, high) = of.error.unwrap().ends(of.value);
        assert!(
            (low - rows[0].value(Metric::Perplexity).unwrap()).abs() < 1e-12
                && (high - rows[2].value(Metric::Perplexity).unwrap()).abs() < 1e-12
        );
    }

    #[test]
    fn one_bad_seed_does_not_make_the_table_say_nothing() {
        let of = cell(Metric::Perplexity, &seeds(&[500.0, 600.0, 5000.0]));
        let (value, error) = of.texts();
        // The mean of the perplexities is 2033 ±2569.
        assert_eq!((value.as_str(), error.as_deref()), ("1145", Some("128%")));
        let (low, _) = of.error.unwrap().ends(of.value);
        assert!(low > 0.0, "an error bar ends above 0");
    }

    #[test]
    fn one_seed_has_its_error_over_documents_and_a_share_its_own_unit() {
        let one = cell(Metric::Perplexity, &seeds(&[10.0]));
        assert_eq!(one.error, Some(Spread::Absolute(0.1)));
        let mut rows = seeds(&[10.0, 11.0]);
        rows = rows.into_iter().zip([0.4, 0.6]).map(|(row, share)| row.with("accuracy", share)).collect();
        let share = cell(Metric::Accuracy, &rows);
        assert!((share.value - 50.0).abs() < 1e-9);
        assert_eq!(share.texts().1.as_deref(), Some("14.1"));
    }

    #[test]
    fn what_is_no_number_has_no_spread() {
        let mut rows = seeds(&[10.0, 11.0]);
        rows[0] = rows[0].clone().with("nll", f64::NAN).with("ppl", f64::NAN);
        assert_eq!(cell(Metric::Perplexity, &rows).texts(), ("nan".to_owned(), None));
        rows[0] = rows[0].clone().with("nll", 2000.0).with("ppl", f64::INFINITY);
        assert_eq!(cell(Metric::Perplexity, &rows).texts(), ("inf".to_owned(), None));
        assert_eq!(Cell::new(Metric::Perplexity, &[]), None);
    }
}
