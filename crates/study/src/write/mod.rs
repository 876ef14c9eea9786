//! The files of a study: `results.csv`, `results.parquet`, and `study.md` with its tables.

mod markdown;
mod parquet_file;

use longwave_core::{Result, file};
use longwave_report::Tidy;
use std::path::Path;

pub use markdown::{markdown, tables};

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
