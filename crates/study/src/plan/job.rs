//! The work of a planned run, and what identifies it.

use longwave_core::{Error, Result, canonical, file};
use longwave_data::{DataConfig, files_hash};
use longwave_eval::{EvaluateConfig, row};
use longwave_experiment::Config;
use longwave_train::{RunConfig, checkpoint};
use serde_json::json;
use std::path::Path;
use toml::Table;

/// The version of a run's identity: raised when the same config would be kept in another form, or trained to other
/// weights.
pub const FORMAT: u32 = 1;

#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The run's identity, which is also its name and its folder's: a hash of the resolved config, the
    /// data, the kind of device and the format's version.
    pub key: String,
    pub evaluation: String,
    pub config: Config,
}

impl Job {
    /// Key and evaluation, which identify the work: equal work is done once.
    pub fn id(&self) -> (String, String) {
        (self.key.clone(), self.evaluation.clone())
    }

    /// Checks that it is still the work that was planned: on this kind of device, with this content of `[data]`, and with what its evaluations
    /// read now. Else its results would be filed as those of another text.
    ///
    /// # Errors
    /// It is other work.
    pub fn check_planned(&self, content_hash: &str, device: &str) -> Result<()> {
        let run = &self.config.run;
        let hash = run.hash(content_hash)?;
        let changed = |what: &str| {
            Error::failed(format!("{what} changed after the study was planned"))
                .hint("run the study again: it plans with what is there now")
        };
        match ["cpu", "gpu"].into_iter().find(|kind| key_of(run, &hash, kind) == self.key) {
            Some(planned) if planned == device => {}
            Some(planned) => {
                let why =
                    format!("the study was planned for a {planned}, and this machine would use a {device}");
                return Err(Error::usage(why)
                    .hint("name it in `devices` of the study: results of the two round differently"));
            }
            None => return Err(changed(&format!("the text of `data.corpus = \"{}\"`", run.data.corpus))),
        }
        let read = Content::besides(&self.config).into_iter().map(Content::hash_of_files);
        if evaluation_of(&self.config, &read.collect::<Result<Vec<_>>>()?)? != self.evaluation {
            return Err(changed("a text or a file that `evaluate` names"));
        }
        Ok(())
    }
}

/// The stored run that another goes on from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub key: String,
    pub step: u64,
}

/// The identity of a run whose config has this hash. Where a config says how often it validates, that decides which of its steps is the
/// best, and changes no step.
pub(crate) fn key_of(config: &RunConfig, hash: &str, device: &str) -> String {
    let mut identity = json!({
        "format": FORMAT,
        "checkpoint": checkpoint::FORMAT,
        "config": hash,
        "device": device,
    });
    let validations: Vec<_> =
        (0..=config.last_stage()).map(|stage| config.stage(stage).validate_every).collect();
    if validations.iter().any(Option::is_some) {
        identity["validate_every"] = json!(validations);
    }
    short_hash(identity)
}

/// What a plan must know the content of.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// The text or task that a run is trained on.
    Data(&'a DataConfig),
    /// Another text that an evaluation of it reads.
    Corpus(&'a DataConfig, &'a str),
    KeyTokens(&'a str),
}

impl<'a> Content<'a> {
    /// What the evaluations of a config read besides its own text.
    pub(super) fn besides(config: &'a Config) -> Vec<Self> {
        let of = |block: &'a EvaluateConfig| {
            let corpus = block.corpus.as_deref().map(|corpus| Self::Corpus(&config.run.data, corpus));
            [corpus, block.key_tokens.as_deref().map(Self::KeyTokens)]
        };
        config.evaluate().iter().flat_map(of).flatten().collect()
    }

    /// Identifies the files that hold it.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn hash_of_files(self) -> Result<String> {
        match self {
            Self::Data(data) => files_hash(data, &data.corpus),
            Self::Corpus(data, corpus) => files_hash(data, corpus),
            Self::KeyTokens(path) => file::read(Path::new(path)).map(|bytes| file::sha256_of(&bytes)),
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Data(data) => data_text(data),
            Self::Corpus(_, corpus) => format!("corpus {corpus}"),
            Self::KeyTokens(path) => format!("key_tokens {path}"),
        }
    }
}

/// Identifies the evaluations of a combination, which are those of all its seeds; `read` are the contents of what these read besides the run's
/// own text.
pub(super) fn evaluation_of(config: &Config, read: &[String]) -> Result<String> {
    let blocks = serde_json::to_value(config.evaluate())
        .map_err(|error| Error::failed(format!("`evaluate` cannot be hashed: {error}")))?;
    let mut identity = json!({ "format": row::FORMAT, "evaluate": blocks });
    if !read.is_empty() {
        identity["read"] = json!(read);
    }
    Ok(short_hash(identity))
}

/// The text that identifies `[data]` in a plan.
pub(crate) fn data_text(data: &DataConfig) -> String {
    Table::try_from(data).map(|table| table.to_string()).unwrap_or_default()
}

fn short_hash(value: serde_json::Value) -> String {
    file::sha256_of(canonical::text(value).as_bytes())[..16].to_owned()
}
