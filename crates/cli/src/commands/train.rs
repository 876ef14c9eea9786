//! `longwave train`: trains, checkpoints, evaluates as the config says, prints the table.

use crate::configs::{default_folder, read_config, warn};
use crate::device_check;
use crate::options::{Compute, ConfigArgument, parsed};
use crate::output::status;
use crate::study_runner::run_seeds;
use crate::tables::{print_tables, renew_report};
use crate::terminal::Terminal;
use clap::Args;
use longwave_core::Result;
use longwave_experiment::run as experiment;
use longwave_report::Format;
use longwave_study::document::MOST_RUNS;
use std::path::PathBuf;

/// Train a model, evaluate it as the config says, and print the table
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    config: ConfigArgument,
    /// Change a key of the config, as `train.steps=200`; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The run's folder; `runs/NAME-SEED` unless given
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on from the folder's last checkpoint
    #[arg(long)]
    resume: bool,
    /// Train this many seeds, beginning with the config's, as a small study
    #[arg(long, value_name = "N", conflicts_with_all = ["out", "resume", "kernels"],
          value_parser = clap::value_parser!(u64).range(1..=MOST_RUNS))]
    seeds: Option<u64>,
    /// Print the tables as `text`, `markdown`, `latex` or `csv`; as text unless given, and with `--seeds` the whole of `study.md`
    #[arg(long, value_name = "FORMAT", value_parser = parsed::<Format>)]
    format: Option<Format>,
    #[command(flatten)]
    compute: Compute,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { compute, out, resume, seeds, format, .. } = arguments;
    let config = read_config(arguments.config.required()?, &arguments.set)?;
    if let Some(seeds) = seeds {
        return run_seeds(&config, *seeds, compute, *format);
    }
    warn(&config.warnings);
    let folder = out.clone().unwrap_or_else(|| default_folder(&config.run));
    if *resume && !folder.join("config.toml").exists() {
        status(&format!("resume    `{}` holds no run yet, so one begins", folder.display()));
    }
    let mut machine = compute.open()?;
    device_check::before_training(&mut machine)?;
    let rows = experiment(config, &folder, *resume, &machine, &mut Terminal::default())?;
    if rows.is_empty() {
        return Ok(());
    }
    print_tables(&rows, format.unwrap_or_default())?;
    renew_report(&folder, None)
}
