//! `longwave report`: tables, plots and the page of a run, of a study, or of a folder of runs.

use crate::options::one_value;
use crate::study_runner::report_again;
use crate::tables::write_report;
use clap::Args;
use longwave_core::{Error, Result};
use longwave_eval::Reference;
use longwave_study::saved;
use std::path::{Path, PathBuf};

/// Write tables, plots and the HTML page of a run, of a study, or of a folder of runs
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// A run's folder, a study's, or a folder of runs
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
    if let Some(study) = saved::folder_of(&arguments.folder) {
        return report_again(&study, against.as_ref());
    }
    check_old_study(&arguments.folder)?;
    write_report(&arguments.folder, against.as_ref())
}

/// A study of an older version keeps no plan to be reported from, and the report of a folder would replace its table.
fn check_old_study(folder: &Path) -> Result<()> {
    if !folder.join("plan.json").is_file() {
        return Ok(());
    }
    let text = format!("`{}` is a study of an older version, which cannot be reported again", folder.display());
    Err(Error::usage(text).hint("`longwave study FILE --collect` writes its tables, claims and page"))
}
