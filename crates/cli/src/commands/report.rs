//! `longwave report`: tables, plots and the page of a run, or of a folder of runs.

use super::session::write_report;
use crate::args;
use longwave_core::Result;

/// Runs the command.
pub(crate) fn run(arguments: &args::Report) -> Result<()> {
    write_report(&arguments.folder)
}
