//! Which of a protocol's tokens are scored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which of a protocol's tokens are scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScoredTokens {
    /// All that the protocol scores.
    #[default]
    All,
    /// Those of them that are key tokens.
    Key,
}

impl ScoredTokens {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn is_all(&self) -> bool {
        *self == Self::All
    }
}
