//! `metrics.jsonl`: one line per optimizer step, repeated as curves for `TensorBoard`.
//!
//! Lines carry `format = 1` and, since checksums were added, end with one ([`longwave_core::sealed_line`]). A field may be
//! added within a format; its meaning never changes. A run that resumes cuts the lines after its checkpoint, so that each
//! step stands once; what is missing or altered before it is an error.

use crate::live::Live;
use crate::validated::Validated;
use longwave_core::file::existing_folder;
use longwave_core::{Error, Result, event_file, file, line_count, memory_check, sealed_line, written};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub const FORMAT: u32 = 1;

/// One optimizer step; [`FIELDS`] says what each field is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    pub format: u32,
    #[serde(default)]
    pub stage: usize,
    pub step: u64,
    pub tokens: u64,
    pub loss: f64,
    pub learning_rate: f64,
    pub gradient_norm: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loss_scale: Option<f64>,
    #[serde(skip_serializing_if = "longwave_core::config::is_default", default)]
    pub skipped: bool,
    #[serde(skip_serializing_if = "longwave_core::config::is_default", default)]
    pub skipped_batches: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub valid_loss: Option<f64>,
    pub seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resident_mib: Option<f64>,
}

/// The fields of a line, with their types and what they mean, in order.
pub const FIELDS: [(&str, &str, &str); 14] = [
    ("format", "integer", "version of the format of the line"),
    ("stage", "integer", "0 is `[train]`, 1 the first `[[stage]]`"),
    ("step", "integer", "steps done in all stages, this one included"),
    ("tokens", "integer", "training tokens read so far"),
    ("loss", "number", "mean loss of the step's batch, in nats per token"),
    ("learning_rate", "number", "learning rate of the step"),
    ("gradient_norm", "number", "norm of the gradient before clipping; 0 where the step was left out"),
    ("loss_scale", "number", "what the loss was multiplied by, under `f16`"),
    ("skipped", "boolean", "the step was left out, because its gradients overflowed"),
    (
        "skipped_batches",
        "integer",
        "batches left out before this step's, under `on_non_finite = \"rollback\"`",
    ),
    ("valid_loss", "number", "loss on the validation split after the step, in nats per token"),
    ("seconds", "number", "seconds that the step took, with the validation after it"),
    ("resident_mib", "number", "memory that the process held after the step, in MiB (2^20 bytes); on Linux"),
    ("checksum", "text", "hash of the rest of the line, which shows damage"),
];

impl Metric {
    /// The curves of the step as a record of an [event file](event_file); `TensorBoard` groups them by what stands before
    /// the `/`.
    fn event(&self, time: f64) -> Vec<u8> {
        let mut values = vec![
            ("loss/train", self.loss),
            ("optimizer/learning_rate", self.learning_rate),
            ("optimizer/gradient_norm", self.gradient_norm),
            ("speed/seconds_per_step", self.seconds),
            ("progress/tokens", self.tokens as f64),
            ("progress/stage", self.stage as f64),
        ];
        values.extend(self.valid_loss.map(|loss| ("loss/valid", loss)));
        values.extend(self.loss_scale.map(|scale| ("optimizer/loss_scale", scale)));
        values.extend(self.resident_mib.map(|mib| ("memory/resident_mib", mib)));
        let left_out = self.skipped_batches as f64;
        values.extend((self.skipped_batches > 0).then_some(("progress/skipped_batches", left_out)));
        event_file::scalars(self.step, time, values)
    }
}

/// The memory that the process holds, in tenths of a MiB.
pub(crate) fn resident_mib() -> Option<f64> {
    memory_check::resident().map(|bytes| (bytes as f64 / f64::from(1 << 20) * 10.0).round() / 10.0)
}

/// The records of steps as if the last one had ended now.
pub fn events(metrics: &[Metric]) -> Vec<u8> {
    let mut time = event_file::now() - metrics.iter().map(|metric| metric.seconds).sum::<f64>();
    let record = |metric: &Metric| {
        time += metric.seconds;
        metric.event(time)
    };
    metrics.iter().flat_map(record).collect()
}

/// Appends lines to the file.
#[derive(Debug)]
pub struct Metrics {
    path: PathBuf,
    pending: String,
    live: Live,
}

impl Metrics {
    /// Opens the file, keeping the lines of steps up to `step`.
    pub fn open(folder: &Path, step: u64) -> Result<Self> {
        let path = folder.join("metrics.jsonl");
        let (kept, before) = if path.exists() { kept(&path, step)? } else { Default::default() };
        line_count::forget(&path)?;
        existing_folder::write(&path, kept.as_bytes())?;
        Ok(Self { path, pending: String::new(), live: Live::open(folder, &events(&before)) })
    }

    /// Adds a line; it reaches the disk with the next [`flush`](Self::flush).
    pub fn push(&mut self, metric: &Metric) -> Result<()> {
        let line = written::json(format!("step {}", metric.step), metric)?;
        self.pending.extend([sealed_line::seal(&line).as_str(), "\n"]);
        self.live.push(metric.step, &metric.event(event_file::now()));
        Ok(())
    }

    /// Writes pending lines, so that they last through a power cut: a checkpoint that is written next needs them.
    pub fn flush(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        file::append(&self.path, self.pending.as_bytes())?;
        self.pending.clear();
        Ok(())
    }

    /// Records how many lines the file has, now that the training has come to its end.
    pub fn finish(&mut self) -> Result<()> {
        self.flush()?;
        line_count::record(&self.path, file::read_text(&self.path)?.lines().count())
    }
}

/// The stages and steps of all validations of a run in a folder.
pub(crate) fn validations(folder: &Path) -> Result<Vec<(usize, u64)>> {
    let read = read_plain(folder)?;
    Ok(read.iter().filter(|it| it.valid_loss.is_some()).map(|it| (it.stage, it.step)).collect())
}

/// The lines of a folder; one that is no step's metrics says nothing.
fn read_plain(folder: &Path) -> Result<Vec<Metric>> {
    let path = folder.join("metrics.jsonl");
    let text = if path.exists() { file::read_text(&path)? } else { String::new() };
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// What the validations of the last stage say; `None` where there is none.
pub fn validated(folder: &Path) -> Result<Option<Validated>> {
    let metrics = read_plain(folder)?;
    let stage = metrics.last().map_or(0, |last| last.stage);
    let of_stage = metrics.iter().filter(|metric| metric.stage == stage);
    Ok(Validated::of(of_stage.filter_map(|metric| Some((metric.step, metric.valid_loss?)))))
}

/// The lines of steps up to `step`, and what they hold.
fn kept(path: &Path, step: u64) -> Result<(String, Vec<Metric>)> {
    let (mut kept, mut metrics, mut last, mut sealed) = (String::new(), Vec::new(), 0, false);
    let shown = path.display();
    let hint = "bring a copy of the file back, or remove it: training then goes on without the metrics of the steps before";
    for (number, line) in (1..).zip(file::read_text(path)?.lines()) {
        let checked = sealed_line::check(line).map_err(str::to_owned);
        let parsed = checked.and_then(|sealed| {
            let metric: Metric = serde_json::from_str(line).map_err(|error| error.to_string())?;
            Ok((sealed, metric))
        });
        match parsed {
            Ok((_, metric)) if metric.step > step => break,
            Ok((is_sealed, metric)) => {
                sealed |= is_sealed;
                // Lines without a checksum are kept as they are, and a file that was removed begins later.
                if is_sealed && last > 0 && metric.step != last + 1 {
                    return Err(missing(path, last, metric.step).hint(hint));
                }
                last = metric.step;
                kept.extend([line, "\n"]);
                metrics.push(metric);
            }
            // A line that a kill cut short is past the checkpoint, and so is all after it.
            Err(_) if last >= step => break,
            Err(why) => {
                let text = format!("`{shown}` line {number} is no step's metrics: {why}");
                return Err(Error::failed(text).hint(hint));
            }
        }
    }
    if sealed && last < step { Err(missing(path, last, step + 1).hint(hint)) } else { Ok((kept, metrics)) }
}

fn missing(path: &Path, before: u64, after: u64) -> Error {
    let (first, last) = (before + 1, after.saturating_sub(1));
    Error::failed(format!("`{}` lacks the metrics of the steps from {first} to {last}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(step: u64) -> Metric {
        Metric {
            format: FORMAT,
            stage: 0,
            step,
            tokens: step * 10,
            loss: 1.5,
            learning_rate: 1e-3,
            gradient_norm: 0.5,
            loss_scale: None,
            skipped: false,
            skipped_batches: 0,
            valid_loss: None,
            seconds: 0.1,
            resident_mib: None,
        }
    }

    #[test]
    fn curves_are_of_the_fields_that_are_there() {
        let has = |metric: &Metric, name: &str| {
            metric.event(1.0).windows(name.len()).any(|bytes| bytes == name.as_bytes())
        };
        let plain = metric(1);
        let all = Metric { skipped_batches: 2, resident_mib: Some(64.5), ..metric(1) };
        for name in ["memory/resident_mib", "progress/skipped_batches"] {
            assert_eq!((has(&plain, name), has(&all, name)), (false, true), "{name}");
        }
        assert!(has(&plain, "loss/train"));
        let line = serde_json::to_string(&plain).unwrap();
        assert!(!line.contains("skipped_batches") && !line.contains("resident_mib"), "{line}");
    }
}
