//! `longwave study`: expands a study, runs what is missing, reports the results.

use crate::configs::{read_base, read_study, warn};
use crate::study_runner::{Options, perform};
use clap::Args;
use longwave_core::Result;
use longwave_study::Study;
use longwave_study::document::assign;
use std::path::{Path, PathBuf};

/// Run a study: a grid of configs and seeds, interrupted and repeated at will
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Study file; a bare name is also looked up in `experiments/` and among the program's own
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Change a key of the study (`seeds=5`) or of every run's config (`train.steps=200`); repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    options: Options,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let (mut document, folder) = read_study(&arguments.file)?;
    let base = |base: &str| read_base(Path::new(base), folder.as_deref());
    warn(&assign(&mut document, &arguments.set, &base)?);
    let mut study = Study::from_table(document, &base)?;
    if !arguments.options.devices.is_empty() {
        study.devices = arguments.options.devices.iter().map(ToString::to_string).collect();
    }
    perform(&study, &arguments.options)
}
