//! What every benchmark takes and shows: those of `longwave bench`, and the developers' own in `xtask`.

use crate::configs::load_config;
use crate::options::{Compute, ConfigArgument, introduce};
use crate::output::{json_text, lines};
use crate::terminal::Terminal;
use crate::{allocator, interrupt};
use clap::Args;
use longwave_bench::{Bench, Clock, Record, record};
use longwave_core::{Error, Result};
use longwave_data::Dataset;
use longwave_experiment::open_data;
use longwave_position::{Lengths, Tokens};
use longwave_train::RunConfig;
use std::path::Path;
use std::time::Duration;

pub(crate) const STOPPED: &str = "stopped; nothing is written";

// What every benchmark takes; no doc comment, since clap would show it as the description of the command.
#[derive(Args, Debug)]
pub struct Measuring {
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

impl Measuring {
    /// Opens the device, says which it is, and listens for Ctrl-C from here on.
    pub fn open(&self) -> Result<Bench> {
        if !self.seconds.is_finite() || self.seconds < 0.0 {
            return Err(Error::value("--seconds", self.seconds, "it must be at least 0"));
        }
        allocator::keep_freed_memory();
        let machine = self.compute.open()?;
        introduce(&machine);
        let clock = Clock { budget: Duration::from_secs_f64(self.seconds), ..Clock::default() };
        Ok(Bench {
            device: machine.device,
            device_name: machine.device_name,
            clock,
            reference: longwave_kernels::reference_in_use(),
            alone: self.alone,
        })
    }

    /// Shows every record as it comes: as JSON, or as a line of a table with its legend at the end.
    pub fn show(&self, run: impl FnOnce(&mut dyn FnMut(Record) -> Result<()>) -> Result<()>) -> Result<()> {
        let mut records = Vec::new();
        run(&mut |record| {
            interrupt::check(STOPPED)?;
            if self.json {
                return json_text(&(record.json()? + "\n"));
            }
            if records.is_empty() {
                lines(&(record::heading() + "\n"))?;
            }
            lines(&(record::row(&record) + "\n"))?;
            records.push(record);
            Ok(())
        })?;
        if self.json { Ok(()) } else { lines(&format!("\n{}\n", record::legend(&records))) }
    }
}

// The model that is measured: that of `rope.toml` unless another is named.
#[derive(Args, Debug)]
pub struct BenchModel {
    #[command(flatten)]
    config: ConfigArgument,
    /// Change a key of the config, as `model.width=256`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    pub measuring: Measuring,
}

impl BenchModel {
    /// The config that is named, or that of the main job, with the device and its text.
    pub fn open(&self) -> Result<(RunConfig, Bench, Dataset)> {
        let path = self.config.given().unwrap_or(Path::new("rope.toml"));
        let config = load_config(path, &self.set)?.run;
        let bench = self.measuring.open()?;
        let dataset = open_data(&config.data, &mut Terminal::default())?;
        Ok((config, bench, dataset))
    }
}

/// The lengths of `--lengths`, in tokens.
pub fn in_tokens(lengths: &[Tokens], train: usize) -> Result<Vec<usize>> {
    lengths.iter().map(|length| length.whole("--lengths", Lengths { train, length: train })).collect()
}
