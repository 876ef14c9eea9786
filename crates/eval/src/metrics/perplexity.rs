//! `perplexity`: the exponential of the loss.

use super::measure::{Absent, Column, Measure};
use super::sums::Facts;
use serde_json::Value;

/// `exp` of the mean negative log likelihood; infinite where that overflows.
#[derive(Clone, Copy, Debug)]
pub struct Perplexity;

impl Measure for Perplexity {
    fn unit(&self) -> &'static str {
        "perplexity"
    }

    fn column(&self) -> Option<Column> {
        Some(Column { absent: Absent::Never, error_in_rows: false, ..Column::new("ppl", "ppl_se") })
    }

    fn derived(&self, column: &str, facts: &Facts<'_>) -> Option<Value> {
        (column == "ppl_se").then(|| self.error(facts).into())
    }

    fn is_comparable(&self) -> bool {
        false
    }

    fn is_exponential(&self) -> bool {
        true
    }

    fn measure(&self, facts: &Facts<'_>) -> Option<(f64, Option<f64>)> {
        Some((facts.values.get("nll")?.exp(), None))
    }

    /// Infinite where it is too large for a number, NaN where the loss is none.
    fn value(&self, facts: &Facts<'_>) -> Option<f64> {
        let finite = facts.values.get("ppl").filter(|value| value.is_finite());
        finite.or_else(|| facts.values.get("nll").map(f64::exp))
    }

    /// The delta method: `ppl * nll_se`.
    fn error(&self, facts: &Facts<'_>) -> Option<f64> {
        let error = facts.values.get("ppl")? * facts.values.get("nll_se")?;
        Some(error).filter(|error| error.is_finite())
    }

    fn title(&self) -> &'static str {
        "Perplexity"
    }

    fn texts(&self, value: f64, error: Option<f64>) -> (String, Option<String>) {
        let decimals = match value {
            value if value < 99.995 => 2,
            value if value < 999.95 => 1,
            value if value < 99_999.5 => 0,
            _ => return (format!("{value:.1e}"), error.map(|error| format!("{error:.0e}"))),
        };
        (format!("{value:.decimals$}"), error.map(|error| format!("{error:.decimals$}")))
    }
}
