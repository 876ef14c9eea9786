//! `longwave report`: tables, plots and the page of a run, or of a folder of runs.

use crate::options::one_value;
use crate::tables::write_report;
use clap::Args;
use longwave_core::Result;
use longwave_eval::Reference;
use std::path::PathBuf;

/// Write tables, plots and the HTML page of a run, or of a folder of runs
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// A run's folder, or a folder of runs
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The reading that the others are compared with, `window_baseline` or an extension; as they were evaluated unless
    /// given
    #[arg(long, value_name = "METHOD")]
    against: Option<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let against = arguments
        .against
        .as_deref()
        .map(|text| Reference::from_value(&one_value("--against", text)?, "--against"))
        .transpose()?;
    write_report(&arguments.folder, against.as_ref())
}
