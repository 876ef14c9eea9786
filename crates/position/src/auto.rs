//! The word `"auto"` as the value of a key that otherwise takes a number.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The word, where the value is an enum with numbers beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Auto {
    /// The program finds the number.
    Auto,
}

/// For a variant without a number, `#[serde(with = "word")]` in an enum without tags.
pub(crate) mod word {
    use super::{Auto, Deserialize, Serialize};
    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
        Auto::Auto.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
        Auto::deserialize(deserializer).map(drop)
    }
}
