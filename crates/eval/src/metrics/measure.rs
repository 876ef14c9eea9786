//! What a metric says of itself.

use super::sums::{Documents, Facts, TokenSum};
use crate::column::ColumnInfo;
use crate::statistics::mean_over_documents;
use crate::text::Material;
use serde_json::Value;

/// A metric: its columns, its value and sums per document, and its words.
///
/// A metric with sums per document needs no more: its value is their mean, and its error follows. `compare` and the
/// claims of studies take every metric that has such sums.
///
/// The share of tokens that the model did not expect, with a loss above 5 nats:
///
/// ```
/// use longwave_eval::metrics::{Facts, Measure, TokenSum};
///
/// struct Surprise;
///
/// const SURPRISED: TokenSum =
///     TokenSum { name: "surprised", of: |score| f64::from(score.nll > 5.0), counts: true };
///
/// impl Measure for Surprise {
///     fn title(&self) -> &'static str {
///         "Tokens above 5 nats in %"
///     }
///
///     fn unit(&self) -> &'static str {
///         "the share of tokens"
///     }
///
///     fn is_share(&self) -> bool {
///         true
///     }
///
///     fn token_sum(&self) -> Option<TokenSum> {
///         Some(SURPRISED)
///     }
/// }
/// # use longwave_eval::{DocumentSums, metrics::Values};
/// # let sums = DocumentSums::new(vec![10, 30]).with_counts("surprised", vec![1, 5]);
/// # let values = Values::default();
/// # let facts = Facts { tokens: 40, bytes: 0, values: &values, per_document: Some(&sums), difference: None, baseline: None };
/// # assert_eq!(Surprise.measure(&facts).unwrap().0, 0.15);
/// ```
pub trait Measure: Sync {
    /// What a difference of 1 is.
    fn unit(&self) -> &'static str;

    /// Whether less is better.
    fn lower_is_better(&self) -> bool {
        true
    }

    /// Which is better, `less` or `more`; `None` of a number that describes a model and does not judge it.
    fn better(&self) -> Option<&'static str> {
        Some(if self.lower_is_better() { "less" } else { "more" })
    }

    /// Whether it goes from 0 to 1; tables show it in per cent.
    fn is_share(&self) -> bool {
        false
    }

    /// Its columns in rows and CSV files; `None` for a metric that is made of other columns.
    fn column(&self) -> Option<Column> {
        None
    }

    /// Its columns in CSV files; those that are no field of a row are [derived](Self::derived).
    fn csv_columns(&self) -> Vec<ColumnInfo> {
        let Some(column) = self.column() else { return Vec::new() };
        let error = column.error.map(|error| {
            ColumnInfo::number(error, format!("standard error of `{}` over documents", column.name))
        });
        let value = ColumnInfo::number(column.name, self.unit());
        std::iter::once(value).chain(error).collect()
    }

    /// The value of a CSV column that is made of other fields of the row; `None` where the column is a field.
    fn derived(&self, _column: &str, _facts: &Facts<'_>) -> Option<Value> {
        None
    }

    /// A number per target whose sums over documents rows keep for it.
    fn token_sum(&self) -> Option<TokenSum> {
        None
    }

    /// Whether a reading of such a text has it.
    fn is_of(&self, _material: Material) -> bool {
        true
    }

    /// Which rows hold it, for a hint.
    fn held_by(&self) -> &'static str {
        "every row has it"
    }

    /// The sums of each document, and their weights, those of its [`token_sum`](Self::token_sum) and tokens unless it says others;
    /// `None` where the facts do not tell of documents.
    fn documents(&self, facts: &Facts<'_>) -> Option<Documents> {
        facts.summed(self.token_sum()?.name)
    }

    /// Whether it has sums of documents, so that two readings can be compared by it.
    fn is_comparable(&self) -> bool {
        true
    }

    /// Whether it needs the row of the window baseline.
    fn needs_baseline(&self) -> bool {
        false
    }

    /// Whether it compares readings with different tokenizers.
    fn spans_tokenizers(&self) -> bool {
        false
    }

    /// The value of a new measurement and its standard error over documents.
    fn measure(&self, facts: &Facts<'_>) -> Option<(f64, Option<f64>)> {
        let Documents { sums, weights } = self.documents(facts)?;
        mean_over_documents(&sums, &weights).map(|mean| (mean.mean, mean.se))
    }

    /// The value that a row holds.
    fn value(&self, facts: &Facts<'_>) -> Option<f64> {
        facts.values.get(self.column()?.name)
    }

    /// The standard error of the value that a row holds.
    fn error(&self, facts: &Facts<'_>) -> Option<f64> {
        facts.values.get(self.column()?.error?)
    }

    /// The 95% interval of the value that a row holds, for metrics that have a better one than the standard error gives.
    fn interval(&self, _facts: &Facts<'_>) -> Option<(f64, f64)> {
        None
    }

    /// What a constant guess reaches.
    fn chance(&self, _facts: &Facts<'_>) -> Option<f64> {
        None
    }

    /// Whether it is the exponential of the loss: over seeds the losses are averaged, and spreads are in per cent.
    fn is_exponential(&self) -> bool {
        false
    }

    /// The name at the beginning of a title.
    fn title(&self) -> &'static str;

    /// A value as tables show it, and its error to the same decimal place.
    fn texts(&self, value: f64, error: Option<f64>) -> (String, Option<String>) {
        let decimals = if self.is_share() { 1 } else { 3 };
        (format!("{value:.decimals$}"), error.map(|error| format!("{error:.decimals$}")))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub error: Option<&'static str>,
    /// What a row says of a value that it lacks.
    pub absent: Absent,
    /// Whether rows hold the error too, which CSV files have in any case.
    pub error_in_rows: bool,
}

/// What a row says of a value that it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// It has the value always; `null` is a value that is no finite number.
    Never,
    /// `null`.
    Null,
    /// Nothing.
    LeftOut,
}

impl Column {
    /// A value with its error, both left out where they are absent.
    pub const fn new(name: &'static str, error: &'static str) -> Self {
        Self { name, error: Some(error), absent: Absent::LeftOut, error_in_rows: true }
    }
}
