//! `stable_rank`: see [`Diagnostic::StableRank`].

use super::measure::{Column, Measure};
use super::sums::{Documents, Facts};
use crate::diagnostics::Diagnostic;
use crate::text::Material;

/// The stable rank of the keys of a text as scores multiply them, on average over heads and layers.
#[derive(Clone, Copy, Debug)]
pub struct StableRank;

impl Measure for StableRank {
    fn title(&self) -> &'static str {
        "Stable rank of turned keys"
    }

    fn unit(&self) -> &'static str {
        "directions"
    }

    fn column(&self) -> Option<Column> {
        Some(Column::new("stable_rank", "stable_rank_se"))
    }

    fn is_of(&self, material: Material) -> bool {
        material == Material::Watched
    }

    fn held_by(&self) -> &'static str {
        Diagnostic::HELD_BY
    }

    fn documents(&self, facts: &Facts<'_>) -> Option<Documents> {
        facts.summed("stable_rank")
    }
}
