//! `self_extend`: far positions are shared by groups of tokens.
//!
//! A pair at distance n is read at n below the window w, else at `floor(i / G) - floor(j / G) + shift` (Jin et al.
//! 2024, arXiv:2401.01325). `shift = "floor"`: `w - floor(w / G)`, the paper's; `"exact"`: `w - w / G`, the
//! published program's; the same where G divides w. A text of `(L - w) G + w` tokens reads no distance that
//! training did not show; a longer one is refused unless `allow_untrained = true`. `group = "auto"` is 1 up to L, and past it the smallest G that reads the last key at
//! most halfway between the window and L, where published choices lie.

use crate::encoding::{Geometry, PositionMap, Selector};
use crate::extension::{Extend, Lengths, set_geometry};
use crate::reading::Reading;
use crate::tokens::Tokens;
use longwave_core::{Error, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// Tokens that share a far position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Group {
    /// By the length at hand.
    #[default]
    Auto,
    /// The same at every length.
    Tokens(usize),
}

/// What is added to far distances, so that they follow the near ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Shift {
    /// `w - floor(w / G)`.
    #[default]
    Floor,
    /// `w - w / G`.
    Exact,
}

/// Keys of `self_extend`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SelfExtend {
    /// w: distances below it are read as they are.
    pub window: Tokens,
    /// G: tokens that share a far position.
    pub group: Group,
    /// What is added to far distances.
    pub shift: Shift,
    /// Allows a text that is longer than the group reaches with trained distances.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_untrained: bool,
}

impl Default for SelfExtend {
    fn default() -> Self {
        Self {
            window: Tokens::part(4.0),
            group: Group::Auto,
            shift: Shift::Floor,
            allow_untrained: false,
        }
    }
}

impl SelfExtend {
    fn group(&self, window: usize, lengths: Lengths) -> Result<usize> {
        let Lengths { train, length } = lengths;
        match self.group {
            Group::Tokens(group) => Ok(group),
            Group::Auto if length <= train => Ok(1),
            Group::Auto if window >= train => Err(Error::usage(format!(
                "`{}` has no group for a window of {window}: it leaves no trained distances (L = {train}) for what is \
                 further away",
                Self::KIND
            ))
            .hint("take a window below L, such as \"L/4\"")),
            Group::Auto => Ok((2 * (length - window)).div_ceil(train - window)),
        }
    }
}

impl Extend for SelfExtend {
    const KIND: &'static str = "self_extend";
    const SUMMARY: &'static str = "far positions are shared by groups of tokens (Self-Extend)";
    const SOURCE: &'static str = "arXiv:2401.01325";

    fn validate(&self, section: &str) -> Result<()> {
        if self.group == Group::Tokens(0) {
            return Err(Error::value(&format!("{section}.group"), 0, "it must be \"auto\" or at least 1")
                .hint("1 reads as trained; 8 reads 8 far tokens at one position"));
        }
        Ok(())
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        let window = self.window.whole("window", lengths)?;
        let group = self.group(window, lengths)?;
        if !self.allow_untrained {
            check_reach(window, group, lengths)?;
        }
        let offset = match self.shift {
            Shift::Floor => (window - window / group) as f64,
            Shift::Exact => window as f64 - window as f64 / group as f64,
        };
        let group = group as f64;
        let geometry = Geometry {
            maps: vec![
                (PositionMap::Identity, PositionMap::Identity),
                (PositionMap::Grouped { group, offset }, PositionMap::Grouped { group, offset: 0.0 }),
            ],
            selector: Selector::Distance { near: window as f64 },
        };
        set_geometry(Self::KIND, reading, &geometry)
    }
}

/// The text must end where the trained distances do, read by groups.
fn check_reach(window: usize, group: usize, Lengths { train, length }: Lengths) -> Result<()> {
    let reach = train.saturating_sub(window) * group + window.min(train);
    if length <= reach {
        return Ok(());
    }
    let error = Error::value(
        "group",
        group,
        format!(
            "with a window of {window} and L = {train}, `self_extend` reaches (L - window) group + window = {reach} \
             tokens, and {length} are read"
        ),
    );
    Err(if window < train {
        error.hint(format!(
            "take a group of at least {}, or `group = \"auto\"`; `allow_untrained = true` measures it all the same",
            (length - window).div_ceil(train - window)
        ))
    } else {
        error.hint("take a window below L, such as \"L/4\"")
    })
}

impl Serialize for Group {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Tokens(tokens) => tokens.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Group {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Number(usize),
            Word(String),
        }
        match Raw::deserialize(deserializer) {
            Ok(Raw::Number(group)) => Ok(Self::Tokens(group)),
            Ok(Raw::Word(word)) if word == "auto" => Ok(Self::Auto),
            _ => Err(serde::de::Error::custom("it must be \"auto\" or a whole number of at least 1")),
        }
    }
}

impl JsonSchema for Group {
    fn schema_name() -> Cow<'static, str> {
        "Group".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "const": "auto" }, { "type": "integer", "minimum": 1 }] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_automatic_group_stays_within_training() {
        let extend = SelfExtend::default();
        for length in [128, 129, 256, 1000, 4096] {
            let group = extend.group(32, Lengths { train: 128, length }).unwrap();
            // floor(i / G) - floor(j / G) is at most n / G + 1.
            let farthest = 32.0 + (length - 32) as f64 / group as f64 + 1.0;
            assert!(length == 128 || farthest <= 82.0, "{length}: {farthest}");
            assert_eq!(group == 1, length == 128);
        }
        assert!(extend.group(128, Lengths { train: 128, length: 256 }).is_err());
    }

    #[test]
    fn a_text_past_the_reach_is_refused() {
        let lengths = |length| Lengths { train: 128, length };
        assert!(check_reach(32, 4, lengths(96 * 4 + 32)).is_ok());
        let error = check_reach(32, 4, lengths(96 * 4 + 33)).unwrap_err();
        assert!(error.hint_text().unwrap().starts_with("take a group of at least 5,"), "{error}");
        assert!(check_reach(200, 4, lengths(201)).is_err() && check_reach(128, 1, lengths(128)).is_ok());
    }
}
