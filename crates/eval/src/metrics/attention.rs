//! The metrics of attention, which rows of the protocol `diagnostics` hold: see [`Diagnostic`] for what each is.
//!
//! A query's values are averaged over heads and layers, and a document's count as its scored tokens.

use super::measure::{Column, Measure};
use super::sums::{Documents, Facts};
use crate::diagnostics::Diagnostic;
use crate::text::Material;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct OfAttention {
    pub(crate) diagnostic: Diagnostic,
    /// Its columns; its sums have the name of the value.
    pub(crate) column: Column,
    title: &'static str,
    unit: &'static str,
    is_share: bool,
}

impl OfAttention {
    const ALL_ATTENTION: &str = "the share of attention";

    const fn share(diagnostic: Diagnostic, column: Column, title: &'static str, unit: &'static str) -> Self {
        Self { diagnostic, column, title, unit, is_share: true }
    }

    const fn number(diagnostic: Diagnostic, column: Column, title: &'static str, unit: &'static str) -> Self {
        Self { diagnostic, column, title, unit, is_share: false }
    }
}

pub const UNSEEN_ANGLES: OfAttention = OfAttention::share(
    Diagnostic::UnseenAngles,
    Column::new("unseen_angles", "unseen_angles_se"),
    "Attention on unseen angles in %",
    "the share of the attention of layers that rotate",
);
pub const FIRST_TOKEN: OfAttention = OfAttention::share(
    Diagnostic::FirstToken,
    Column::new("first_token", "first_token_se"),
    "Attention on the first token in %",
    OfAttention::ALL_ATTENTION,
);
pub const EFFECTIVE_KEYS: OfAttention = OfAttention::number(
    Diagnostic::EffectiveKeys,
    Column::new("effective_keys", "effective_keys_se"),
    "Keys in effect",
    "keys",
);
pub const ENTROPY: OfAttention = OfAttention::share(
    Diagnostic::Entropy,
    Column::new("entropy", "entropy_se"),
    "Entropy of attention in % of ln N",
    "the share of the most that is possible",
);
pub const BEYOND_LENGTH: OfAttention = OfAttention::share(
    Diagnostic::BeyondLength,
    Column::new("beyond_length", "beyond_length_se"),
    "Attention beyond L in %",
    OfAttention::ALL_ATTENTION,
);
pub const STABLE_RANK: OfAttention = OfAttention::number(
    Diagnostic::StableRank,
    Column::new("stable_rank", "stable_rank_se"),
    "Stable rank of turned keys",
    "directions",
);

pub(crate) const ALL: [OfAttention; 6] =
    [UNSEEN_ANGLES, FIRST_TOKEN, EFFECTIVE_KEYS, ENTROPY, BEYOND_LENGTH, STABLE_RANK];

impl Measure for OfAttention {
    fn better(&self) -> Option<&'static str> {
        None
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn unit(&self) -> &'static str {
        self.unit
    }

    fn is_share(&self) -> bool {
        self.is_share
    }

    fn column(&self) -> Option<Column> {
        Some(self.column)
    }

    fn is_of(&self, material: Material) -> bool {
        material == Material::Watched
    }

    fn held_by(&self) -> &'static str {
        "rows of the protocol `diagnostics` have it; set `protocol = \"diagnostics\"`"
    }

    fn documents(&self, facts: &Facts<'_>) -> Option<Documents> {
        facts.summed(self.column.name)
    }
}
