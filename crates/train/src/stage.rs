//! `[[stage]]`: training that goes on from where the stage before it ended, at another length, with an extension
//! on.
//!
//! Position interpolation with fine-tuning (Chen et al. 2023, arXiv:2306.15595, section 3.2) and `YaRN`
//! (arXiv:2309.00071, section 4) are stages of 200 to 1,000 steps. The extension is applied to the reading as
//! last trained, with L the length of `[train]` and L' that of the stage, and stays: it becomes part of the
//! encoding, so `direct` means as last trained from then on. L itself, of which automatic scales and windows
//! are made, remains that of `[train]`.

use crate::config::TrainConfig;
use longwave_core::config::{read, unknown_key};
use longwave_core::{Error, Result};
use longwave_position::{ExtensionConfig, Lengths, Tokens};
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// What becomes of the optimizer's moments where a stage begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
// The name that schemas have had.
#[schemars(rename = "Moments")]
pub enum OptimizerState {
    /// They begin at zero again, as with a new optimizer: those of another length and another learning
    /// rate say little about the first steps of this one.
    #[default]
    Reset,
    /// They go on. Moments of a table that the extension made longer begin at zero all the same.
    Keep,
}

/// One `[[stage]]`: every key of `[train]`, an extension, and what becomes of the moments.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(transform = describe_length)]
pub struct StageConfig {
    /// The keys of `[train]`. What is left out is as there, but for `learning_rate` (a tenth), `validate_every`, `checkpoint_every`
    /// and `keep_checkpoints`; `length` and `steps` must be given. Shares of steps are of the stage's own, and a `length`
    /// such as `"4L"` is a multiple of that of `[train]`.
    #[serde(flatten)]
    pub train: TrainConfig,
    /// The extension that is on from here on, applied for this stage's length. Default: `direct`.
    pub extend: ExtensionConfig,
    /// What becomes of the optimizer's moments. Default: `reset`.
    pub optimizer: OptimizerState,
}

impl StageConfig {
    /// Reads one stage; `section` is its place in the file (`stage[0]`), `first` the `[train]` of the same file.
    ///
    /// # Errors
    /// An unknown key, a wrong type, or a value that is not allowed.
    pub fn from_table(mut table: Table, section: &str, first: &TrainConfig) -> Result<Self> {
        check_keys(&table, section)?;
        for key in ["length", "steps"] {
            if !table.contains_key(key) {
                return Err(Error::usage(format!("`{section}.{key}` is missing"))
                    .hint("a stage says how long its sequences are and for how many steps it trains"));
            }
        }
        resolve_length(&mut table, section, first.length)?;
        let direct = Value::String("direct".to_owned());
        let extend = table.remove("extend").unwrap_or(direct);
        let extend = ExtensionConfig::from_value(&extend, &format!("{section}.extend"))?;
        let optimizer = match table.remove("optimizer") {
            None => OptimizerState::default(),
            Some(value) => value.clone().try_into().map_err(|_| {
                Error::value(&format!("{section}.optimizer"), value, "it must be \"reset\" or \"keep\"").hint(
                    "\"reset\" begins with moments of zero, \"keep\" goes on with those of the stage before",
                )
            })?,
        };
        let inherited = TrainConfig {
            learning_rate: first.learning_rate / 10.0,
            validate_every: None,
            checkpoint_every: None,
            keep_checkpoints: None,
            ..first.clone()
        };
        let Ok(Value::Table(mut keys)) = Value::try_from(&inherited) else {
            return Err(Error::failed("the keys of `[train]` cannot be written as TOML"));
        };
        keys.extend(table);
        let train: TrainConfig = read(&keys, section)?;
        train.validate(section)?;
        if train.precision != first.precision {
            return Err(Error::value(
                &format!("{section}.precision"),
                format!("\"{}\"", train.precision),
                format!("every stage trains in the precision of `[train]`, \"{}\"", first.precision),
            )
            .hint("leave it out of the stage"));
        }
        Ok(Self { train, extend, optimizer })
    }
}

/// Puts the number of tokens in the place of a `length` that is a multiple of L.
fn resolve_length(table: &mut Table, section: &str, train_length: usize) -> Result<()> {
    let Some(length) = table.get_mut("length") else { return Ok(()) };
    let key = format!("{section}.length");
    let lengths = Lengths { train: train_length, length: train_length };
    *length = Value::Integer(Tokens::from_value(length, &key)?.whole(&key, lengths)? as i64);
    Ok(())
}

/// In a stage, `length` may be a multiple of that of `[train]`.
fn describe_length(schema: &mut Schema) {
    let mut length = Tokens::json_schema(&mut SchemaGenerator::default());
    length.insert(
        "description".to_owned(),
        "Tokens a sequence, or a multiple of the length of `[train]`.".into(),
    );
    if let Some(properties) = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut) {
        properties.insert("length".to_owned(), length.to_value());
    }
}

/// Every key must be one of the struct's, flattened.
fn check_keys(table: &Table, section: &str) -> Result<()> {
    let schema = schemars::schema_for!(StageConfig);
    let properties = schema.get("properties").and_then(|properties| properties.as_object());
    let known: Vec<&str> = properties.into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    match table.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(unknown_key(&format!("{section}.{key}"), key, &known)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Steps;

    fn stage(text: &str) -> Result<StageConfig> {
        let first = TrainConfig { clip: 0.5, validate_every: Some(7), ..TrainConfig::default() };
        StageConfig::from_table(text.parse().unwrap(), "stage[0]", &first)
    }

    #[test]
    fn what_is_left_out_is_as_in_train() {
        let stage = stage("length = 512\nsteps = 200\nextend = \"linear\"\nwarmup = 20").unwrap();
        assert_eq!((stage.train.length, stage.train.clip, stage.train.validate_every), (512, 0.5, None));
        assert!((stage.train.learning_rate - 3e-4).abs() < 1e-12);
        assert_eq!((stage.train.warmup, stage.train.sequences()), (Steps::Count(20), 8));
        assert_eq!((stage.extend.kind(), stage.optimizer), ("linear", OptimizerState::Reset));
    }

    #[test]
    fn a_length_may_be_a_multiple_of_that_of_train() {
        let multiple = stage("length = \"4L\"\nsteps = 200").unwrap();
        assert_eq!(multiple, stage("length = 512\nsteps = 200").unwrap());
        assert_eq!(Table::try_from(&multiple).unwrap()["length"].as_integer(), Some(512));
        let schema = schemars::schema_for!(StageConfig).to_value();
        assert!(schema["properties"]["length"]["anyOf"][1]["pattern"].is_string(), "{schema}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let message = |text: &str| stage(text).unwrap_err().to_string();
        let length = message("length = \"four\"\nsteps = 2");
        assert!(
            length.starts_with(
                "`stage[0].length = \"four\"` is not allowed: it must be a whole number of tokens"
            ),
            "{length}"
        );
        assert!(message("length = \"L/200\"\nsteps = 2").contains("at L = 128 it is less than one token"));
        assert!(message("length = 512").starts_with("`stage[0].steps` is missing"));
        let both = "length = 512\nsteps = 2\n";
        assert!(message(&format!("{both}extned = 1")).ends_with("did you mean `extend`?"));
        assert!(message(&format!("{both}batch_tokens = 700")).contains("`stage[0].length = 512`"));
        assert!(message(&format!("{both}extend = \"liner\"")).starts_with("`stage[0].extend = \"liner\"`"));
        assert!(message(&format!("{both}precision = \"f16\"")).contains("precision of `[train]`, \"f32\""));
        assert!(message(&format!("{both}optimizer = \"new\"")).contains("\"reset\" or \"keep\""));
    }
}
