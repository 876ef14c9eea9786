//! What a cell of a table says.

use crate::table::perplexity;
use longwave_eval::{Protocol, ResultRow};

/// A measure of how well a length is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// `exp` of the mean loss.
    Perplexity,
    /// Per cent of the scored tokens that the model held most likely.
    Accuracy,
    /// Per cent of the sequences answered without a wrong token.
    ExactMatch,
    /// Mean loss minus that of another reading of the same tokens, in nats per token.
    Difference,
}

impl Metric {
    /// What tables of a protocol show, one table each; charts show the first.
    pub fn of(protocol: Protocol) -> &'static [Self] {
        match protocol {
            Protocol::Task => &[Self::ExactMatch, Self::Accuracy],
            Protocol::RepeatedText => &[Self::Accuracy, Self::Perplexity],
            _ => &[Self::Perplexity],
        }
    }

    /// The name, as a title begins.
    pub fn name(self) -> &'static str {
        match self {
            Self::Perplexity => "Perplexity",
            Self::Accuracy => "Accuracy in %",
            Self::ExactMatch => "Exact match in %",
            Self::Difference => "Difference in nats",
        }
    }

    /// The name within a sentence.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Perplexity => "perplexity",
            Self::Accuracy => "accuracy",
            Self::ExactMatch => "exact match",
            Self::Difference => "difference",
        }
    }

    /// What its charts' files are named.
    pub fn file(self) -> &'static str {
        match self {
            Self::Perplexity => "perplexity",
            Self::Accuracy => "accuracy",
            Self::ExactMatch => "exact_match",
            Self::Difference => "difference",
        }
    }

    /// Whether less is better.
    pub fn falls(self) -> bool {
        matches!(self, Self::Perplexity | Self::Difference)
    }

    /// What one row says and its standard error over documents; `None` where it does not say.
    pub fn measured(self, row: &ResultRow) -> Option<(f64, Option<f64>)> {
        let share = |share: Option<f64>, error: Option<f64>| {
            share.map(|share| (100.0 * share, error.map(|error| 100.0 * error)))
        };
        match self {
            Self::Perplexity => Some((perplexity(row), row.ppl_se())),
            Self::Accuracy => share(row.accuracy, row.accuracy_se),
            Self::ExactMatch => share(row.exact_match, row.exact_match_se),
            Self::Difference => row.difference.as_ref().map(|difference| (difference.nll, difference.nll_se)),
        }
    }

    /// A value, and its error to the same decimal place.
    pub fn texts(self, value: f64, error: Option<f64>) -> (String, Option<String>) {
        if !value.is_finite() {
            return (if value.is_nan() { "nan".into() } else { "inf".into() }, None);
        }
        let decimals = match (self, value) {
            (Self::Difference, _) => {
                // Of what rounds to nothing the sign says nothing.
                let value = if value.abs() < 5e-4 { 0.0 } else { value };
                return (format!("{value:+.3}"), error.map(|error| format!("{error:.3}")));
            }
            (Self::Accuracy | Self::ExactMatch, _) => 1,
            (Self::Perplexity, ppl) if ppl < 99.995 => 2,
            (Self::Perplexity, ppl) if ppl < 999.95 => 1,
            (Self::Perplexity, ppl) if ppl < 99_999.5 => 0,
            (Self::Perplexity, ppl) => {
                return (format!("{ppl:.1e}"), error.map(|error| format!("{error:.0e}")));
            }
        };
        (format!("{value:.decimals$}"), error.map(|error| format!("{error:.decimals$}")))
    }
}
