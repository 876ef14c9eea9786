//! `chance`: what a constant guess gets right of a task's answers.

use super::measure::{Absent, Column, Measure};
use crate::column::ColumnInfo;
use crate::text::Material;
use std::collections::HashMap;

pub(crate) const CHANCE: &str = "chance";

/// Share of the scored tokens that are the most frequent one: the accuracy of a reader who always gives that one, from 0
/// to 1. It follows from the questions alone.
#[derive(Clone, Copy, Debug)]
pub struct Chance;

impl Measure for Chance {
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
        Some(Column { name: CHANCE, error: None, absent: Absent::LeftOut, error_in_rows: false })
    }

    fn csv_columns(&self) -> Vec<ColumnInfo> {
        let share =
            "of a task, the `accuracy` of a guess that is always the most frequent token, from 0 to 1";
        vec![ColumnInfo::number(CHANCE, share)]
    }

    fn is_of(&self, material: Material) -> bool {
        material == Material::Answers
    }

    fn is_comparable(&self) -> bool {
        false
    }

    fn title(&self) -> &'static str {
        "Chance in %"
    }
}

/// The share of the most frequent token; `None` of no token.
pub(crate) fn share_of_most_frequent(tokens: impl Iterator<Item = u32>) -> Option<f64> {
    let mut counts: HashMap<u32, u64> = HashMap::new();
    for token in tokens {
        *counts.entry(token).or_default() += 1;
    }
    let all: u64 = counts.values().sum();
    counts.values().max().map(|&most| most as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_token_is_the_best_constant_guess() {
        assert_eq!(share_of_most_frequent([4, 7, 4, 9, 4].into_iter()), Some(0.6));
        assert_eq!(share_of_most_frequent(std::iter::empty()), None);
    }
}
