//! What two ways of reading are compared by: the loss, or another measure that rows hold.

use longwave_core::config::unknown_kind;
use longwave_core::{Error, Result};
use longwave_eval::{Protocol, ResultRow, Split, WINDOW_BASELINE};
use longwave_experiment::Config;
use serde::{Deserialize, Serialize};
use std::f64::consts::LN_2;
use std::str::FromStr;

/// A measure of how a length is read, in the unit of a row's field.
///
/// Tables show [`longwave_report::Metric`]; this is what differences are made of, so it can be summed over
/// documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Mean negative log likelihood, in nats per token.
    #[default]
    Loss,
    /// Share of the scored tokens that the model held most likely, from 0 to 1.
    Accuracy,
    /// Share of a task's sequences answered without a wrong token, from 0 to 1.
    ExactMatch,
    /// The loss in bits per byte of text.
    BitsPerByte,
    /// The loss minus that of the window baseline of the same run at the same length, in nats per token.
    BaselineDifference,
}

/// What one row says by a metric.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    row: &'a ResultRow,
    baseline: Option<&'a ResultRow>,
    metric: Metric,
    seed: u64,
    value: f64,
}

/// Sums over each document, and what they are divided by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Documents {
    /// `[documents]`.
    pub(crate) sums: Vec<f64>,
    /// Tokens, or sequences `[documents]`.
    pub(crate) weights: Vec<u64>,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Loss, Self::Accuracy, Self::ExactMatch, Self::BitsPerByte, Self::BaselineDifference];

    /// The name, as a study file and `--metric` have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Accuracy => "accuracy",
            Self::ExactMatch => "exact_match",
            Self::BitsPerByte => "bits_per_byte",
            Self::BaselineDifference => "baseline_difference",
        }
    }

    /// What a difference of 1 is.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Loss | Self::BaselineDifference => "nats per token",
            Self::Accuracy => "share of the tokens",
            Self::ExactMatch => "share of the sequences",
            Self::BitsPerByte => "bits per byte",
        }
    }

    /// Whether less is better.
    pub fn falls(self) -> bool {
        !self.is_share()
    }

    /// Whether it goes from 0 to 1.
    pub fn is_share(self) -> bool {
        matches!(self, Self::Accuracy | Self::ExactMatch)
    }

    /// Which rows hold it.
    pub fn found_in(self) -> &'static str {
        match self {
            Self::Loss | Self::BaselineDifference => "every row has it",
            Self::Accuracy => "every row has it but those of earlier programs",
            Self::ExactMatch => "rows of the protocol `task` have it, of runs with a `data.task`",
            Self::BitsPerByte => "rows of text as it is written have it: neither tasks nor `repeated_text`",
        }
    }

    /// Whether rows of a protocol hold it.
    pub fn is_of(self, protocol: Protocol) -> bool {
        match self {
            Self::Loss | Self::Accuracy | Self::BaselineDifference => true,
            Self::ExactMatch => protocol == Protocol::Task,
            Self::BitsPerByte => !matches!(protocol, Protocol::Task | Protocol::RepeatedText),
        }
    }

    /// Whether a run has an evaluation that `wanted` takes and whose rows hold it.
    pub fn is_measured(self, config: &Config, wanted: impl Fn(Protocol, Split) -> bool) -> bool {
        config.evaluate.iter().any(|block| self.is_of(block.protocol) && wanted(block.protocol, block.split))
    }

    /// What a row says; `None` where it does not. `rows` are searched for the row's window baseline, where
    /// the metric needs it.
    pub fn sample<'a>(
        self,
        row: &'a ResultRow,
        rows: impl IntoIterator<Item = &'a ResultRow>,
    ) -> Option<Sample<'a>> {
        let baseline = match self {
            Self::BaselineDifference => Some(baseline_of(row, rows)?),
            _ => None,
        };
        let value = match self {
            Self::Loss => row.nll,
            Self::Accuracy => row.accuracy?,
            Self::ExactMatch => row.exact_match?,
            Self::BitsPerByte => row.bpb?,
            Self::BaselineDifference => row.nll - baseline?.nll,
        };
        Some(Sample { row, baseline, metric: self, seed: row.seed, value })
    }
}

impl FromStr for Metric {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|metric| metric.name() == name);
        found.ok_or_else(|| unknown_kind("--metric", name, Self::ALL.map(Self::name)))
    }
}

/// The window baseline of a row: the same run and the same targets.
fn baseline_of<'a>(row: &ResultRow, rows: impl IntoIterator<Item = &'a ResultRow>) -> Option<&'a ResultRow> {
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
    /// The row.
    pub fn row(&self) -> &'a ResultRow {
        self.row
    }

    /// The seed that it is paired by.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The same, to be paired as if of another seed.
    #[must_use]
    pub fn as_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The measure.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Its parts by document; `None` where the row does not tell of them. Bits per byte take a token's
    /// bytes as given: the loss over tokens, in bits, times tokens over bytes.
    pub(crate) fn documents(&self) -> Option<Documents> {
        let sums = self.row.per_document.as_ref()?;
        let tokens = || sums.tokens.clone();
        Some(match self.metric {
            Metric::Loss => Documents { sums: sums.nll.clone(), weights: tokens() },
            Metric::Accuracy => {
                let correct = sums.correct.as_ref()?.iter().map(|&correct| correct as f64);
                Documents { sums: correct.collect(), weights: tokens() }
            }
            Metric::ExactMatch => {
                let answers = sums.tokens.iter().zip(sums.correct.as_ref()?);
                let exact = answers.map(|(&tokens, &correct)| f64::from(tokens > 0 && tokens == correct));
                let asked = sums.tokens.iter().map(|&tokens| u64::from(tokens > 0));
                Documents { sums: exact.collect(), weights: asked.collect() }
            }
            Metric::BitsPerByte => {
                let factor = self.row.tokens as f64 / (LN_2 * self.row.bytes as f64);
                Documents { sums: sums.nll.iter().map(|nll| factor * nll).collect(), weights: tokens() }
            }
            Metric::BaselineDifference => {
                let baseline = self.baseline?.per_document.as_ref()?;
                if baseline.tokens != sums.tokens {
                    return None;
                }
                let differences = sums.nll.iter().zip(&baseline.nll).map(|(nll, base)| nll - base);
                Documents { sums: differences.collect(), weights: tokens() }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::row;

    fn value(metric: Metric, row: &ResultRow, rows: &[ResultRow]) -> Option<f64> {
        metric.sample(row, rows).map(|sample| sample.value())
    }

    #[test]
    fn the_parts_by_document_make_up_the_value() {
        let mut rows =
            [row("ntk", 256, 0, &[1.0, 2.0, 3.0]), row("window_baseline", 256, 0, &[1.5, 1.0, 1.5])];
        rows[1].settings.exact = Some(false);
        let it = &mut rows[0];
        (it.bpb, it.bytes) = (Some(60.0 / (LN_2 * 90.0)), 90);
        (it.accuracy, it.exact_match) = (Some(0.8), Some(1.0 / 3.0));
        it.per_document.as_mut().unwrap().correct = Some(vec![10, 9, 5]);
        for metric in Metric::ALL {
            let sample = metric.sample(&rows[0], &rows).unwrap();
            let documents = sample.documents().unwrap();
            let mean = documents.sums.iter().sum::<f64>() / documents.weights.iter().sum::<u64>() as f64;
            assert!((mean - sample.value()).abs() < 1e-12, "{}: {mean}, {}", metric.name(), sample.value());
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

    #[test]
    fn names_are_those_of_the_file() {
        for metric in Metric::ALL {
            assert_eq!(serde_json::to_value(metric).unwrap(), metric.name());
            assert_eq!(metric.name().parse::<Metric>().unwrap(), metric);
        }
    }
}
