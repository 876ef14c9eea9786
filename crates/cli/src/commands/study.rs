//! `longwave study`: expands a study, runs what is missing, reports the results.

use crate::configs::{find_config, find_shipped};
use crate::study_runner::{Options, perform};
use clap::Args;
use longwave_core::Result;
use longwave_study::Study;
use std::path::PathBuf;

/// Run a study: a grid of configs and seeds, interrupted and repeated at will
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Study file; a bare name is also looked up in `experiments/`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    options: Options,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let file = find_shipped(&arguments.file, "experiments", "study")?;
    let mut study = Study::load(&file, &find_config)?;
    if !arguments.options.devices.is_empty() {
        study.devices = arguments.options.devices.iter().map(ToString::to_string).collect();
    }
    perform(&study, &arguments.options)
}
