//! `difference`: the loss minus that of the reference reading, which the row holds.

use super::measure::Measure;
use super::sums::Facts;
use crate::column::ColumnInfo;
use serde_json::Value;

/// The loss minus that of another reading of the same tokens, in nats per token; see [`crate::reference`].
#[derive(Clone, Copy, Debug)]
pub struct Difference;

impl Measure for Difference {
    fn unit(&self) -> &'static str {
        "nats per token"
    }

    fn is_comparable(&self) -> bool {
        false
    }

    fn csv_columns(&self) -> Vec<ColumnInfo> {
        vec![
            ColumnInfo::text(
                "against",
                "the reading that `difference` is taken to: `window_baseline`, or a config as JSON",
            ),
            ColumnInfo::number("difference", "the loss minus that of the other reading, in nats per token"),
            ColumnInfo::number("difference_se", "standard error of `difference` over documents"),
        ]
    }

    fn derived(&self, column: &str, facts: &Facts<'_>) -> Option<Value> {
        let difference = facts.difference;
        match column {
            // `window_baseline`, or the config of an extension as JSON.
            "against" => Some(match difference.map(|difference| difference.against) {
                Some(config @ Value::Object(_)) => config.to_string().into(),
                name => name.cloned().into(),
            }),
            "difference" => Some(self.value(facts).into()),
            "difference_se" => Some(self.error(facts).into()),
            _ => None,
        }
    }

    fn value(&self, facts: &Facts<'_>) -> Option<f64> {
        facts.difference.map(|difference| difference.nll)
    }

    fn error(&self, facts: &Facts<'_>) -> Option<f64> {
        facts.difference.and_then(|difference| difference.nll_se)
    }

    fn title(&self) -> &'static str {
        "Difference in nats"
    }

    fn texts(&self, value: f64, error: Option<f64>) -> (String, Option<String>) {
        // The sign of a value that rounds to 0 means nothing.
        let value = if value.abs() < 5e-4 { 0.0 } else { value };
        (format!("{value:+.3}"), error.map(|error| format!("{error:.3}")))
    }
}
