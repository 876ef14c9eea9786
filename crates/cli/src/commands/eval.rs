//! `longwave eval`: evaluates a trained run again, differently.

use crate::configs::warn;
use crate::device_check;
use crate::options::{RunOptions, extensions, introduce, one_of, one_value, parsed};
use crate::output::{json_lines, status};
use crate::tables::{print_tables, renew_report};
use crate::terminal::{Terminal, describe_notes, memory};
use clap::Args;
use longwave_core::config::{read, set};
use longwave_core::memory_check::{peak, shown};
use longwave_core::{Error, Result, written};
use longwave_data::Split;
use longwave_eval::block::Checkpoints;
use longwave_eval::protocols::{self, Protocol, WINDOWS_PER_DOCUMENT};
use longwave_eval::{Applicable, EvaluateConfig, Evaluation, TokenLog, applicable};
use longwave_experiment::{Config, FoundRun, Measured, TrainedRun, reading_of};
use longwave_position::Tokens;
use longwave_report::Format;
use longwave_train::{Run, RunConfig};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// What stands for every extension that applies.
const ALL: &str = "all";

/// Evaluate a trained run again, differently
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Lengths separated by commas, in tokens or as multiples of the training length such as `2L`; those of the run's
    /// config unless given
    #[arg(long, value_delimiter = ',', value_name = "N,2L,..")]
    lengths: Vec<Tokens>,
    /// Extensions by kind, separated by commas, or one as an inline TOML table; repeatable. `all` stands for every one
    /// that applies to the model at these lengths, with the default of every key
    #[arg(long, value_name = "KIND,KIND,..|all")]
    extend: Vec<String>,
    /// The reading that the others are compared with: `window_baseline` unless given, or one of the extensions, by its
    /// kind or as an inline TOML table
    #[arg(long, value_name = "METHOD")]
    against: Option<String>,
    #[arg(long, value_name = "PROTOCOL", help = format!("Protocol: {}", one_of(Protocol::all().iter().map(|it| it.name()))))]
    protocol: Option<String>,
    /// The text to read, in tokens of the run's tokenizer: a folder, a glob or a file. The run's own text, wherever it
    /// lies by now, gives the run's own rows; rows of other text say so
    #[arg(long, value_name = "PATH")]
    corpus: Option<String>,
    /// The part of the corpus to read; `test` unless given
    #[arg(long, value_name = "train|validation|test", value_parser = parsed::<Split>)]
    split: Option<Split>,
    /// Read the checkpoints along the training too: `all` that `train.keep_checkpoints` names, or some by their steps; `best` reads
    /// that of the best validation in the place of the end
    #[arg(long, value_name = "best|all|N,N,..", conflicts_with = "checkpoint")]
    checkpoints: Option<String>,
    /// Write rows, tables and page into this folder, and nothing into the run's, which may be read-only: a new folder, or that of
    /// an earlier `eval --out` of the same run
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the loss of every scored token to this file: JSON lines, or CSV where it ends in `.csv`
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Change a key of the evaluation, as `windows_per_document=4` or `stride=64`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// What the tables are printed as: `text`, `markdown`, `latex` or `csv`
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = parsed::<Format>, conflicts_with = "json")]
    format: Format,
    #[command(flatten)]
    of: RunOptions,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // A folder without a run is the first thing that can be wrong.
    let RunOptions { run, checkpoint, json, compute } = &arguments.of;
    Run::read(run)?;
    if let Some(tokens) = &arguments.tokens {
        check_tokens(tokens, [Some(run), arguments.out.as_ref()])?;
    }
    let corpus = arguments.corpus.as_deref();
    let found = FoundRun::find(run, checkpoint.unwrap_or_default(), corpus, &mut Terminal::default())?;
    let other = corpus.filter(|_| found.other_given());
    let mut evaluations = evaluations(arguments, other)?;
    if checkpoint.is_some() {
        for evaluation in &mut evaluations {
            evaluation.block.checkpoints = Checkpoints::Last;
        }
    }
    let mut machine = compute.open()?;
    device_check::before_reading(&mut machine)?;
    if let Some(other) = other {
        status(&format!(
            "text      {other}: its rows are of other text than the run's own; whether the run was trained on any of it is not checked"
        ));
    }
    let mut trained = TrainedRun::open_found(found, &machine, &mut Terminal::default())?;
    if let Some(out) = &arguments.out {
        trained = trained.writing_to(out)?;
    }
    if let Some(warning) = trained.warning() {
        tracing::warn!("{warning}");
    }
    let need = trained.check(&evaluations)?;
    describe_notes(&trained.notes(&evaluations)?);
    introduce(&machine);
    status(&format!("memory    {}", memory(&need)));
    let mut tokens = arguments.tokens.as_deref().map(TokenLog::create).transpose()?;
    let Measured { rows, tried } =
        trained.evaluate(&evaluations, tokens.as_mut(), &mut Terminal::default())?;
    if let Some(tokens) = tokens {
        tokens.finish()?;
    }
    if let Some(peak) = peak() {
        status(&format!("memory    {} held at most", shown(peak)));
    }
    if *json {
        json_lines(tried.iter().chain(&rows))?;
    } else {
        print_tables(&rows, arguments.format)?;
    }
    renew_report(run, arguments.out.as_deref())
}

/// Files of a run's folder, and of the reports in it.
const OF_A_RUN: [&str; 9] = [
    "config.toml",
    "data.json",
    "metrics.jsonl",
    "metrics.lines.json",
    "results.jsonl",
    "results.lines.json",
    "results.csv",
    "results.md",
    "tokenizer.json",
];

/// Checks that the losses of tokens are not written where a run, or its report, has a file of its own.
fn check_tokens(file: &Path, folders: [Option<&PathBuf>; 2]) -> Result<()> {
    let place = |path: &Path| path.canonicalize().ok();
    let folder =
        file.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    let is_within = |own: &&PathBuf| folder.and_then(place).is_some_and(|it| Some(it) == place(own));
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    match folders.into_iter().flatten().find(is_within) {
        Some(own) if OF_A_RUN.contains(&name.as_ref()) => Err(Error::usage(format!(
            "`--tokens {}`: `{name}` in `{}` is a file of the run",
            file.display(),
            own.display()
        ))
        .hint("name another file, such as `losses.jsonl`")),
        _ => Ok(()),
    }
}

/// The evaluations that the command line asks for: those of the run's config, or one of its own that
/// begins as the config's first and reads `corpus`, where that is other text than the run's.
fn evaluations(arguments: &Arguments, corpus: Option<&str>) -> Result<Vec<Evaluation>> {
    let config = Config::load(&arguments.of.run.join("config.toml"), &[])?;
    if options(arguments, corpus).next().is_none() && arguments.set.is_empty() {
        warn(&config.warnings);
        return Ok(config.evaluations().to_vec());
    }
    let mut block =
        config.evaluate().first().and_then(|block| Table::try_from(block).ok()).unwrap_or_default();
    if let Some(protocol) = &arguments.protocol {
        // Layouts belong to a protocol; another one begins with its own defaults.
        for key in protocols::keys().into_iter().filter(|key| *key != WINDOWS_PER_DOCUMENT) {
            block.remove(key.name);
        }
        block.remove("task");
        if protocol == "task" {
            // A task makes its own sequences: what the config says of its text is not about them.
            for key in [WINDOWS_PER_DOCUMENT.name, "corpus", "split"] {
                block.remove(key);
            }
        }
        block.insert("protocol".to_owned(), Value::String(protocol.clone()));
    }
    if let Some(corpus) = corpus {
        // A run of a task reads other text as text.
        if config.run.data.task.is_some() && arguments.protocol.is_none() {
            block.remove("protocol");
            block.remove("sequences");
            block.remove("task");
        }
        block.insert("corpus".to_owned(), Value::String(corpus.to_owned()));
        block.remove("split");
    }
    if let Some(checkpoints) = &arguments.checkpoints {
        block.insert("checkpoints".to_owned(), steps_or_word(checkpoints));
    }
    insert_options(&mut block, &arguments.lengths, &arguments.extend, arguments.split)?;
    if let Some(against) = &arguments.against {
        block.insert("against".to_owned(), one_value("--against", against)?);
    } else if !arguments.extend.is_empty() {
        // Other readings than the config's, which may lack what it compares with.
        block.remove("against");
    }
    for assignment in &arguments.set {
        check_is_of_evaluation(assignment)?;
        check_said_once(assignment, arguments)?;
        set(&mut block, assignment)?;
    }
    write_out_all(&mut block, &config.run)?;
    let block: EvaluateConfig = read(&block, "eval")?;
    let evaluation = Evaluation::new(&block, "eval", config.run.train.length)?;
    config.check_steps(&evaluation)?;
    warn(config.warnings.iter().chain(&evaluation.warnings));
    Ok(vec![evaluation])
}

/// Puts every extension that applies at the lengths of a block in the place of `all`, and shows the others with the reason.
fn write_out_all(block: &mut Table, config: &RunConfig) -> Result<()> {
    let is_all = |entry: &Value| entry.as_str() == Some(ALL);
    let asked = block.get("extend").and_then(Value::as_array).cloned().unwrap_or_default();
    if !asked.iter().any(is_all) {
        return Ok(());
    }
    // Its lengths, whatever it reads them with.
    let mut lengths = block.clone();
    lengths.remove("against");
    lengths.insert("extend".to_owned(), Value::Array(vec!["direct".into()]));
    let lengths = Evaluation::new(&read(&lengths, "eval")?, "eval", config.train.length)?.block.lengths;
    let (reading, _) = reading_of(config)?;
    let Applicable { kinds, left_out } = applicable(&reading, &lengths, config.train.length);
    for (kinds, reason) in by_reason(&left_out) {
        // A value that nobody wrote is one of the default keys.
        let keys = if reason.contains("is not allowed") { " (with its default keys)" } else { "" };
        status(&format!("left out  {}{keys}: {reason}", kinds.join(", ")));
    }
    let named = asked.iter().filter(|entry| !is_all(entry));
    let extend = kinds.into_iter().map(Value::from).chain(named.cloned());
    block.insert("extend".to_owned(), Value::Array(extend.collect()));
    Ok(())
}

/// Kinds that are left out for the same reason, in the order of the first of each.
fn by_reason(left_out: &[(&'static str, Error)]) -> Vec<(Vec<&'static str>, String)> {
    let mut reasons: Vec<(Vec<&str>, String)> = Vec::new();
    for (kind, error) in left_out {
        let reason = error.message().trim_start_matches(&format!("`{kind}` ")).replace('\n', " ");
        match reasons.iter_mut().find(|(_, other)| *other == reason) {
            Some((kinds, _)) => kinds.push(kind),
            None => reasons.push((vec![kind], reason)),
        }
    }
    reasons
}

/// Puts the values of options that `explain` has too into a block.
pub(super) fn insert_options(
    block: &mut Table,
    lengths: &[Tokens],
    extend: &[String],
    split: Option<Split>,
) -> Result<()> {
    if !lengths.is_empty() {
        block.remove("max_length");
        block.insert("lengths".to_owned(), written::toml_value("`--lengths`", &lengths)?);
    }
    if !extend.is_empty() {
        let all = extend.iter().map(|text| extensions(text)).collect::<Result<Vec<_>>>()?.concat();
        block.insert("extend".to_owned(), Value::Array(all));
    }
    if let Some(split) = split {
        block.insert("split".to_owned(), Value::String(split.to_string()));
    }
    Ok(())
}

/// The options that were given and are named after a key of an evaluation.
fn options(arguments: &Arguments, corpus: Option<&str>) -> impl Iterator<Item = &'static str> {
    let given = [
        ("lengths", !arguments.lengths.is_empty()),
        ("extend", !arguments.extend.is_empty()),
        ("against", arguments.against.is_some()),
        ("protocol", arguments.protocol.is_some()),
        ("corpus", corpus.is_some()),
        ("split", arguments.split.is_some()),
        ("checkpoints", arguments.checkpoints.is_some()),
    ];
    given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name)
}

/// `--set` changes the keys of one evaluation; those of the whole config have their place elsewhere.
fn check_is_of_evaluation(assignment: &str) -> Result<()> {
    let key = assignment.split('=').next().unwrap_or_default().trim();
    let hint = match key.split('.').next().unwrap_or_default() {
        _ if key == "data.corpus" => "name the text with `--corpus PATH`",
        "evaluate" => "leave `evaluate` out: `--set windows_per_document=4` changes the evaluation at hand",
        "data" | "model" | "position" | "train" | "stage" | "seed" | "name" => {
            "the run stays as it was trained; `longwave train` trains another"
        }
        _ => return Ok(()),
    };
    Err(Error::usage(format!("`{key}` is no key of an evaluation, which is all that `--set` changes here"))
        .hint(hint))
}

/// What an option of its own says is not said by `--set` too.
fn check_said_once(assignment: &str, arguments: &Arguments) -> Result<()> {
    let key = assignment.split(['=', '.']).next().unwrap_or_default().trim();
    let own = options(arguments, arguments.corpus.as_deref()).map(|name| (name, name));
    // It reads one checkpoint alone, whatever `checkpoints` says.
    let checkpoint = arguments.of.checkpoint.map(|_| ("checkpoint", "checkpoints"));
    let Some((option, _)) = own.chain(checkpoint).find(|(_, says)| *says == key) else { return Ok(()) };
    Err(Error::usage(format!("`--{option}` and `--set {assignment}` both say what `{key}` is"))
        .hint("give one of them"))
}

/// Steps separated by commas, or a word.
fn steps_or_word(text: &str) -> Value {
    let steps: std::result::Result<Vec<i64>, _> = text.split(',').map(|step| step.trim().parse()).collect();
    steps.map_or_else(|_| text.into(), Value::from)
}
