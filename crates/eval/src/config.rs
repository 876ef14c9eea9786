//! A whole config: what is trained, and how it is evaluated.

use crate::block::{EvaluateConfig, Protocol};
use crate::evaluation::Evaluation;
use crate::windows;
use longwave_core::config::{read, set, take_tables};
use longwave_core::{Error, Result, file};
use longwave_train::RunConfig;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;
use toml::{Table, Value};

/// A config file with every default filled in.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Config {
    /// What is trained.
    #[serde(flatten)]
    pub run: RunConfig,
    /// How it is evaluated, block by block; lengths are numbers of tokens.
    pub evaluate: Vec<EvaluateConfig>,
    /// Values that are allowed and most likely a mistake, one sentence each; for whoever loads the config to show.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

impl Config {
    /// Reads a file and applies `--set` assignments to it.
    ///
    /// # Errors
    /// The file is missing or no TOML, or a key or value is not allowed.
    pub fn load(path: &Path, assignments: &[String]) -> Result<Self> {
        let text = file::read_text(path)?;
        let mut document: Table = text.parse().map_err(|error: toml::de::Error| {
            Error::usage(format!("`{}` is no TOML: {}", path.display(), error.to_string().trim_end()))
                .hint("see the configs in `configs/` for the form")
        })?;
        assignments.iter().try_for_each(|assignment| set(&mut document, assignment))?;
        Self::from_table(document)
    }

    /// Reads a document. Without an `[[evaluate]]` block there is one that reads the test split, or asks
    /// the task, at one, two, four and eight times the training length, as trained.
    ///
    /// # Errors
    /// A key or value is not allowed.
    pub fn from_table(mut document: Table) -> Result<Self> {
        let given = document.contains_key("evaluate");
        let blocks = take_tables(&mut document, "evaluate")?;
        let run = RunConfig::from_table(document)?;
        let blocks = if given {
            let read = |(index, table): (usize, &Table)| read(table, &format!("evaluate[{index}]"));
            blocks.iter().enumerate().map(read).collect::<Result<Vec<EvaluateConfig>>>()?
        } else {
            let protocol = if run.data.task.is_some() { Protocol::Task } else { Protocol::default() };
            vec![EvaluateConfig { protocol, ..EvaluateConfig::default() }]
        };
        let in_tokens = |(index, block): (usize, &EvaluateConfig)| {
            block.in_tokens(&format!("evaluate[{index}]"), run.train.length)
        };
        let evaluate = blocks.iter().enumerate().map(in_tokens).collect::<Result<_>>()?;
        let mut config = Self { run, evaluate, warnings: Vec::new() };
        let evaluations = config.evaluations()?;
        let longest = evaluations.iter().flat_map(|evaluation| &evaluation.block.lengths).copied().max();
        config.warnings = evaluations.into_iter().flat_map(|evaluation| evaluation.warnings).collect();
        if let Some(longest) = longest {
            config.warnings.extend(windows::of_training(&config.run, longest)?);
        }
        Ok(config)
    }

    /// The evaluations, checked.
    ///
    /// # Errors
    /// A value that is not allowed, named by its key.
    pub fn evaluations(&self) -> Result<Vec<Evaluation>> {
        self.evaluate
            .iter()
            .enumerate()
            .map(|(index, block)| {
                Evaluation::new(block, &format!("evaluate[{index}]"), self.run.train.length)
            })
            .collect()
    }

    /// The config with every default written out.
    ///
    /// # Errors
    /// A value that TOML has no form for.
    pub fn to_table(&self) -> Result<Table> {
        let mut table = self.run.to_table()?;
        let blocks = self
            .evaluate
            .iter()
            .map(Value::try_from)
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|error| Error::failed(format!("`evaluate` cannot be written as TOML: {error}")))?;
        table.insert("evaluate".to_owned(), Value::Array(blocks));
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"x\"\n[data]\ncorpus = \"data/sotu\"\n[position]\nkind = \"rope\"\n";

    fn config(more: &str) -> Result<Config> {
        Config::from_table(format!("{TEXT}{more}").parse().unwrap())
    }

    #[test]
    fn the_resolved_document_reads_back_the_same() {
        let first =
            config("[[evaluate]]\nlengths = [128, 256]\nextend = [\"linear\", { kind = \"ntk\" }]").unwrap();
        assert_eq!(Config::from_table(first.to_table().unwrap()).unwrap(), first);
        assert_eq!(first.evaluations().unwrap()[0].extensions.len(), 2);
    }

    #[test]
    fn lists_wait_for_the_validation_split_and_are_read_there() {
        let block = |split: &str| {
            let extend = "[\"direct\", { kind = \"rerope\", window = [\"L/4\", \"L/2\"] }, \"ntk\"]";
            let config =
                config(&format!("[[evaluate]]\nlengths = [128]\nsplit = \"{split}\"\nextend = {extend}"));
            config.unwrap().evaluations().unwrap().remove(0)
        };
        let test = block("test");
        assert_eq!((test.extensions.len(), test.pending.len(), test.pending[0].place), (2, 1, 1));
        let valid = block("valid");
        assert_eq!((valid.extensions.len(), valid.pending.len()), (4, 0));
    }

    #[test]
    fn without_a_block_there_is_one() {
        let lengths = |text: &str| config(text).unwrap().evaluations().unwrap()[0].block.lengths.clone();
        assert_eq!(lengths(""), [128, 256, 512, 1024]);
        assert_eq!(lengths("[train]\nlength = 64"), [64, 128, 256, 512]);
        let task = TEXT.replace("corpus = \"data/sotu\"", "task = { kind = \"copy\" }");
        let task = Config::from_table(task.parse().unwrap()).unwrap();
        assert_eq!(task.evaluate[0].protocol, Protocol::Task);
    }

    #[test]
    fn multiples_are_resolved_and_identify_a_run_as_numbers_do() {
        let written = "[[evaluate]]\nlengths = [\"L\", \"2L\"]\nmax_length = \"8L\"";
        let first = config(written).unwrap();
        let numbers = config("[[evaluate]]\nlengths = [128, 256]\nmax_length = 1024").unwrap();
        assert_eq!(first, numbers);
        assert_eq!(first.to_table().unwrap().to_string(), numbers.to_table().unwrap().to_string());
        let longer = config(&format!("[train]\nlength = 256\n{written}")).unwrap();
        assert_eq!(longer.evaluations().unwrap()[0].block.lengths, [256, 512]);
    }

    #[test]
    fn errors_name_the_block_and_place() {
        let message = |more: &str| config(more).unwrap_err().to_string();
        let text = message("[[evaluate]]\nlengths = [128]\nextend = [\"direct\", \"liner\"]");
        assert!(text.starts_with("`evaluate[0].extend[1] = \"liner\"` is not allowed"), "{text}");
        assert!(text.ends_with("did you mean `linear`?"), "{text}");
        assert!(message("[evaluate]\nlengths = [128]").contains("[[evaluate]]"));
        assert!(message("[[evaluate]]\nlenghts = [128]").contains("did you mean `lengths`?"));
    }
}
