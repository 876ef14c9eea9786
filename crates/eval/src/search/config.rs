//! The keys of a search.

use longwave_position::Tokens;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which factors a search tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// A factor from 1 to 1.25 s for every band (arXiv:2402.13753).
    #[default]
    LongRope,
    /// Factors from s to 2 s from a critical band on, which is searched for too, and NTK's before it (arXiv:2502.20082).
    LongRope2,
}

/// The loss that a search lowers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "SearchMetric")]
pub enum SearchMetric {
    /// That of the tokens that the block's protocol scores; a task is asked as it was trained.
    #[default]
    Loss,
    /// That of tokens which only the beginning of the text tells: a task's answers, or text that returns at the end of
    /// its window.
    Needle,
}

/// `search` of `{ kind = "longrope", search = { .. } }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SearchConfig {
    /// Which factors are tried.
    pub method: Method,
    /// The loss that decides.
    pub metric: SearchMetric,
    /// Length the factors are searched for; the longest of the block unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<Tokens>,
    /// Readings that are measured.
    pub budget: usize,
    /// New readings of a generation, half of them changes and half of them crossings; with `longrope2` all are changes.
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
        Self {
            method: Method::default(),
            metric: SearchMetric::default(),
            length: None,
            budget: 128,
            population: 16,
            parents: 8,
            mutation: 0.3,
            windows_per_document: 1,
        }
    }
}
