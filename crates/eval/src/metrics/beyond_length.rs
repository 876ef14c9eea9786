//! `beyond_length`: see [`Diagnostic::BeyondLength`].

use super::measure::{Column, Measure};
use super::sums::{Documents, Facts};
use crate::diagnostics::Diagnostic;
use crate::text::Material;

/// What a query gives to keys that lie L tokens back or further, on average over heads and layers.
#[derive(Clone, Copy, Debug)]
pub struct BeyondLength;

impl Measure for BeyondLength {
    fn title(&self) -> &'static str {
        "Attention beyond L in %"
    }

    fn unit(&self) -> &'static str {
        "the share of attention"
    }

    fn is_share(&self) -> bool {
        true
    }

    fn column(&self) -> Option<Column> {
        Some(Column::new("beyond_length", "beyond_length_se"))
    }

    fn is_of(&self, material: Material) -> bool {
        material == Material::Watched
    }

    fn held_by(&self) -> &'static str {
        Diagnostic::HELD_BY
    }

    fn documents(&self, facts: &Facts<'_>) -> Option<Documents> {
        facts.summed("beyond_length")
    }
}
