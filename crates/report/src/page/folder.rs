//! Runs, and what lies in a folder of them.

use longwave_core::{Error, Result, file, line_count, sealed_line};
use longwave_data::Record;
use longwave_eval::Validated;
use longwave_eval::{ResultRow, row};
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Runs lie in the folder itself, in `runs/NAME`, or one level deeper in a study's folder.
const DEPTH: usize = 3;

#[derive(Debug)]
pub struct Run {
    /// Its folder below the reported one, or that folder's own name; runs of a study that differ in the seed alone share
    /// a name.
    pub(super) name: String,
    folder: PathBuf,
    pub(super) rows: Vec<ResultRow>,
    /// What was logged while training; empty where there is no `metrics.jsonl`.
    metrics: Vec<Metric>,
    pub(super) config: Option<String>,
    /// The text that it was trained on, and how that was read.
    pub(super) record: Option<Record>,
}

/// What a report needs of a line of `metrics.jsonl`.
#[derive(Debug, Deserialize)]
struct Metric {
    step: u64,
    #[serde(default)]
    stage: usize,
    #[serde(default)]
    loss: Option<f64>,
    #[serde(default)]
    valid_loss: Option<f64>,
}

impl Run {
    /// A run with these rows, and with the metrics, the config and the record of the text in its folder where there are some.
    pub fn new(name: String, rows: Vec<ResultRow>, folder: &Path) -> Result<Self> {
        let (metrics, config) = (folder.join("metrics.jsonl"), folder.join("config.toml"));
        Ok(Self {
            name,
            folder: folder.to_owned(),
            rows,
            metrics: if metrics.is_file() { read_metrics(&metrics)? } else { Vec::new() },
            config: if config.is_file() { Some(file::read_text(&config)?) } else { None },
            record: Record::read(folder)?,
        })
    }

    /// The last row of each run whose rows are here: one, or several where a study's were pooled.
    pub(super) fn members(&self) -> Vec<&ResultRow> {
        let mut places = HashMap::new();
        let mut members: Vec<&ResultRow> = Vec::new();
        for row in &self.rows {
            let place = *places.entry((&row.run, row.seed, &row.config_hash)).or_insert(members.len());
            match members.get_mut(place) {
                Some(known) => *known = row,
                None => members.push(row),
            }
        }
        members
    }

    pub(super) fn has(&self, row: &ResultRow) -> bool {
        let same = |own: &ResultRow| {
            (&own.run, own.seed, &own.config_hash, &own.checkpoint)
                == (&row.run, row.seed, &row.config_hash, &row.checkpoint)
        };
        self.rows.iter().any(same)
    }

    /// The folder as a command names it: as it was reported, but no absolute path, which says where somebody's files lie.
    pub(super) fn place(&self, reported: &Path) -> String {
        let own = self.folder.strip_prefix(reported).ok().filter(|_| reported.is_absolute());
        let place = own.map(|below| Path::new(reported.file_name().unwrap_or_default()).join(below));
        let text = place.as_ref().unwrap_or(&self.folder).to_string_lossy().into_owned();
        text.trim_end_matches('/').to_owned()
    }

    /// `(step, loss)` of every logged step, in nats per token.
    pub(super) fn training_losses(&self) -> Vec<(f64, f64)> {
        self.metrics.iter().filter_map(|metric| Some((metric.step as f64, metric.loss?))).collect()
    }

    /// What the validations of the last stage say; `None` where there is none.
    pub fn validated(&self) -> Option<Validated> {
        let stage = self.metrics.last()?.stage;
        let of_stage = self.metrics.iter().filter(|metric| metric.stage == stage);
        Validated::of(of_stage.filter_map(|metric| Some((metric.step, metric.valid_loss?))))
    }

    /// That a reader of the rows of the end of training should know of an earlier step that was better on validation.
    pub(super) fn earlier(&self) -> Option<String> {
        self.rows.iter().any(|row| row.checkpoint == "last").then(|| self.validated())??.earlier()
    }

    /// `(step, loss)` of every validation, in nats per token.
    pub(super) fn validation_losses(&self) -> Vec<(f64, f64)> {
        self.metrics.iter().filter_map(|metric| Some((metric.step as f64, metric.valid_loss?))).collect()
    }
}

/// All runs in `folder` and below, in the order of their names.
pub(super) fn runs(folder: &Path) -> Result<Vec<Run>> {
    if !folder.is_dir() {
        return Err(Error::usage(format!("`{}` is no folder", folder.display()))
            .hint("name a run's folder, such as `runs/rope-0`, or the folder of several runs"));
    }
    let mut runs = Vec::new();
    collect(folder, folder, DEPTH, &mut runs)?;
    Ok(runs)
}

/// The rows of all runs, each measurement once: a copied folder adds nothing.
pub(super) fn distinct_rows(runs: &[Run]) -> Result<Vec<ResultRow>> {
    let mut seen = HashSet::new();
    let mut rows = Vec::new();
    for row in runs.iter().flat_map(|run| &run.rows) {
        if seen.insert(row.identity()?) {
            rows.push(row.clone());
        }
    }
    Ok(rows)
}

fn collect(root: &Path, folder: &Path, depth: usize, runs: &mut Vec<Run>) -> Result<()> {
    if folder.join("results.jsonl").is_file() {
        runs.push(read(root, folder)?);
    }
    if depth == 0 {
        return Ok(());
    }
    let failed = |error: std::io::Error| Error::io("list", folder, &error);
    let mut inside = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // Through links too: how deep runs lie is bounded.
        if entry.path().is_dir() && entry.file_name() != "checkpoints" {
            inside.push(entry.path());
        }
    }
    inside.sort();
    inside.iter().try_for_each(|inside| collect(root, inside, depth - 1, runs))
}

fn read(root: &Path, folder: &Path) -> Result<Run> {
    let below = folder.strip_prefix(root).unwrap_or(folder);
    let name =
        if below.as_os_str().is_empty() { own_name(folder) } else { below.to_string_lossy().into_owned() };
    Run::new(name, row::read_rows(&folder.join("results.jsonl"))?, folder)
}

/// A run whose rows lie in another folder than all else of it.
pub(super) fn measured_in(folder: &Path, run: &Path) -> Result<Run> {
    Run::new(own_name(run), row::read_rows(&folder.join("results.jsonl"))?, run)
}

fn own_name(folder: &Path) -> String {
    let own = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    own.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A last line without its end is still being written, and is left out.
fn read_metrics(path: &Path) -> Result<Vec<Metric>> {
    let text = file::read_text(path)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = (1..).zip(whole.lines()).filter(|(_, line)| !line.trim().is_empty());
    let metrics = lines
        .map(|(number, line)| {
            let damaged = |why: &dyn std::fmt::Display| {
                Error::failed(format!("`{}` line {number} is no step's metrics: {why}", path.display()))
                    .hint("take that line out, and report again")
            };
            sealed_line::check(line).map_err(|why| damaged(&why))?;
            serde_json::from_str(line).map_err(|error| damaged(&error))
        })
        .collect::<Result<Vec<_>>>()?;
    line_count::check(path, metrics.len(), "bring a copy of the file back")?;
    Ok(metrics)
}
