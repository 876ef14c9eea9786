//! `longwave bench`: measures the program on this machine, beside a peer and the device's copy.

use crate::configs::load_config;
use crate::interrupt;
use crate::options::{Compute, ConfigArgument, introduce};
use crate::output::{json_text, lines, status};
use crate::terminal::Terminal;
use clap::{Args, Subcommand};
use longwave_bench::{Bench, Clock, Record, attention, eval, export, growth, record, rope, scaling, train};
use longwave_core::{Error, Result, file};
use longwave_data::Dataset;
use longwave_experiment::open_data;
use longwave_position::{Lengths, Tokens};
use longwave_report::plot;
use longwave_train::RunConfig;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Measure the program on this machine, beside a peer and the device's own copy
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    kind: BenchKind,
}

#[derive(Debug, Subcommand)]
enum BenchKind {
    /// The rotation of q and k: bytes a second against a copy, time against burn's own
    Rope(BenchRope),
    /// Causal attention by length, alone, with `alibi` and with `rerope`: time and peak memory against burn's own
    Attention(BenchAttention),
    /// Training steps of a config, against plain operations and against the matrix products alone
    Train(BenchTrain),
    /// Reading texts of growing length with fresh weights
    Eval(BenchEval),
    /// How the time of a token grows with the length of a text and the width of the model: charts with a fit
    Growth(BenchGrowth),
    /// What more threads give: training steps and a long text on 1, 2, 4, .. threads
    Scaling(BenchScaling),
}

// What every benchmark takes; no doc comment, since clap would show it as the description of the command.
#[derive(Args, Debug)]
struct Measuring {
    /// Print one JSON object a line instead of the table
    #[arg(long)]
    json: bool,
    /// Time no peer and no reference
    #[arg(long)]
    alone: bool,
    /// Seconds for each subject, after which it gets no more runs than three
    #[arg(long, default_value_t = 0.7, value_name = "S")]
    seconds: f64,
    #[command(flatten)]
    compute: Compute,
}

#[derive(Args, Debug)]
struct BenchRope {
    /// Numbers in q, separated by commas; 2^18 to 2^24 unless given
    #[arg(long, value_delimiter = ',', value_name = "N,N,..")]
    elements: Vec<usize>,
    #[command(flatten)]
    measuring: Measuring,
}

#[derive(Args, Debug)]
struct BenchAttention {
    /// Lengths in tokens, separated by commas; 128 to 16,384 unless given
    #[arg(long, value_delimiter = ',', value_name = "N,N,..")]
    lengths: Vec<usize>,
    #[command(flatten)]
    measuring: Measuring,
}

// The model that is measured: that of `rope.toml` unless another is named.
#[derive(Args, Debug)]
struct BenchModel {
    #[command(flatten)]
    config: ConfigArgument,
    /// Change a key of the config, as `model.width=256`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    measuring: Measuring,
}

impl BenchModel {
    /// The config that is named, or that of the main job, with the device and its text.
    fn open(&self) -> Result<(RunConfig, Bench, Dataset)> {
        let path = self.config.given().unwrap_or(Path::new("rope.toml"));
        let config = load_config(path, &self.set)?.run;
        let bench = open(&self.measuring)?;
        let dataset = open_data(&config.data, &mut Terminal::default())?;
        Ok((config, bench, dataset))
    }
}

#[derive(Args, Debug)]
struct BenchTrain {
    #[command(flatten)]
    model: BenchModel,
    /// Instead of timing, write initial weights, batches and losses for another program to train on
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
    /// Steps of the export
    #[arg(long, value_name = "N", default_value_t = 10, requires = "export")]
    steps: u64,
}

#[derive(Args, Debug)]
struct BenchEval {
    #[command(flatten)]
    model: BenchModel,
    /// Lengths separated by commas, in tokens or as multiples of the training length such as `2L`; `L,2L,4L,8L` unless
    /// given
    #[arg(long, value_delimiter = ',', value_name = "N,2L,..")]
    lengths: Vec<Tokens>,
}

#[derive(Args, Debug)]
struct BenchGrowth {
    #[command(flatten)]
    model: BenchModel,
    /// Lengths to read, separated by commas, in tokens or as multiples of the training length such as `2L`; 128 to
    /// 16,384 tokens unless given
    #[arg(long, value_delimiter = ',', value_name = "N,2L,..")]
    lengths: Vec<Tokens>,
    /// Widths to train, separated by commas; 64 to 512 unless given
    #[arg(long, value_delimiter = ',', value_name = "N,N,..")]
    widths: Vec<usize>,
    /// Folder for the charts (SVG and PNG) and their tables
    #[arg(long, value_name = "DIR", default_value = "growth")]
    out: PathBuf,
}

#[derive(Args, Debug)]
struct BenchScaling {
    #[command(flatten)]
    model: BenchModel,
    /// The long text's length, in tokens or as a multiple of the training length such as `8L`; 16,384 tokens unless given
    #[arg(long, value_name = "N")]
    length: Option<Tokens>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.kind {
        BenchKind::Rope(own) => {
            let bench = open(&own.measuring)?;
            let sizes = if own.elements.is_empty() { &rope::ELEMENTS[..] } else { &own.elements };
            shown(&own.measuring, |show| rope::run(&bench, sizes, show))
        }
        BenchKind::Attention(own) => {
            let bench = open(&own.measuring)?;
            let lengths = if own.lengths.is_empty() { &attention::LENGTHS[..] } else { &own.lengths };
            shown(&own.measuring, |show| attention::run(&bench, lengths, show))
        }
        BenchKind::Train(own) => {
            let (config, bench, dataset) = own.model.open()?;
            match &own.export {
                None => shown(&own.model.measuring, |show| train::run(&bench, &config, &dataset, show)),
                Some(folder) => {
                    let mut progress = |step| {
                        status(&format!("step {step} of {}", own.steps));
                        interrupt::check(STOPPED)
                    };
                    export::write(folder, &config, &dataset, &bench.device, own.steps, &mut progress)
                }
            }
        }
        BenchKind::Eval(own) => {
            let (config, bench, dataset) = own.model.open()?;
            let vocab = dataset.tokenizer().vocab_size();
            let lengths = match &own.lengths[..] {
                [] => eval::TIMES.map(|times| times * config.train.length).to_vec(),
                lengths => in_tokens(lengths, config.train.length)?,
            };
            shown(&own.model.measuring, |show| eval::run(&bench, &config, vocab, &lengths, show))
        }
        BenchKind::Growth(own) => run_growth(own),
        BenchKind::Scaling(own) => run_scaling(own),
    }
}

fn run_scaling(own: &BenchScaling) -> Result<()> {
    let (config, bench, dataset) = own.model.open()?;
    let length = match &own.length {
        None => scaling::LENGTH,
        Some(length) => in_tokens(std::slice::from_ref(length), config.train.length)?[0],
    };
    shown(&own.model.measuring, |show| {
        scaling::run(&bench, &config, &dataset, length, scaling::threads(), show)
    })
}

/// Measures both curves, tells their fits and writes their charts and tables.
fn run_growth(own: &BenchGrowth) -> Result<()> {
    let (config, bench, dataset) = own.model.open()?;
    let given = in_tokens(&own.lengths, config.train.length)?;
    let lengths = if given.is_empty() { &growth::LENGTHS[..] } else { &given };
    let widths = if own.widths.is_empty() { &growth::WIDTHS[..] } else { &own.widths };
    let mut curves = None;
    shown(&own.model.measuring, |show| {
        curves = Some(growth::run(&bench, &config, &dataset, [lengths, widths], show)?);
        Ok(())
    })?;
    let mut tables = String::new();
    for curve in curves.iter().flatten() {
        let name = curve.by.name();
        let chart = curve.chart();
        file::write(&own.out.join(format!("{name}.svg")), plot::svg(&chart)?.as_bytes())?;
        plot::write_png(&chart, &own.out.join(format!("{name}.png")))?;
        tables += &[curve.setting.as_str(), &curve.summary(), &curve.table()].join("\n\n");
        tables += "\n";
        status(&curve.summary());
    }
    file::write(&own.out.join("growth.md"), tables.as_bytes())?;
    status(&format!("charts and tables are in {}", own.out.display()));
    Ok(())
}

fn in_tokens(lengths: &[Tokens], train: usize) -> Result<Vec<usize>> {
    lengths.iter().map(|length| length.whole("--lengths", Lengths { train, length: train })).collect()
}

fn open(measuring: &Measuring) -> Result<Bench> {
    if !measuring.seconds.is_finite() || measuring.seconds < 0.0 {
        return Err(Error::value("--seconds", measuring.seconds, "it must be at least 0"));
    }
    let machine = measuring.compute.open()?;
    introduce(&machine);
    let clock = Clock { budget: Duration::from_secs_f64(measuring.seconds), ..Clock::default() };
    Ok(Bench {
        device: machine.device,
        device_name: machine.device_name,
        clock,
        reference: longwave_kernels::reference_in_use(),
        alone: measuring.alone,
    })
}

const STOPPED: &str = "stopped; nothing is written";

type Show<'a> = dyn FnMut(Record) -> Result<()> + 'a;

/// Shows every record as it comes: as JSON, or as a line of a table with its legend at the end.
fn shown(measuring: &Measuring, run: impl FnOnce(&mut Show<'_>) -> Result<()>) -> Result<()> {
    let mut records = Vec::new();
    run(&mut |record| {
        interrupt::check(STOPPED)?;
        if measuring.json {
            return json_text(&(record.json()? + "\n"));
        }
        if records.is_empty() {
            lines(&(record::heading() + "\n"))?;
        }
        lines(&(record::row(&record) + "\n"))?;
        records.push(record);
        Ok(())
    })?;
    if measuring.json { Ok(()) } else { lines(&format!("\n{}\n", record::legend(&records))) }
}
