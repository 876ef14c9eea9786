//! `entropy`: see [`Diagnostic::Entropy`].

use super::measure::{Column, Measure};
use super::sums::{Documents, Facts};
use crate::diagnostics::Diagnostic;
use crate::text::Material;

/// The entropy of what a query gives to keys over the logarithm of their number, on average over heads and layers.
#[derive(Clone, Copy, Debug)]
pub struct Entropy;

impl Measure for Entropy {
    fn title(&self) -> &'static str {
        "Entropy of attention in % of ln N"
    }

    fn unit(&self) -> &'static str {
        "the share of the most that is possible"
    }

    fn is_share(&self) -> bool {
        true
    }

    fn column(&self) -> Option<Column> {
        Some(Column::new("entropy", "entropy_se"))
    }

    fn is_of(&self, material: Material) -> bool {
        material == Material::Watched
    }

    fn held_by(&self) -> &'static str {
        Diagnostic::HELD_BY
    }

    fn documents(&self, facts: &Facts<'_>) -> Option<Documents> {
        facts.summed("entropy")
    }
}
