//! `unseen_angles`: see [`Diagnostic::UnseenAngles`].

use super::measure::{Column, Measure};
use super::sums::{Documents, Facts};
use crate::diagnostics::Diagnostic;
use crate::text::Material;

/// Of what a query gives to keys, the part at angles that training never showed, on average over bands, heads and layers.
#[derive(Clone, Copy, Debug)]
pub struct UnseenAngles;

impl Measure for UnseenAngles {
    fn title(&self) -> &'static str {
        "Attention on unseen angles in %"
    }

    fn unit(&self) -> &'static str {
        "the share of attention"
    }

    fn is_share(&self) -> bool {
        true
    }

    fn column(&self) -> Option<Column> {
        Some(Column::new("unseen_angles", "unseen_angles_se"))
    }

    fn is_of(&self, material: Material) -> bool {
        material == Material::Watched
    }

    fn held_by(&self) -> &'static str {
        Diagnostic::HELD_BY
    }

    fn documents(&self, facts: &Facts<'_>) -> Option<Documents> {
        facts.summed("unseen_angles")
    }
}
