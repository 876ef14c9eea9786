//! `metrics.jsonl`: one line per optimizer step.
//!
//! Lines carry `format = 1`. A field may be added within a format; its meaning never changes. A run
//! that resumes cuts the lines after its checkpoint, so that each step stands once.

use longwave_core::{Error, Result, file};
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The format of a line.
pub const FORMAT: u32 = 1;

/// One optimizer step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// [`FORMAT`].
    pub format: u32,
    /// The stage: 0 is `[train]`, n the n-th `[[stage]]`.
    #[serde(default)]
    pub stage: usize,
    /// Steps done in all stages, this one included.
    pub step: u64,
    /// Training tokens read so far.
    pub tokens: u64,
    /// Mean loss of the step's batch, nats a token.
    pub loss: f64,
    /// The learning rate of the step.
    pub learning_rate: f64,
    /// Norm of the gradient before clipping; 0 where the step was left out.
    pub gradient_norm: f64,
    /// What the loss was multiplied by; absent where nothing is scaled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loss_scale: Option<f64>,
    /// The step was left out: its gradients overflowed.
    #[serde(skip_serializing_if = "longwave_core::config::is_default", default)]
    pub skipped: bool,
    /// Loss on the validation split after the step, nats a token.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub valid_loss: Option<f64>,
    /// Seconds the step took.
    pub seconds: f64,
}

/// Appends lines to the file.
#[derive(Debug)]
pub struct Metrics {
    path: PathBuf,
    pending: String,
}

impl Metrics {
    /// Opens the file, keeping the lines of steps up to `step`.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn open(folder: &Path, step: u64) -> Result<Self> {
        let path = folder.join("metrics.jsonl");
        let mut kept = String::new();
        if path.exists() {
            for line in file::read_text(&path)?.lines() {
                // A line cut short by a kill is past the checkpoint, so it may go.
                match serde_json::from_str::<Metric>(line) {
                    Ok(metric) if metric.step <= step => kept.extend([line, "\n"]),
                    _ => {}
                }
            }
        }
        file::write(&path, kept.as_bytes())?;
        Ok(Self { path, pending: String::new() })
    }

    /// Adds a line; it reaches the disk with the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// The metric holds a number JSON has no form for.
    pub fn push(&mut self, metric: &Metric) -> Result<()> {
        let line = serde_json::to_string(metric).map_err(|error| {
            Error::failed(format!("step {} cannot be written as JSON: {error}", metric.step))
        })?;
        self.pending.extend([line.as_str(), "\n"]);
        Ok(())
    }

    /// Writes pending lines.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        let failed = |error: std::io::Error| Error::io("write", &self.path, &error);
        let mut file = OpenOptions::new().append(true).create(true).open(&self.path).map_err(failed)?;
        file.write_all(self.pending.as_bytes()).map_err(failed)?;
        self.pending.clear();
        Ok(())
    }
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
            valid_loss: None,
            seconds: 0.1,
        }
    }

    #[test]
    fn a_resumed_run_has_each_step_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut metrics = Metrics::open(folder.path(), 0).unwrap();
        for step in 1..=4 {
            metrics.push(&metric(step)).unwrap();
        }
        metrics.flush().unwrap();
        let mut metrics = Metrics::open(folder.path(), 2).unwrap();
        metrics.push(&metric(3)).unwrap();
        metrics.flush().unwrap();
        let text = file::read_text(&folder.path().join("metrics.jsonl")).unwrap();
        let steps: Vec<u64> = text.lines().map(|l| serde_json::from_str::<Metric>(l).unwrap().step).collect();
        assert_eq!(steps, [1, 2, 3]);
    }
}
