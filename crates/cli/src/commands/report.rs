//! `longwave report`: tables, plots and the page of a run, or of a folder of runs.

use super::eval::one_value;
use super::session::write_report;
use crate::args;
use longwave_core::Result;
use longwave_eval::Reference;

/// Runs the command.
pub(crate) fn run(arguments: &args::Report) -> Result<()> {
    let against = arguments
        .against
        .as_deref()
        .map(|text| Reference::from_value(&one_value("--against", text)?, "--against"))
        .transpose()?;
    write_report(&arguments.folder, against.as_ref())
}
