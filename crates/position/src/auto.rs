//! The word `"auto"` as the value of a key that otherwise takes a number.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `"auto"`: the program finds the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Auto {
    /// The only word there is.
    Auto,
}
