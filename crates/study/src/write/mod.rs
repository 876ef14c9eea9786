//! The files of a study: `results.csv`, `results.parquet`, `study.md` with its tables, and `report/`.

mod markdown;
mod parquet_file;

use crate::declared;
use crate::document::Study;
use crate::judge::judge;
use crate::plan::Plan;
use crate::ranking::rank;
use crate::results::Results;
use longwave_core::{Error, Result, file};
use longwave_eval::{Reference, ResultRow};
use longwave_report::{Tidy, page};
use std::path::Path;

/// The folder of a study's tables, charts and page, in that of the study.
pub const PAGES: &str = "report";

pub use markdown::{markdown, tables};

/// Writes all files of a study into its folder, and gives the text of `study.md`. Without any row there is only that.
/// The page compares losses with the reading `against`, see [`page::write`].
///
/// # Errors
/// A claim names nothing, or a file cannot be written.
pub fn all(
    folder: &Path,
    study: &Study,
    plan: &Plan,
    results: &Results,
    against: Option<&Reference>,
) -> Result<String> {
    let mut claims = judge(&study.claims, plan, results)?;
    for (claim, is_added) in claims.iter_mut().zip(declared::added(folder, study)?) {
        claim.is_added = is_added;
    }
    if !results.rows.is_empty() {
        let table = results.table()?;
        report(&folder.join(PAGES), &study.name, results, against)?;
        csv(&folder.join("results.csv"), &table)?;
        parquet(&folder.join("results.parquet"), &table)?;
    }
    let best = study.best.and_then(|at| Some((at, rank(results, at)?)));
    let text = markdown(&study.name, plan, results, &claims, best.as_ref());
    file::write(&folder.join("study.md"), text.as_bytes())?;
    Ok(text)
}

/// Tables, plots and page of all rows, one name for each combination of labels.
fn report(folder: &Path, name: &str, results: &Results, against: Option<&Reference>) -> Result<()> {
    let mut text = String::new();
    for measured in &results.rows {
        let run = if measured.labels.is_empty() { name.to_owned() } else { measured.labels.join(", ") };
        let row = ResultRow { run, ..measured.row.clone() };
        let line = serde_json::to_string(&row)
            .map_err(|error| Error::failed(format!("a result row cannot be written: {error}")))?;
        text.extend([line.as_str(), "\n"]);
    }
    file::write(&folder.join("results.jsonl"), text.as_bytes())?;
    page::write(folder, against).map(|_| ())
}

/// Writes a table as comma-separated values, see [`Tidy::csv`].
///
/// # Errors
/// The file cannot be written.
pub fn csv(path: &Path, table: &Tidy) -> Result<()> {
    file::write(path, table.csv().as_bytes())
}

/// Writes a table as Apache Parquet, one row group, nothing compressed; the same table gives the same
/// bytes.
///
/// # Errors
/// The file cannot be written.
pub fn parquet(path: &Path, table: &Tidy) -> Result<()> {
    file::write(path, &parquet_file::bytes(table)?)
}
