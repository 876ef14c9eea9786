//! `longwave explain`: what a trained model does with longer texts, and why it breaks.

use super::eval::insert_options;
use crate::device_check;
use crate::options::{Compute, introduce, parsed};
use crate::output::{self, data, json_document, lines, status};
use crate::page_folder;
use crate::tables::{renew_report, wrote};
use crate::terminal::Terminal;
use clap::Args;
use longwave_core::text::quoted;
use longwave_core::{Error, Result, file};
use longwave_data::Split;
use longwave_eval::diagnostics::Explained;
use longwave_eval::protocols::{Protocol, WINDOWS_PER_DOCUMENT};
use longwave_eval::{EvaluateConfig, Evaluation};
use longwave_experiment::{FoundRun, Machine, TrainedRun};
use longwave_position::{Lengths, Tokens};
use longwave_report::Format;
use longwave_report::explained::{csv, keep, summary, tables};
use longwave_report::page::write_explained;
use longwave_train::Run;
use longwave_train::run::CheckpointId;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Say what a trained model does with longer texts, and why it breaks
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// A run's folder, such as `runs/rope-0`; of several that differ in their seed alone, numbers are averaged, with errors over them
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Lengths separated by commas, in tokens or as multiples of the training length; `L,2L,4L,8L` unless given
    #[arg(long, value_delimiter = ',', value_name = "N,2L,..")]
    lengths: Vec<Tokens>,
    /// Extensions by kind, separated by commas, or one as an inline TOML table; repeatable. As trained unless given
    #[arg(long, value_name = "KIND,KIND,..")]
    extend: Vec<String>,
    /// The text to read: a folder, a glob or a file. Other text than the run's is read in tokens of its tokenizer, see `eval`
    #[arg(long, value_name = "PATH")]
    corpus: Option<String>,
    /// The part of the corpus to read; `test` unless given
    #[arg(long, value_name = "train|validation|test", value_parser = parsed::<Split>)]
    split: Option<Split>,
    /// Which checkpoint to read, see `eval`
    #[arg(long, default_value = "last", value_name = "NAME", value_parser = parsed::<CheckpointId>)]
    checkpoint: CheckpointId,
    /// Write `explained.json`, `explained.csv`, charts and a page into this folder, and nothing into the run's, which may be read-only
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What the tables are printed as: `text`, `markdown`, `latex` or `csv` (a line a number)
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = parsed::<Format>, conflicts_with = "json")]
    format: Format,
    /// Print JSON with every number
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    compute: Compute,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // A folder without a run, or with another one, is the first thing that can be wrong.
    Run::check_seeds(&arguments.runs)?;
    if let Some(out) = &arguments.out {
        page_folder::check(out, None, &["report.html"])?;
    }
    let mut machine = arguments.compute.open()?;
    device_check::before_reading(&mut machine)?;
    introduce(&machine);
    let runs = arguments.runs.iter().map(|run| explained(run, arguments, &machine));
    let explained = Explained::over_runs(&runs.collect::<Result<Vec<_>>>()?)?;
    print(&explained, arguments)?;
    match (&arguments.out, arguments.runs.as_slice()) {
        (Some(out), _) => {
            file::make_folders(out).map_err(|error| Error::io("make", out, &error))?;
            wrote(out, &write_explained(&explained, command(arguments), out)?);
            Ok(())
        }
        (None, [_]) if arguments.checkpoint != CheckpointId::Last => {
            status(&format!(
                "note      the run's folder keeps what is found about `last`; `--out DIR` keeps what is of `{}`",
                arguments.checkpoint.name()
            ));
            Ok(())
        }
        (None, [run]) => {
            keep(&explained, run)?;
            if run.join("results.jsonl").is_file() { renew_report(run, None) } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

/// What was typed, without what says where it is written and computed.
fn command(arguments: &Arguments) -> String {
    let mut words = vec!["longwave explain".to_owned()];
    words.extend(arguments.runs.iter().map(|run| quoted(&run.to_string_lossy())));
    let checkpoint = Some(arguments.checkpoint).filter(|id| *id != CheckpointId::Last);
    words.extend(checkpoint.map(|id| format!("--checkpoint {}", id.name())));
    let lengths: Vec<String> = arguments.lengths.iter().map(|length| length.text()).collect();
    words.extend((!lengths.is_empty()).then(|| format!("--lengths {}", lengths.join(","))));
    words.extend(arguments.extend.iter().map(|extend| format!("--extend {}", quoted(extend))));
    words.extend(arguments.corpus.iter().map(|corpus| format!("--corpus {}", quoted(corpus))));
    words.extend(arguments.split.map(|split| format!("--split {split}")));
    words.join(" ")
}

fn explained(run: &Path, arguments: &Arguments, machine: &Machine) -> Result<Explained> {
    let corpus = arguments.corpus.as_deref();
    let found = FoundRun::find(run, arguments.checkpoint, corpus, &mut Terminal::default())?;
    let other = corpus.filter(|_| found.other_given());
    let trained = TrainedRun::open_found(found, machine, &mut Terminal::default())?;
    if let Some(warning) = trained.warning() {
        tracing::warn!("{warning}");
    }
    let config = Run::read(run)?;
    let train = config.train.length;
    let mut block = Table::new();
    if config.data.task.is_some() && other.is_none() {
        block.insert("protocol".to_owned(), Value::String(Protocol::Task.name().to_owned()));
    } else {
        block.insert(WINDOWS_PER_DOCUMENT.name.to_owned(), Value::Integer(4));
        // The same tokens are scored at every length: as many as the shortest has.
        let whole = |length: &Tokens| length.whole("--lengths", Lengths { train, length: train });
        let lengths = arguments.lengths.iter().map(whole).collect::<Result<Vec<_>>>()?;
        if let Some(&target) = lengths.iter().min().filter(|shortest| **shortest < train) {
            block.insert("target".to_owned(), Value::Integer(target as i64));
        }
    }
    if let Some(corpus) = other {
        block.insert("corpus".to_owned(), Value::String(corpus.to_owned()));
    }
    insert_options(&mut block, &arguments.lengths, &arguments.extend, arguments.split)?;
    let block: EvaluateConfig = longwave_core::config::read(&block, "explain")?;
    let evaluation = Evaluation::new(&block, "explain", train)?;
    if let Some(sweep) = evaluation.pending.values().next() {
        let kind = sweep.kind();
        return Err(Error::usage(format!("`--extend`: `{kind}` has a list in the place of a value"))
            .hint("give one value at a time; `longwave eval` selects among several"));
    }
    trained.explain(&evaluation, &mut Terminal::default())
}

fn print(explained: &Explained, arguments: &Arguments) -> Result<()> {
    if arguments.json {
        return json_document("what was found", explained);
    }
    if arguments.format == Format::Csv {
        return data(&csv(explained));
    }
    let of_lines = |of: Vec<String>| of.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>();
    let sentences = summary(explained).iter().map(|sentence| format!("- {sentence}")).collect();
    let mut parts = vec![of_lines(sentences)];
    parts.extend(tables(explained).iter().map(|shown| match arguments.format {
        Format::Text => shown.grid.text_within(output::width()),
        format => shown.grid.written(format),
    }));
    parts.extend((!explained.notes.is_empty()).then(|| of_lines(explained.notes.clone())));
    lines(&parts.join("\n"))
}
