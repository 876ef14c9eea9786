//! `[[stage]]`: training that goes on from where the stage before it ended, at another length, with an extension
//! on.
//!
//! Position interpolation with fine-tuning (Chen et al. 2023, arXiv:2306.15595, section 3.2) and `YaRN`
//! (arXiv:2309.00071, section 4) are stages of 200 to 1,000 steps. The extension is applied to the reading as
//! last trained, with L the length of `[train]` and L' that of the stage, and stays: it becomes part of the
//! encoding, so `direct` means as last trained from then on. L itself, of which automatic scales and windows
//! are made, remains that of `[train]`.

use crate::config::TrainConfig;
use longwave_core::config::{kind_and_rest, read, unknown_key, unknown_kind};
use longwave_core::{Error, Result, written};
use longwave_position::reading::LEAST_HEAD_SCALE;
use longwave_position::{ExtensionConfig, Lengths, Tokens};
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;
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

/// Which parameters a stage trains.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum TrainedPart {
    /// All of them.
    #[default]
    All,
    /// A factor on the logits of each head and layer, and nothing else (`HeadScale`, arXiv:2404.12224). The factors stay at 1
    /// or above, and decay does not apply to them.
    HeadScale {
        /// What they start at, where no earlier stage has trained them. Default: 1.6, as published for texts four times
        /// as long.
        start: f64,
    },
}

/// What the factors start at in the authors' script for texts four times as long.
const HEAD_SCALE_START: f64 = 1.6;

impl TrainedPart {
    /// Reads the value of `key`: a name, or a table with a `kind`.
    fn from_value(value: &Value, key: &str) -> Result<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Keys {
            #[serde(default)]
            start: Option<f64>,
        }
        let (kind, rest) = kind_and_rest(value, key)?;
        let Keys { start } = read(&rest, key)?;
        match (kind.as_str(), start) {
            ("all", None) => Ok(Self::All),
            ("all", Some(start)) => {
                Err(Error::value(&format!("{key}.start"), start, "only \"head_scale\" has a start")
                    .hint("leave it out"))
            }
            ("head_scale", start) => {
                let start = start.unwrap_or(HEAD_SCALE_START);
                if start.is_finite() && start >= LEAST_HEAD_SCALE {
                    return Ok(Self::HeadScale { start });
                }
                Err(Error::value(&format!("{key}.start"), start, "it must be a number of at least 1")
                    .hint("factors above 1 sharpen attention, and training keeps them there"))
            }
            _ => Err(unknown_kind(key, &kind, ["all", "head_scale"])),
        }
    }

    /// What the factors of heads start at, where the stage trains them.
    pub fn head_scale(&self) -> Option<f64> {
        match self {
            Self::All => None,
            Self::HeadScale { start } => Some(*start),
        }
    }

    /// Whether a parameter of this name is trained.
    pub fn includes(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::HeadScale { .. } => name == "position.head_scale.scale",
        }
    }
}

/// One `[[stage]]`: every key of `[train]`, an extension, and what becomes of the moments.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(transform = describe_own_keys)]
pub struct StageConfig {
    /// The keys of `[train]`. What is left out is as there, but for `learning_rate` (a tenth), `schedule_steps`, `validate_every`,
    /// `patience`, `checkpoint_every` and `keep_checkpoints`; `length` and `steps` must be given. Shares of steps are of the stage's own, and a `length`
    /// such as `"4L"` is a multiple of that of `[train]`.
    #[serde(flatten)]
    pub train: TrainConfig,
    /// The extension that is on from here on, applied for this stage's length. Default: `direct`.
    pub extend: ExtensionConfig,
    /// What becomes of the optimizer's moments. Default: `reset`.
    pub optimizer: OptimizerState,
    /// What is trained: `"all"`, or `"head_scale"`, also as a table with its `start`. Default: `all`.
    #[serde(rename = "train")]
    #[schemars(with = "TrainedPartSchema")]
    pub trained: TrainedPart,
}

/// The schema of [`TrainedPart`]: a name, or a table.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "TrainedPart")]
#[allow(dead_code, reason = "for the schema")]
enum TrainedPartSchema {
    /// A kind.
    Name(TrainedPartName),
    /// A kind with its keys.
    Table {
        /// What is trained.
        kind: TrainedPartName,
        /// What the factors of `head_scale` start at, at least 1.
        start: Option<f64>,
    },
}

/// What a stage trains.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(dead_code, reason = "for the schema")]
enum TrainedPartName {
    /// Every parameter.
    All,
    /// A factor on the logits of each head and layer.
    HeadScale,
}

impl StageConfig {
    /// Reads one stage; `section` is its place in the file (`stage[0]`), `first` the `[train]` of the same file.
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
        let trained = match table.remove("train") {
            None => TrainedPart::default(),
            Some(value) => TrainedPart::from_value(&value, &format!("{section}.train"))?,
        };
        let inherited = TrainConfig {
            optimizer: None,
            learning_rate: first.learning_rate / 10.0,
            schedule_steps: None,
            validate_every: None,
            patience: None,
            checkpoint_every: None,
            keep_checkpoints: None,
            ..first.clone()
        };
        let mut keys = written::toml_table("the keys of `[train]`", &inherited)?;
        keys.extend(table);
        let train: TrainConfig = read(&keys, section)?;
        train.validate(section)?;
        if train.precision != first.precision {
            let allowed =
                format!("every stage trains in the precision of `[train]`, \"{}\"", first.precision);
            let value = format!("\"{}\"", train.precision);
            return Err(Error::value(&format!("{section}.precision"), value, allowed)
                .hint("leave it out of the stage"));
        }
        if train.on_non_finite != first.on_non_finite {
            let allowed = "what `[train]` says of it holds in every stage";
            let value = keys.get("on_non_finite").map(ToString::to_string).unwrap_or_default();
            return Err(Error::value(&format!("{section}.on_non_finite"), value, allowed)
                .hint("leave it out of the stage, or write it in `[train]`"));
        }
        Ok(Self { train, extend, optimizer, trained })
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
fn describe_own_keys(schema: &mut Schema) {
    let generator = &mut SchemaGenerator::default();
    let length = Tokens::json_schema(generator);
    // `[train]` has a key of this name, for all stages.
    let optimizer = OptimizerState::json_schema(generator);
    for (key, mut own, about) in [
        ("length", length, "Tokens a sequence, or a multiple of the length of `[train]`."),
        ("optimizer", optimizer, "What becomes of the optimizer's moments. Default: `reset`."),
    ] {
        own.insert("description".to_owned(), about.into());
        if let Some(properties) = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut) {
            properties.insert(key.to_owned(), own.to_value());
        }
    }
    schema.insert("required".to_owned(), json!(["length", "steps"]));
    schema.insert("additionalProperties".to_owned(), false.into());
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
        for (text, start) in [
            (
                "length = 'four'\nsteps = 2",
                "`stage[0].length = \"four\"` is not allowed: it must be a whole number of tokens",
            ),
            ("length = 512", "`stage[0].steps` is missing"),
        ] {
            assert!(message(text).starts_with(start), "{}", message(text));
        }
        assert!(message("length = \"L/200\"\nsteps = 2").contains("at L = 128 it is less than one token"));
        let message = |keys: &str| message(&format!("length = 512\nsteps = 2\n{keys}"));
        for (keys, start) in [
            ("extend = 'liner'", "`stage[0].extend = \"liner\"`"),
            ("on_non_finite = 'rollback'", "`stage[0].on_non_finite = \"rollback\"` is not allowed"),
            ("train = { kind = 'head_scale', start = 0.5 }", "`stage[0].train.start = 0.5`"),
            ("train = { kind = 'head_scale', begin = 2.0 }", "unknown key `stage[0].train.begin`"),
        ] {
            assert!(message(keys).starts_with(start), "{}", message(keys));
        }
        for (keys, part) in [
            ("batch_tokens = 700", "`stage[0].length = 512`"),
            ("precision = 'f16'", "precision of `[train]`, \"f32\""),
            ("optimizer = 'new'", "\"reset\" or \"keep\""),
            ("train = { kind = 'all', start = 2.0 }", "only \"head_scale\" has a start"),
        ] {
            assert!(message(keys).contains(part), "{}", message(keys));
        }
        for (keys, end) in [("extned = 1", "`extend`?"), ("train = 'head_scales'", "`head_scale`?")] {
            assert!(message(keys).ends_with(&format!("did you mean {end}")), "{}", message(keys));
        }
    }

    #[test]
    fn a_stage_says_what_it_trains() {
        let both = "length = 512\nsteps = 2\n";
        let all = stage(both).unwrap();
        assert_eq!(all.trained, TrainedPart::All);
        let written = Table::try_from(&all).unwrap();
        assert_eq!(stage(&format!("{both}train = {}", written["train"])).unwrap(), all);
        assert_eq!(stage(&format!("{both}train = \"all\"")).unwrap(), all);
        let scale = stage(&format!("{both}train = \"head_scale\"")).unwrap();
        assert_eq!(scale.trained, TrainedPart::HeadScale { start: 1.6 });
        let written = Table::try_from(&scale).unwrap();
        let text = "kind = \"head_scale\"\nstart = 1.6".parse::<Table>().unwrap();
        assert_eq!(written["train"], Value::Table(text));
        assert_eq!(stage(&format!("{both}train = {}", written["train"])).unwrap(), scale);
    }
}
