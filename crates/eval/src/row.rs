//! One line of `results.jsonl`, and the file itself.
//!
//! # The format
//! A line is one JSON object, and [`FORMAT`] is its version, in the field `format`. A new optional
//! field, or a new name among protocols, encodings and extensions, leaves the version as it is:
//! readers ignore fields they do not know. A field that goes, changes its name, its unit or its
//! meaning raises it, and a reader refuses a line of a newer version than its own rather than
//! misread it. Older versions stay readable.
//!
//! # The file
//! A row's identity is everything but its measured values, what it was chosen among, and the machine it was measured on. A file
//! holds one row of each identity: measuring again replaces the row in its place, and all other lines
//! stay byte for byte as they are.

use crate::config::Protocol;
use longwave_core::{Error, Result, canonical, file};
use longwave_data::Split;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

/// The version of the row format that this program writes.
pub const FORMAT: u32 = 1;

/// The fields that a measurement fills in; all others tell which measurement it is.
const MEASURED: [&str; 14] = [
    "format",
    "chosen_among",
    "tokens",
    "documents",
    "skipped_documents",
    "bytes",
    "nll",
    "nll_se",
    "ppl",
    "bpb",
    "positions",
    "device",
    "threads",
    "version",
];

/// One measurement: one trained model, read with one extension at one length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultRow {
    /// Version of the row format, [`FORMAT`].
    pub format: u32,
    /// Name of the run, as its config has it.
    pub run: String,
    /// Hash of what the model was trained with.
    pub config_hash: String,
    /// Seed of the run.
    pub seed: u64,
    /// Kind of the encoding that the model was trained with.
    pub encoding: String,
    /// Kind of the extension it was read with, or `window_baseline`.
    pub extend: String,
    /// The extension's config with its defaults filled in. It does not depend on the length: a scale
    /// that follows from the length is no part of it, so one extension has one config at all lengths.
    #[serde(default)]
    pub extend_config: Value,
    /// What the extension's values were chosen among on the validation split: the keys that were given as lists,
    /// with their lists, or the search that found them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_among: Option<Value>,
    /// Which checkpoint was read: `last`, `best`, or the end of a stage such as `stage-0`.
    pub checkpoint: String,
    /// Training step of that checkpoint, counted through all stages.
    pub step: u64,
    /// Stage of that checkpoint: 0 is `[train]`, n the n-th `[[stage]]`.
    #[serde(default)]
    pub stage: usize,
    /// Protocol, split and lengths.
    #[serde(flatten)]
    pub settings: Settings,
    /// Scored tokens.
    pub tokens: u64,
    /// Documents with a scored token.
    pub documents: usize,
    /// Documents too short for a window.
    pub skipped_documents: usize,
    /// Bytes of text of the scored tokens.
    pub bytes: u64,
    /// Mean negative log likelihood, in nats per token. Not a number (`null` in the file) where the
    /// model gave none.
    #[serde(with = "number")]
    pub nll: f64,
    /// Standard error of `nll` over documents; absent for fewer than two documents.
    #[serde(default)]
    pub nll_se: Option<f64>,
    /// `exp(nll)`; `null` in the file where that is no finite number.
    #[serde(with = "number")]
    pub ppl: f64,
    /// Bits per byte; absent where tokens are no text.
    #[serde(default)]
    pub bpb: Option<f64>,
    /// The loss by position, under the protocol `by_position`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<Vec<PositionRow>>,
    /// The device it was measured on, in words.
    pub device: String,
    /// Threads it was measured with.
    pub threads: usize,
    /// Version of the program.
    pub version: String,
}

/// Protocol, split and lengths of a measurement; what has no meaning under the protocol is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Which windows are read and which of their tokens are scored.
    pub protocol: Protocol,
    /// The part of the corpus that was read.
    pub split: Split,
    /// Tokens of a training sequence of the first stage: L.
    pub train_length: usize,
    /// Tokens of context.
    pub length: usize,
    /// `fixed_target`: scored tokens of each window.
    pub target: Option<usize>,
    /// `fixed_target`: length that the windows are laid out for.
    pub max_length: Option<usize>,
    /// `fixed_target`: tokens from one window's beginning to the next.
    pub window_stride: Option<usize>,
    /// Windows kept of each document; `None` keeps all.
    pub windows_per_document: Option<usize>,
    /// `sliding`: tokens that a window advances by; `non_overlapping`: the length.
    pub stride: Option<usize>,
    /// `by_position`: places per bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<usize>,
    /// `window_baseline`: whether every target had a reading of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact: Option<bool>,
}

/// The mean loss of some places of the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PositionRow {
    /// First place of the bucket, from 0; its target has `position + 1` tokens of context.
    pub position: usize,
    /// Scored tokens.
    pub tokens: u64,
    /// Mean negative log likelihood, in nats per token.
    #[serde(with = "number")]
    pub nll: f64,
}

impl ResultRow {
    /// What tells this measurement from others: the row without its measured values.
    ///
    /// # Errors
    /// A value has no JSON form.
    pub fn identity(&self) -> Result<String> {
        let value = serde_json::to_value(self).map_err(|error| unwritable(&error))?;
        let Value::Object(mut fields) = value else {
            return Err(Error::failed("a result row is no JSON object"));
        };
        fields.retain(|key, _| !MEASURED.contains(&key.as_str()));
        Ok(canonical::text(Value::Object(fields)))
    }

    /// Standard error of the perplexity by the delta method: `ppl * nll_se`.
    pub fn ppl_se(&self) -> Option<f64> {
        self.nll_se.map(|error| self.ppl * error).filter(|error| error.is_finite())
    }
}

/// Reads all rows of a results file, in order.
///
/// # Errors
/// The file is missing or a line is no row; the message names the line.
pub fn read_rows(path: &Path) -> Result<Vec<ResultRow>> {
    let text = file::read_text(path)?;
    numbered_lines(&text).map(|(number, line)| parse(line, path, number)).collect()
}

/// Adds rows to a results file, which need not exist; a row that was measured before is replaced.
///
/// The file appears whole or stays as it was, and rows that another process adds meanwhile are kept
/// where the file system can lock a folder.
///
/// # Errors
/// The file cannot be written, or a line of it is no row: it is left as it is then.
pub fn write_rows(path: &Path, rows: &[ResultRow]) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(|error| Error::io("make", folder, &error))?;
    let _lock = lock(folder)?;
    let mut lines: Vec<String> = Vec::new();
    let mut places = HashMap::new();
    let old = if path.exists() { file::read_text(path)? } else { String::new() };
    for (number, line) in numbered_lines(&old) {
        places.insert(parse(line, path, number)?.identity()?, lines.len());
        lines.push(line.to_owned());
    }
    for row in rows {
        let line = serde_json::to_string(row).map_err(|error| unwritable(&error))?;
        let place = *places.entry(row.identity()?).or_insert(lines.len());
        if place == lines.len() {
            lines.push(line);
        } else {
            lines[place] = line;
        }
    }
    file::write_with(path, |writer| lines.iter().try_for_each(|line| writeln!(writer, "{line}")))
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
    serde_json::from_value(value)
        .map_err(|error| Error::failed(format!("{place} is no result row: {error}")).hint(hint))
}

fn unwritable(error: &serde_json::Error) -> Error {
    Error::failed(format!("a result row cannot be written: {error}"))
}

/// Holds the folder's lock as long as the handle lives. Renaming replaces the results file itself, so
/// a lock on that would hold nobody back.
fn lock(folder: &Path) -> Result<Option<File>> {
    if !cfg!(unix) {
        return Ok(None);
    }
    let handle = File::open(folder).map_err(|error| Error::io("open", folder, &error))?;
    match handle.lock() {
        Ok(()) => Ok(Some(handle)),
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            tracing::warn!("`{}` cannot be locked: write to it from one process only", folder.display());
            Ok(None)
        }
        Err(error) => Err(Error::io("lock", folder, &error)),
    }
}

/// Numbers that may be no number: JSON has neither, so they are `null` there.
mod number {
    use serde::{Deserialize, Deserializer, Serializer};

    // serde hands fields over by reference.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() { serializer.serialize_f64(*value) } else { serializer.serialize_none() }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(extend: &str, length: usize, nll: f64) -> ResultRow {
        ResultRow {
            format: FORMAT,
            run: "rope".into(),
            config_hash: "c0ffee".into(),
            seed: 0,
            encoding: "rope".into(),
            extend: extend.into(),
            extend_config: json!({ "kind": extend }),
            chosen_among: None,
            checkpoint: "last".into(),
            step: 600,
            stage: 0,
            settings: Settings {
                protocol: Protocol::FixedTarget,
                split: Split::Test,
                train_length: 128,
                length,
                target: Some(128),
                max_length: Some(1024),
                window_stride: Some(1024),
                windows_per_document: None,
                stride: None,
                bucket: None,
                exact: None,
            },
            tokens: 4096,
            documents: 8,
            skipped_documents: 1,
            bytes: 10_000,
            nll,
            nll_se: Some(0.01),
            ppl: nll.exp(),
            bpb: Some(1.5),
            positions: None,
            device: "cpu".into(),
            threads: 2,
            version: "0.1.0".into(),
        }
    }

    #[test]
    fn a_row_has_the_documented_fields_and_survives_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        let rows = [row("direct", 128, 0.1 + 0.2), row("yarn", 1024, 2.5)];
        write_rows(&path, &rows).unwrap();
        assert_eq!(read_rows(&path).unwrap(), rows);
        let text = std::fs::read_to_string(&path).unwrap();
        let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        for key in "run config_hash seed encoding extend extend_config protocol split train_length length \
                    target max_length window_stride windows_per_document stride tokens skipped_documents \
                    nll nll_se ppl bpb device threads version format checkpoint step stage"
            .split_whitespace()
        {
            assert!(line.get(key).is_some(), "no `{key}` in {line}");
        }
        assert_eq!(line["protocol"], "fixed_target");
        for key in MEASURED.iter().filter(|key| !["positions", "chosen_among"].contains(key)) {
            assert!(line.get(key).is_some(), "no measured `{key}`");
        }
    }

    #[test]
    fn measuring_again_replaces_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        write_rows(&path, &[row("direct", 128, 2.0), row("yarn", 128, 2.0)]).unwrap();
        // A field of some later program is kept, byte for byte.
        let text = std::fs::read_to_string(&path).unwrap().replacen("\"tokens\"", "\"new\": 1,\"tokens\"", 2);
        std::fs::write(&path, &text).unwrap();
        let again = ResultRow { threads: 4, device: "gpu:0".into(), ..row("direct", 128, 3.0) };
        write_rows(&path, &[again.clone(), row("direct", 256, 4.0)]).unwrap();
        let rows = read_rows(&path).unwrap();
        assert_eq!(rows, [again, row("yarn", 128, 2.0), row("direct", 256, 4.0)]);
        let lines = std::fs::read_to_string(&path).unwrap();
        assert_eq!(lines.lines().nth(1), text.lines().nth(1));
    }

    #[test]
    fn the_order_of_config_keys_is_no_part_of_the_identity() {
        let with = |config: Value| ResultRow { extend_config: config, ..row("yarn", 128, 2.0) };
        let a = with(json!({ "a": 1, "b": { "c": 2, "d": 3 } })).identity().unwrap();
        assert_eq!(a, with(json!({ "b": { "d": 3, "c": 2 }, "a": 1 })).identity().unwrap());
        assert_ne!(a, with(json!({ "a": 1, "b": { "c": 2, "d": 4 } })).identity().unwrap());
        let best = ResultRow { checkpoint: "best".into(), ..row("yarn", 128, 2.0) };
        assert_ne!(best.identity().unwrap(), row("yarn", 128, 2.0).identity().unwrap());
    }

    #[test]
    fn what_is_no_number_is_null_and_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        let exploded = ResultRow { nll_se: None, ..row("direct", 1024, 1000.0) };
        let broken = ResultRow { nll: f64::NAN, ..row("linear", 1024, f64::NAN) };
        write_rows(&path, &[exploded, broken]).unwrap();
        let rows = read_rows(&path).unwrap();
        assert!(rows[0].nll == 1000.0 && rows[0].ppl.is_nan() && rows[0].ppl_se().is_none());
        assert!(rows[1].nll.is_nan() && rows[1].ppl.is_nan());
    }

    #[test]
    fn a_damaged_line_is_named_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        write_rows(&path, &[row("direct", 128, 2.0)]).unwrap();
        let damaged = std::fs::read_to_string(&path).unwrap() + "{\"format\": 1, \"run\"";
        std::fs::write(&path, &damaged).unwrap();
        let error = read_rows(&path).unwrap_err();
        assert!(error.message().contains("results.jsonl` line 2 is no JSON"), "{error}");
        assert!(write_rows(&path, &[row("yarn", 128, 2.0)]).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
        std::fs::write(&path, "{\"format\": 1}").unwrap();
        assert!(read_rows(&path).unwrap_err().message().contains("line 1 is no result row"));
    }

    #[test]
    fn a_newer_format_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        let newer = ResultRow { format: FORMAT + 1, ..row("direct", 128, 2.0) };
        write_rows(&path, &[newer]).unwrap();
        let error = read_rows(&path).unwrap_err();
        assert!(error.message().ends_with("has row format 2, and this program reads up to 1"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn rows_added_at_the_same_time_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        std::thread::scope(|scope| {
            for length in 1..=8 {
                let path = &path;
                scope.spawn(move || write_rows(path, &[row("direct", length, 2.0)]).unwrap());
            }
        });
        assert_eq!(read_rows(&path).unwrap().len(), 8);
    }
}
