//! The keys of a search.

use longwave_position::Tokens;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `search` of `{ kind = "longrope", search = { .. } }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SearchConfig {
    /// Length the factors are searched for; the longest of the block unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<Tokens>,
    /// Readings that are measured.
    pub budget: usize,
    /// New readings of a generation, half of them changes and half of them crossings.
    pub population: usize,
    /// Best readings that the next generation is made of.
    pub parents: usize,
    /// Chance of each factor to be replaced, above 0 and at most 1.
    pub mutation: f64,
    /// Windows of each document of the validation split that are read.
    pub windows_per_document: usize,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self { length: None, budget: 128, population: 16, parents: 8, mutation: 0.3, windows_per_document: 1 }
    }
}
