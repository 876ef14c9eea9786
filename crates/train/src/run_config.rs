//! A whole config but its evaluations, and the run's identity made from it.

use crate::config::TrainConfig;
use crate::feed;
use longwave_core::canonical;
use longwave_core::config::{read, take_table, unknown_key};
use longwave_core::file::sha256_of;
use longwave_core::{Error, Result};
use longwave_data::DataConfig;
use longwave_model::ModelConfig;
use longwave_position::PositionConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// What a run trains.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunConfig {
    /// Names the run's folder and its rows.
    pub name: String,
    /// Decides weights, batches and dropout.
    pub seed: u64,
    /// The corpus and its tokenizer.
    pub data: DataConfig,
    /// The model's sizes and parts.
    pub model: ModelConfig,
    /// The positional encoding.
    pub position: PositionConfig,
    /// The training.
    pub train: TrainConfig,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Top {
    name: String,
    #[serde(default)]
    seed: u64,
}

impl RunConfig {
    /// Reads a document; sections other than `[[evaluate]]`, which the caller has taken out.
    ///
    /// # Errors
    /// An unknown key, a wrong type or a value that is not allowed.
    pub fn from_table(mut document: Table) -> Result<Self> {
        let position = document.remove("position").ok_or_else(|| {
            Error::usage("`position` is missing").hint("add a section `[position]` with `kind = \"rope\"`")
        })?;
        let data = read::<DataConfig>(&take_table(&mut document, "data")?, "data")?;
        let model = read(&take_table(&mut document, "model")?, "model")?;
        let train = read::<TrainConfig>(&take_table(&mut document, "train")?, "train")?;
        let top = read_top(&document)?;
        data.validate()?;
        train.validate()?;
        let position = PositionConfig::from_value(&position, "position")?;
        let config = Self { name: top.name, seed: top.seed, data, model, position, train };
        config.check_name()?;
        feed::check(&config)?;
        Ok(config)
    }

    /// The document with every default written out.
    ///
    /// # Errors
    /// A value that TOML has no form for.
    pub fn to_table(&self) -> Result<Table> {
        match Value::try_from(self) {
            Ok(Value::Table(table)) => Ok(table),
            Ok(_) | Err(_) => Err(Error::failed("the config cannot be written as TOML")),
        }
    }

    /// Identifies what is trained on which data: SHA-256 over data, model, position, train and seed,
    /// not the name, not the evaluations, not where the data lies. `content_hash` is the corpus's and
    /// its tokenizer's.
    ///
    /// # Errors
    /// As [`to_table`](Self::to_table).
    pub fn hash(&self, content_hash: &str) -> Result<String> {
        let mut table = self.to_table()?;
        table.remove("name");
        table.remove("data");
        table.insert("data".to_owned(), Value::String(content_hash.to_owned()));
        let value = serde_json::to_value(&table)
            .map_err(|error| Error::failed(format!("the config cannot be hashed: {error}")))?;
        let canonical = canonical::text(value);
        Ok(sha256_of(canonical.as_bytes())[..16].to_owned())
    }

    fn check_name(&self) -> Result<()> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !self.name.is_empty() && self.name.chars().all(plain) && !self.name.starts_with('.') {
            return Ok(());
        }
        Err(Error::value(
            "name",
            format!("\"{}\"", self.name),
            "it names a folder: letters, digits, `-`, `_` and `.`",
        ))
    }
}

/// What is left at the top must be `name` and `seed`; a stranger gets the sections named too.
fn read_top(document: &Table) -> Result<Top> {
    const KNOWN: [&str; 7] = ["name", "seed", "data", "model", "position", "train", "evaluate"];
    if let Some(key) = document.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(unknown_key(key, key, &KNOWN));
    }
    read(document, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"x\"\n[data]\ncorpus = \"data/sotu\"\n[position]\nkind = \"rope\"\n";

    fn config(text: &str) -> Result<RunConfig> {
        RunConfig::from_table(text.parse().unwrap())
    }

    #[test]
    fn the_resolved_document_reads_back_the_same() {
        let first = config(TEXT).unwrap();
        let second = RunConfig::from_table(first.to_table().unwrap()).unwrap();
        assert_eq!(first, second);
    }

    #[test]
    fn the_hash_covers_what_is_trained_only() {
        let hash = |text: &str| config(text).unwrap().hash("corpus").unwrap();
        assert_eq!(hash(TEXT), hash(&TEXT.replace("\"x\"", "\"y\"")));
        assert_ne!(hash(TEXT), hash(&TEXT.replace("\n[data]", "\nseed = 1\n[data]")));
        assert_ne!(hash(TEXT), hash(&TEXT.replace("rope", "none")));
        assert_ne!(hash(TEXT), config(TEXT).unwrap().hash("another corpus").unwrap());
    }

    #[test]
    fn positions_that_the_encoding_cannot_take_are_refused() {
        let drawn = |position: &str, kind: &str| {
            let train = format!("[train]\npositions = {{ kind = \"{kind}\", max_position = 512 }}\n");
            config(&(TEXT.replace("\"rope\"", position) + &train))
        };
        assert!(drawn("\"rope\"", "randpos").is_ok());
        let error = drawn("\"learned\"", "randpos").unwrap_err();
        assert!(error.to_string().contains("positions up to 511"), "{error}");
        assert!(drawn("\"learned\"\ntable_size = 512", "randpos").is_ok());
        assert!(drawn("\"causal_conv\"", "pose").is_err());
        assert!(drawn("\"rope\"", "offset").is_err());
    }

    #[test]
    fn strangers_are_named() {
        let error = config(&format!("{TEXT}[trian]\nsteps = 1")).unwrap_err();
        assert_eq!(error.hint_text(), Some("did you mean `train`?"));
        assert!(config(&TEXT.replace("\"x\"", "\"a/b\"")).is_err());
        assert!(config("name = \"x\"").unwrap_err().message().contains("`position` is missing"));
    }
}
