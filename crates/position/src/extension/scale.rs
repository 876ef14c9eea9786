//! The key `scale` of extensions.

use crate::auto::word;
use crate::tokens::Lengths;
use longwave_core::{Error, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// How much longer the text is: `"auto"` takes L'/L for each length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "it must be \"auto\" or a number")]
pub enum Scale {
    /// L'/L of the length that is read, at least 1.
    #[default]
    #[serde(with = "word")]
    Auto,
    /// The same for every length.
    Fixed(f64),
}

impl Scale {
    /// The scale for a length.
    pub fn at(self, lengths: Lengths) -> f64 {
        match self {
            Self::Auto => lengths.scale(),
            Self::Fixed(scale) => scale,
        }
    }

    /// Checks a given scale.
    ///
    /// # Errors
    /// It is below 1 or not finite.
    pub fn validate(self, section: &str) -> Result<()> {
        match self {
            Self::Fixed(scale) if !(scale.is_finite() && scale >= 1.0) => Err(Error::value(
                &format!("{section}.scale"),
                scale,
                "it must be \"auto\" or a number of at least 1",
            )
            .hint("\"auto\" takes evaluated length / training length")),
            _ => Ok(()),
        }
    }
}

impl JsonSchema for Scale {
    fn schema_name() -> Cow<'static, str> {
        "Scale".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A factor of at least 1, or `auto`: the length that is read over L, where that is more than 1.",
            "anyOf": [{ "const": "auto" }, { "type": "number", "minimum": 1 }]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_never_shrinks() {
        assert!((Scale::Auto.at(Lengths { train: 128, length: 512 }) - 4.0).abs() < 1e-15);
        assert!((Scale::Auto.at(Lengths { train: 128, length: 64 }) - 1.0).abs() < 1e-15);
        assert!(Scale::Fixed(0.5).validate("extend").is_err());
    }
}
