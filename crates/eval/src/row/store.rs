//! The file of rows, read and written.

use super::{FORMAT, ResultRow, Settings};
use longwave_core::config::without_types;
use longwave_core::file::existing_folder;
use longwave_core::text::quoted;
use longwave_core::{Error, Result, file, line_count, sealed_line};
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

/// Reads all rows of a results file, in order.
pub fn read_rows(path: &Path) -> Result<Vec<ResultRow>> {
    let (rows, lost) = rows_left(path)?;
    lost.map_or(Ok(rows), Err)
}

/// Reads the rows that are left of a results file, for who measures again what is asked for; a warning says that others
/// are lost.
pub fn read_rows_left(path: &Path) -> Result<Vec<ResultRow>> {
    let (rows, lost) = rows_left(path)?;
    if let Some(lost) = lost {
        tracing::warn!("{}; those that are asked for are measured again", lost.message());
    }
    Ok(rows)
}

/// The rows of a file, and why they are not all.
fn rows_left(path: &Path) -> Result<(Vec<ResultRow>, Option<Error>)> {
    let text = file::read_text(path)?;
    let rows: Vec<ResultRow> =
        numbered_lines(&text).map(|(number, line)| parse(line, path, number)).collect::<Result<_>>()?;
    let run = quoted(&file::folder_of(path).to_string_lossy());
    let again = format!("`longwave eval {run}`, with the options that it had, measures them again");
    let lost = line_count::check(path, rows.len(), &again).err();
    Ok((rows, lost))
}

/// Records how many rows a results file has, now that all that were asked for are measured.
pub fn record_count(path: &Path) -> Result<()> {
    // No other process adds a row in between.
    let _lock = lock(path.parent().unwrap_or(path))?;
    line_count::record(path, numbered_lines(&file::read_text(path)?).count())
}

/// Adds rows to a results file, which need not exist in a folder that must; a row that was measured before is replaced.
///
/// The file appears whole or stays as it was, and rows that another process adds meanwhile are kept
/// where the file system can lock a folder.
pub fn write_rows(path: &Path, rows: &[ResultRow]) -> Result<()> {
    let folder = file::folder_of(path);
    let _lock = lock(folder)?;
    let old = if path.exists() { file::read_text(path)? } else { String::new() };
    write_after(path, &old, rows)
}

/// Makes these rows all that a results file holds, in their order.
pub fn replace_rows(path: &Path, rows: &[ResultRow]) -> Result<()> {
    write_after(path, "", rows)
}

/// Writes the lines that a file had, with these rows in their places or at the end.
fn write_after(path: &Path, old: &str, rows: &[ResultRow]) -> Result<()> {
    let mut lines: Vec<String> = Vec::new();
    let mut places = HashMap::new();
    for (number, line) in numbered_lines(old) {
        places.insert(parse(line, path, number)?.identity()?, lines.len());
        lines.push(line.to_owned());
    }
    for row in rows {
        let line = line(row)?;
        let place = *places.entry(row.identity()?).or_insert(lines.len());
        if place == lines.len() {
            lines.push(line);
        } else {
            lines[place] = line;
        }
    }
    existing_folder::write_with(path, |writer| lines.iter().try_for_each(|line| writeln!(writer, "{line}")))
}

pub fn line(row: &ResultRow) -> Result<String> {
    serde_json::to_string(row).map(|line| sealed_line::seal(&line)).map_err(|error| unwritable(&error))
}

fn numbered_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty())
}

fn parse(line: &str, path: &Path, number: usize) -> Result<ResultRow> {
    let place = format!("`{}` line {number}", path.display());
    let hint = "take that line out, and measure it again with `longwave eval`";
    let value: Value = serde_json::from_str(line)
        .map_err(|error| Error::failed(format!("{place} is no JSON: {error}")).hint(hint))?;
    let format = value.get("format").and_then(Value::as_u64).unwrap_or(0);
    if format > u64::from(FORMAT) {
        let message = format!("{place} has row format {format}, and this program reads up to {FORMAT}");
        return Err(Error::failed(message).hint("read it with the version of longwave that wrote it"));
    }
    let no_row = |why: &str| Error::failed(format!("{place} is no result row: {why}")).hint(hint);
    if let Err(why) = sealed_line::check(line) {
        let hint = format!("{hint}; or take its `checksum` out if you changed it on purpose");
        return Err(no_row(why).hint(hint));
    }
    let row: ResultRow =
        serde_json::from_value(value).map_err(|error| no_row(&without_types(&error.to_string())))?;
    row.check().map_err(|why| no_row(&why))?;
    let Settings { protocol, keys, .. } = &row.settings;
    match protocol.keys_of_rows().iter().find(|key| keys.get(key.name).is_none()) {
        Some(key) => Err(no_row(&format!("one of `{protocol}` has a `{}`", key.name))),
        None => Ok(row),
    }
}

pub(super) fn unwritable(error: &serde_json::Error) -> Error {
    Error::failed(format!("a result row cannot be written: {error}"))
}

/// Holds the folder's lock as long as the handle lives. Renaming replaces the results file itself, so
/// a lock on that would hold nobody back.
fn lock(folder: &Path) -> Result<Option<File>> {
    if !cfg!(unix) {
        return Ok(None);
    }
    let handle = File::open(folder).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::gone(folder),
        _ => Error::io("open", folder, &error),
    })?;
    match handle.lock() {
        Ok(()) => Ok(Some(handle)),
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            tracing::warn!("`{}` cannot be locked: write to it from one process only", folder.display());
            Ok(None)
        }
        Err(error) => Err(Error::io("lock", folder, &error)),
    }
}
