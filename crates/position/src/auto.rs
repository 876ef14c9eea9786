//! The word `"auto"` as the value of a key that otherwise takes a number.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Auto {
    /// The program finds the number.
    Auto,
}
