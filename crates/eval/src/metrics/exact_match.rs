//! `exact_match`: the share of a task's sequences whose whole answer the model predicts.

use super::accuracy::CORRECT;
use super::chance::CHANCE;
use super::measure::{Column, Measure};
use super::sums::{Documents, Facts};
use crate::column::ColumnInfo;
use crate::statistics::share_interval;
use crate::text::Material;
use serde_json::Value;

/// The columns of its 95% interval.
const LOW: &str = "exact_match_low";
const HIGH: &str = "exact_match_high";

/// Share of the sequences whose answer the model gives token by token, each after the right ones before it, from 0
/// to 1.
#[derive(Clone, Copy, Debug)]
pub struct ExactMatch;

impl Measure for ExactMatch {
    fn unit(&self) -> &'static str {
        "share of the sequences"
    }

    fn lower_is_better(&self) -> bool {
        false
    }

    fn is_share(&self) -> bool {
        true
    }

    fn column(&self) -> Option<Column> {
        Some(Column::new("exact_match", "exact_match_se"))
    }

    fn is_of(&self, material: Material) -> bool {
        material == Material::Answers
    }

    fn held_by(&self) -> &'static str {
        "rows of the protocol `task` have it, of runs with a `data.task`"
    }

    fn documents(&self, facts: &Facts<'_>) -> Option<Documents> {
        let sums = facts.per_document?;
        let answers = sums.tokens.iter().zip(sums.get(CORRECT.name)?);
        let exact = answers.map(|(&tokens, correct)| f64::from(tokens > 0 && correct >= tokens as f64));
        let asked = sums.tokens.iter().map(|&tokens| u64::from(tokens > 0));
        Some(Documents { sums: exact.collect(), weights: asked.collect() })
    }

    fn csv_columns(&self) -> Vec<ColumnInfo> {
        vec![
            ColumnInfo::number(
                "exact_match",
                "share of the sequences whose whole answer is right, from 0 to 1",
            ),
            ColumnInfo::number("exact_match_se", "standard error of `exact_match` over sequences"),
            ColumnInfo::number(LOW, "lower end of the 95% interval of `exact_match`"),
            ColumnInfo::number(HIGH, "upper end of the 95% interval of `exact_match`"),
        ]
    }

    fn derived(&self, column: &str, facts: &Facts<'_>) -> Option<Value> {
        match column {
            LOW => Some(self.interval(facts).map(|ends| ends.0).into()),
            HIGH => Some(self.interval(facts).map(|ends| ends.1).into()),
            _ => None,
        }
    }

    /// Sequences are independent, so their share has the interval of a share.
    fn interval(&self, facts: &Facts<'_>) -> Option<(f64, f64)> {
        facts.values.get("exact_match")?;
        let Documents { sums, weights } = self.documents(facts)?;
        share_interval(sums.iter().sum::<f64>() as u64, weights.iter().sum())
    }

    /// Token by token: the mean over the sequences of [`Chance`](super::chance::Chance) to the power of the answer's
    /// length.
    fn chance(&self, facts: &Facts<'_>) -> Option<f64> {
        let chance = facts.values.get(CHANCE)?;
        let answers = facts.per_document?.tokens.iter().filter(|&&tokens| tokens > 0);
        let guessed = answers.clone().map(|&tokens| chance.powf(tokens as f64)).sum::<f64>();
        Some(guessed / answers.count() as f64)
    }

    fn title(&self) -> &'static str {
        "Exact match in %"
    }
}
