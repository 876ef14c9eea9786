//! A whole config: what is trained, and how it is evaluated.

use crate::paths;
use longwave_core::config::{BACKSLASH, read, set, take_tables};
use longwave_core::{Error, Result, file, written};
use longwave_eval::block::Checkpoints;
use longwave_eval::{EvaluateConfig, Evaluation, Protocol, untrained, windows};
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
    /// How it is evaluated, block by block, as it is written and hashed; lengths are numbers of tokens.
    evaluate: Vec<EvaluateConfig>,
    /// The same, parsed and checked.
    #[serde(skip)]
    evaluations: Vec<Evaluation>,
    /// Values that are allowed and most likely a mistake, one sentence each; for whoever loads the config to show.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

impl Config {
    /// Reads a file and applies `--set` assignments to it. Relative paths of the file start at its folder where they lead
    /// to something from there (see [`paths`]), and those of assignments at the current folder.
    ///
    /// # Errors
    /// The file is missing or no TOML, or a key or value is not allowed.
    pub fn load(path: &Path, assignments: &[String]) -> Result<Self> {
        let mut table = parse(&file::read_text(path)?, &format!("`{}`", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        paths::resolve(&mut table, folder);
        let written = corpus_of(&table).map(str::to_owned);
        let mut config = Self::with_assignments(table, assignments)?;
        let data = &mut config.run.data;
        if written.as_deref() == Some(&data.corpus) && !folder.as_os_str().is_empty() {
            data.beside = Some(folder.join(&data.corpus));
        }
        Ok(config)
    }

    /// Reads a document and applies `--set` assignments to it.
    ///
    /// # Errors
    /// A key or value is not allowed.
    pub fn with_assignments(mut document: Table, assignments: &[String]) -> Result<Self> {
        let warnings = assignments.iter().map(|assignment| set(&mut document, assignment));
        let warnings = warnings.collect::<Result<Vec<_>>>()?;
        let mut config = Self::from_table(document)?;
        config.warnings.splice(0..0, warnings.into_iter().flatten());
        Ok(config)
    }

    /// Reads the config of a run's folder, as it is written.
    ///
    /// # Errors
    /// The file is missing or damaged.
    pub fn of_run(folder: &Path) -> Result<Self> {
        let path = folder.join("config.toml");
        Self::from_table(parse(&file::read_text(&path)?, &format!("`{}`", path.display()))?)
    }

    /// Reads the text of a config.
    ///
    /// ```
    /// use longwave_experiment::Config;
    ///
    /// let config = Config::parse("name = 'small'\ndata.corpus = 'data/sotu'\nposition = 'rope'\ntrain.length = 64")?;
    /// assert_eq!(config.run.position.name(), "rope");
    /// // Without `[[evaluate]]`, the test split is read at one, two, four and eight times the training length.
    /// assert_eq!(config.evaluations()[0].block.lengths, [64, 128, 256, 512]);
    ///
    /// let error = Config::parse("name = 'small'\ndata.corpus = 'data/sotu'\nposition = 'rpoe'").unwrap_err();
    /// assert_eq!(error.hint_text(), Some("did you mean `rope`?"));
    /// # Ok::<(), longwave_experiment::Error>(())
    /// ```
    ///
    /// # Errors
    /// The text is no TOML, or a key or value is not allowed.
    pub fn parse(text: &str) -> Result<Self> {
        Self::from_table(parse(text, "the config")?)
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
        let blocks = blocks.iter().enumerate().map(in_tokens).collect::<Result<_>>()?;
        let mut config = Self { run, evaluate: Vec::new(), evaluations: Vec::new(), warnings: Vec::new() };
        config.set_evaluate(blocks)?;
        let evaluations = config.evaluations.iter();
        let longest = evaluations.clone().flat_map(|evaluation| &evaluation.block.lengths).copied().max();
        config.warnings = evaluations.flat_map(|evaluation| evaluation.warnings.clone()).collect();
        if let Some(longest) = longest {
            config.warnings.extend(windows::of_training(&config.run, longest)?);
            if longest > config.run.train.length {
                config.warnings.extend(untrained::of_tables(&config.run));
            }
        }
        Ok(config)
    }

    /// The blocks as they are written, lengths in tokens.
    pub fn evaluate(&self) -> &[EvaluateConfig] {
        &self.evaluate
    }

    /// The evaluations.
    pub fn evaluations(&self) -> &[Evaluation] {
        &self.evaluations
    }

    /// Puts other blocks in the place of its own, lengths in tokens.
    ///
    /// # Errors
    /// A value that is not allowed, named by its key.
    pub fn set_evaluate(&mut self, blocks: Vec<EvaluateConfig>) -> Result<()> {
        let checked = |(index, block): (usize, &EvaluateConfig)| {
            let evaluation = Evaluation::new(block, &format!("evaluate[{index}]"), self.run.train.length)?;
            self.check_steps(&evaluation).map(|()| evaluation)
        };
        self.evaluations = blocks.iter().enumerate().map(checked).collect::<Result<_>>()?;
        self.evaluate = blocks;
        Ok(())
    }

    /// The same evaluations of the run as it is trained: one that goes on keeps the steps that its schedule was made for.
    ///
    /// # Errors
    /// That keeps none of the steps that an evaluation reads.
    pub fn of_prepared(self, run: RunConfig) -> Result<Self> {
        let config = Self { run, ..self };
        config.evaluations.iter().try_for_each(|evaluation| config.check_steps(evaluation))?;
        Ok(config)
    }

    /// Checks that the training keeps the steps that an evaluation reads.
    ///
    /// # Errors
    /// It keeps none, not one that is asked for, or may stop before it comes to them.
    pub fn check_steps(&self, evaluation: &Evaluation) -> Result<()> {
        let train = self.run.stage(self.run.last_stage());
        match (&evaluation.block.checkpoints, train.patience) {
            (Checkpoints::Steps(steps), Some(patience)) => Err(Error::value(
                &format!("{}.checkpoints", evaluation.section),
                format!("{steps:?}"),
                format!("a training with `patience = {patience}` may stop before it comes to these steps"),
            )
            .hint("`checkpoints = \"all\"` reads the kept steps that there are")),
            _ => evaluation.steps(&self.run.kept_steps()).map(|_| ()),
        }
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
            .map(|block| written::toml_value("`evaluate`", block))
            .collect::<Result<_>>()?;
        table.insert("evaluate".to_owned(), Value::Array(blocks));
        Ok(table)
    }
}

/// The corpus of a document.
fn corpus_of(document: &Table) -> Option<&str> {
    document.get("data")?.get("corpus")?.as_str()
}

/// Reads TOML; `name` is what the text is called in messages.
///
/// # Errors
/// It is no TOML.
pub fn parse(text: &str, name: &str) -> Result<Table> {
    text.parse().map_err(|error: toml::de::Error| {
        let hint =
            if is_escape(text, &error) { BACKSLASH } else { "`longwave init` shows configs to begin with" };
        Error::usage(format!("{name} is no TOML: {}", error.to_string().trim_end())).hint(hint)
    })
}

/// Whether what is no TOML stands on a line with a backslash between double quotes, as a path of Windows does.
fn is_escape(text: &str, error: &toml::de::Error) -> bool {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = text.get(..start).unwrap_or_default();
    let line = &text[before.rfind('\n').map_or(0, |end| end + 1)..];
    let line = line.lines().next().unwrap_or_default();
    line.split('"').skip(1).step_by(2).any(|quoted| quoted.contains('\\'))
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
        assert_eq!(first.evaluations()[0].extensions.len(), 2);
    }

    #[test]
    fn lists_wait_for_the_validation_split_and_are_read_there() {
        let block = |split: &str| {
            let extend = "[\"direct\", { kind = \"rerope\", window = [\"L/4\", \"L/2\"] }, \"ntk\"]";
            let config =
                config(&format!("[[evaluate]]\nlengths = [128]\nsplit = \"{split}\"\nextend = {extend}"));
            config.unwrap().evaluations()[0].clone()
        };
        let test = block("test");
        assert_eq!((test.extensions.len(), test.pending.into_keys().collect::<Vec<_>>()), (2, vec![1]));
        let valid = block("valid");
        assert_eq!((valid.extensions.len(), valid.pending.len()), (4, 0));
    }

    #[test]
    fn without_a_block_there_is_one() {
        let lengths = |text: &str| config(text).unwrap().evaluations()[0].block.lengths.clone();
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
        assert_eq!(longer.evaluations()[0].block.lengths, [256, 512]);
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

    /// The warnings of a config with L = 128 that is read at up to 512 tokens.
    fn warnings_of(position: &str, more: &str, extend: &str) -> Vec<String> {
        let text = format!(
            "name = 'x'\nposition = {position}\n[data]\ncorpus = 'c'\n{more}\n[[evaluate]]\nlengths = [128, 512]\n\
             extend = [{extend}]"
        );
        Config::from_table(text.parse().unwrap()).unwrap().warnings
    }

    fn stack(window: &str) -> String {
        format!("{{ kind = 'mixed', layers = ['none', {{ kind = 'rope', window = {window} }}] }}")
    }

    #[test]
    fn a_window_that_hides_something_has_no_warning() {
        for window in ["64", "'L'", "128", "511", "'3L'"] {
            assert_eq!(warnings_of(&stack(window), "", "'direct'"), [""; 0], "{window}");
            let extend = format!("{{ kind = 'window', window = {window} }}");
            assert_eq!(warnings_of("'rope'", "", &extend), [""; 0], "{window}");
        }
        let later = "[[stage]]\nlength = 1024\nsteps = 3";
        assert_eq!(
            warnings_of(&stack("512"), later, "'direct'"),
            [""; 0],
            "a stage reads more than the evaluation"
        );
    }

    #[test]
    fn a_window_that_hides_nothing_is_named() {
        let message = warnings_of(&stack("512"), "", "'direct'").remove(0);
        assert!(
            message.starts_with(
                "`position.layers[1].window = 512` hides nothing: a window of 512 tokens, and the longest text that is \
                 trained on or read has 512 tokens"
            ),
            "{message}"
        );
        let message = warnings_of(&stack("'4L'"), "", "'direct'").remove(0);
        assert!(message.starts_with("`position.layers[1].window = \"4L\"`"), "{message}");
        for (extend, key) in [
            ("{ kind = 'window', window = 4096 }", "`evaluate[0].extend[1].window = 4096`"),
            ("{ kind = 'window', window = ['L', '4L'] }", "`evaluate[0].extend[1].window = \"4L\"`"),
            ("{ kind = 'sinks', window = 600, reindex = false }", "`evaluate[0].extend[1].window = 600`"),
            (
                "{ kind = 'lambda_mask', window = 512, allow_untrained = true }",
                "`evaluate[0].extend[1].window = 512`",
            ),
        ] {
            let message = warnings_of("'rope'", "", &format!("'direct', {extend}")).remove(0);
            assert!(
                message.starts_with(key) && message.contains("the longest of `lengths` is 512"),
                "{message}"
            );
        }
        let stage = "[[stage]]\nlength = 256\nsteps = 3\nextend = { kind = 'window', window = 2048 }";
        let message = warnings_of("'rope'", stage, "'direct'").remove(0);
        assert!(message.starts_with("`stage[0].extend.window = 2048`"), "{message}");
    }

    #[test]
    fn a_table_that_training_does_not_reach_is_named() {
        let message = warnings_of("{ kind = 'shaw', p_max = 128 }", "", "'direct'").remove(0);
        assert!(
            message.starts_with(
                "`position.p_max` is too large for texts of 128 tokens: the last entry of its table is read from 128 tokens"
            ),
            "{message}"
        );
        let stack = "{ kind = 'mixed', layers = ['none', { kind = 'deberta', span = 512 }] }";
        let message = warnings_of(stack, "", "'direct'").remove(0);
        assert!(message.starts_with("`position.layers[1].span` is too large"), "{message}");
        // Of 32 buckets the last begins above 16 (M/16)^(15/16): 126.3 for M = 145, 127.2 for M = 146. A count at distance n is below
        // n + 1, and the last of 130 vectors is read above 128.
        for (position, key) in [
            ("{ kind = 't5', max_distance = 146 }", "position.max_distance"),
            ("{ kind = 't5', max_distance = '2L' }", "position.max_distance"),
            (
                "{ kind = 'tupe', relative = 't5', max_distance = 148, table_size = '4L' }",
                "position.max_distance",
            ),
            ("{ kind = 'cope', npos = 130 }", "position.npos"),
            ("{ kind = 'causal_conv', kernel = 129 }", "position.kernel"),
            ("['rope', { kind = 'cope', npos = 130 }]", "position[1].npos"),
            (
                "{ kind = 'mixed', layers = ['none', { kind = 'shaw', p_max = 128, window = 129 }] }",
                "position.layers[1].p_max",
            ),
        ] {
            let warnings = warnings_of(position, "", "'direct'");
            assert!(
                matches!(&warnings[..], [one] if one.starts_with(&format!("`{key}` is too large"))),
                "{warnings:?}"
            );
        }
        for position in [
            "{ kind = 'shaw', p_max = 127 }",
            "{ kind = 'deberta', span = 'L' }",
            "{ kind = 't5', max_distance = 145 }",
            "{ kind = 'tupe', max_distance = '2L', table_size = '4L' }",
            "{ kind = 'cope', npos = 129 }",
            "{ kind = 'causal_conv', kernel = 128 }",
            "{ kind = 'mixed', layers = ['none', { kind = 'shaw', p_max = 128, window = 128 }] }",
            "'rope'",
        ] {
            assert_eq!(warnings_of(position, "", "'direct'"), [""; 0], "{position}");
        }
        let stage = "[[stage]]\nlength = 256\nsteps = 3";
        assert_eq!(warnings_of("{ kind = 'shaw', p_max = 128 }", stage, "'direct'"), [""; 0]);
    }

    #[test]
    fn a_config_without_evaluations_has_no_warnings() {
        let text = format!("name = 'x'\nevaluate = []\nposition = {}\n[data]\ncorpus = 'c'", stack("4096"));
        let config = Config::from_table(text.parse().unwrap()).unwrap();
        assert_eq!(config.warnings, [""; 0]);
    }
}
