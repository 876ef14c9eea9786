//! `first_token`: see [`Diagnostic::FirstToken`].

use super::measure::{Column, Measure};
use super::sums::{Documents, Facts};
use crate::diagnostics::Diagnostic;
use crate::text::Material;

/// What a query gives to the first token of the text, on average over heads and layers.
#[derive(Clone, Copy, Debug)]
pub struct FirstToken;

impl Measure for FirstToken {
    fn title(&self) -> &'static str {
        "Attention on the first token in %"
    }

    fn unit(&self) -> &'static str {
        "the share of attention"
    }

    fn is_share(&self) -> bool {
        true
    }

    fn column(&self) -> Option<Column> {
        Some(Column::new("first_token", "first_token_se"))
    }

    fn is_of(&self, material: Material) -> bool {
        material == Material::Watched
    }

    fn held_by(&self) -> &'static str {
        Diagnostic::HELD_BY
    }

    fn documents(&self, facts: &Facts<'_>) -> Option<Documents> {
        facts.summed("first_token")
    }
}
