//! `evaluate.checkpoints`: which of a run's checkpoints are read.

use longwave_core::{Error, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Checkpoints {
    /// The end of training.
    #[default]
    Last,
    /// The best validation of the last stage, in the place of the end of training.
    Best,
    /// The steps that `train.keep_checkpoints` names, and the end of training.
    All,
    /// These steps, counted through all stages, and the end of training.
    Steps(Vec<u64>),
}

impl Checkpoints {
    /// Whether it is the default, which resolved configs leave out.
    pub fn is_last(&self) -> bool {
        *self == Self::Last
    }

    /// The steps before the last that are read, of those that a run keeps. `section` is the block's place in the file.
    pub fn steps(&self, kept: &[u64], section: &str) -> Result<Vec<u64>> {
        let key = format!("{section}.checkpoints");
        match self {
            Self::Last | Self::Best => Ok(Vec::new()),
            Self::All if kept.is_empty() => {
                Err(Error::value(&key, "\"all\"", "the run keeps no checkpoint but its last").hint(
                    "train with `keep_checkpoints = 100` in `[train]`: every 100 steps, or a list of steps",
                ))
            }
            Self::All => Ok(kept.to_vec()),
            Self::Steps(steps) => match steps.iter().find(|step| !kept.contains(step)) {
                None => Ok(steps.clone()),
                Some(step) => {
                    let listed: Vec<String> = kept.iter().map(u64::to_string).collect();
                    let listed = if listed.is_empty() { "none".to_owned() } else { listed.join(", ") };
                    Err(Error::value(&key, step, format!("the run keeps these steps: {listed}"))
                        .hint("`train.keep_checkpoints` names the steps that are kept; the last is read in any case"))
                }
            },
        }
    }
}

impl Serialize for Checkpoints {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Last => serializer.serialize_str("last"),
            Self::Best => serializer.serialize_str("best"),
            Self::All => serializer.serialize_str("all"),
            Self::Steps(steps) => steps.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Checkpoints {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "\"last\", \"best\", \"all\" or a list of steps")]
        enum Raw {
            Word(String),
            Step(u64),
            Steps(Vec<u64>),
        }
        let wrong = |found: &str| {
            let found = serde::de::Unexpected::Str(found);
            Err(serde::de::Error::invalid_value(found, &"\"last\", \"best\", \"all\" or a list of steps"))
        };
        match Raw::deserialize(deserializer)? {
            Raw::Word(word) if word == "last" => Ok(Self::Last),
            Raw::Word(word) if word == "best" => Ok(Self::Best),
            Raw::Word(word) if word == "all" => Ok(Self::All),
            Raw::Word(word) => wrong(&word),
            Raw::Step(step) => Ok(Self::Steps(vec![step])),
            Raw::Steps(mut steps) => {
                steps.sort_unstable();
                steps.dedup();
                Ok(Self::Steps(steps))
            }
        }
    }
}

impl JsonSchema for Checkpoints {
    fn schema_name() -> Cow<'static, str> {
        "Checkpoints".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let step = serde_json::json!({ "type": "integer", "minimum": 1 });
        json_schema!({ "description": "Which checkpoints of a run are read.", "anyOf": [{ "enum": ["last", "best", "all"] }, step, { "type": "array", "items": step }] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> std::result::Result<Checkpoints, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn words_steps_and_lists_are_read() {
        assert_eq!(read("\"last\"").unwrap(), Checkpoints::default());
        assert_eq!(read("\"all\"").unwrap(), Checkpoints::All);
        assert_eq!(read("\"best\"").unwrap(), Checkpoints::Best);
        assert_eq!(read("[200, 100, 200]").unwrap(), Checkpoints::Steps(vec![100, 200]));
        assert_eq!(read("100").unwrap(), Checkpoints::Steps(vec![100]));
        assert!(read("\"every\"").unwrap_err().contains("\"last\", \"best\", \"all\" or a list of steps"));
    }

    #[test]
    fn only_steps_that_are_kept_can_be_read() {
        let kept = [100, 200];
        assert_eq!(Checkpoints::All.steps(&kept, "evaluate[0]").unwrap(), kept);
        assert_eq!(Checkpoints::Last.steps(&kept, "evaluate[0]").unwrap(), [0; 0]);
        assert_eq!(Checkpoints::Steps(vec![200]).steps(&kept, "evaluate[0]").unwrap(), [200]);
        let none = Checkpoints::All.steps(&[], "evaluate[0]").unwrap_err();
        assert!(
            none.message().starts_with("`evaluate[0].checkpoints = \"all\"`") && none.hint_text().is_some()
        );
        let other = Checkpoints::Steps(vec![150]).steps(&kept, "eval").unwrap_err();
        assert!(other.message().contains("100, 200"), "{other}");
    }
}
