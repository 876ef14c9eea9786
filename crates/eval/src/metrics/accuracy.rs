//! `accuracy`: the share of tokens that the model predicts.

use super::chance::CHANCE;
use super::measure::{Absent, Column, Measure};
use super::sums::{Facts, TokenSum};
use crate::column::ColumnInfo;

/// Whether the model gave a target the highest probability.
pub(super) const CORRECT: TokenSum =
    TokenSum { name: "correct", of: |score| f64::from(u8::from(score.correct)), counts: true };

/// Share of the scored tokens to which the model gave the highest probability, from 0 to 1.
#[derive(Clone, Copy, Debug)]
pub struct Accuracy;

impl Measure for Accuracy {
    fn unit(&self) -> &'static str {
        "share of the tokens"
    }

    fn lower_is_better(&self) -> bool {
        false
    }

    fn is_share(&self) -> bool {
        true
    }

    fn column(&self) -> Option<Column> {
        Some(Column { absent: Absent::Null, ..Column::new("accuracy", "accuracy_se") })
    }

    fn csv_columns(&self) -> Vec<ColumnInfo> {
        let share = "share of the scored tokens to which the model gave the highest probability, from 0 to 1";
        vec![
            ColumnInfo::number("accuracy", share),
            ColumnInfo::number("accuracy_se", "standard error of `accuracy` over documents"),
        ]
    }

    fn token_sum(&self) -> Option<TokenSum> {
        Some(CORRECT)
    }

    fn chance(&self, facts: &Facts<'_>) -> Option<f64> {
        facts.values.get(CHANCE)
    }

    fn title(&self) -> &'static str {
        "Accuracy in %"
    }
}
