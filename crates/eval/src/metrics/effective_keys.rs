//! `effective_keys`: see [`Diagnostic::EffectiveKeys`].

use super::measure::{Column, Measure};
use super::sums::{Documents, Facts};
use crate::diagnostics::Diagnostic;
use crate::text::Material;

/// e to the entropy of what a query gives to keys, on average over heads and layers.
#[derive(Clone, Copy, Debug)]
pub struct EffectiveKeys;

impl Measure for EffectiveKeys {
    fn title(&self) -> &'static str {
        "Keys in effect"
    }

    fn unit(&self) -> &'static str {
        "keys"
    }

    fn column(&self) -> Option<Column> {
        Some(Column::new("effective_keys", "effective_keys_se"))
    }

    fn is_of(&self, material: Material) -> bool {
        material == Material::Watched
    }

    fn held_by(&self) -> &'static str {
        Diagnostic::HELD_BY
    }

    fn documents(&self, facts: &Facts<'_>) -> Option<Documents> {
        facts.summed("effective_keys")
    }
}
