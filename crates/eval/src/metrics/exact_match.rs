//! `exact_match`: the share of a task's sequences whose whole answer the model predicts.

use super::accuracy::CORRECT;
use super::measure::{Column, Measure};
use super::sums::{Documents, Facts};
use crate::text::Material;

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

    fn title(&self) -> &'static str {
        "Exact match in %"
    }
}
