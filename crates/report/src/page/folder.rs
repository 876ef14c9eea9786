//! Runs, and what lies in a folder of them.

use crate::newest::Newest;
use longwave_core::in_order::{distinct, grouped};
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

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its rows apart by whether they are of the newest training.
    pub(super) fn newest(&self) -> Newest<'_> {
        Newest::of(&self.rows, |row| self.member(row))
    }

    /// Which of its runs a row is of. A run that has a config here is one, whatever it was called on the way; those of a study are pooled
    /// without.
    fn member<'a>(&self, row: &'a ResultRow) -> (&'a str, u64) {
        (if self.config.is_some() { "" } else { row.run.as_str() }, row.seed)
    }

    /// The row of each run whose rows are here that was measured last among those of its last step: one, or several where a
    /// study's were pooled.
    pub(super) fn members(&self) -> Vec<&ResultRow> {
        let mut places = HashMap::new();
        let mut members: Vec<&ResultRow> = Vec::new();
        for row in &self.rows {
            let place = *places.entry(self.member(row)).or_insert(members.len());
            match members.get_mut(place) {
                Some(known) if row.step >= known.step => *known = row,
                Some(_) => {}
                None => members.push(row),
            }
        }
        members
    }

    /// Whether it is a run of a store, which calls it by its key.
    fn is_stored(&self) -> bool {
        let own = self.folder.file_name().unwrap_or_default().to_string_lossy();
        let is_key = own.len() == 16 && own.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_key && self.rows.first().is_some_and(|row| row.run == own)
    }

    /// Whether its rows are those that a study keeps for its page: copies of those of its store.
    fn is_of_study(&self) -> bool {
        let is_study =
            |folder: &Path| ["plan.toml", "study.md"].iter().any(|name| folder.join(name).is_file());
        self.folder.ends_with("report") && self.folder.parent().is_some_and(is_study)
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
    name_stored(&mut runs)?;
    Ok(runs)
}

/// Gives the runs of a store the names that a study has for them, and leaves out the copies of their rows that the study keeps. The store's own
/// stand beside their configs and their losses in training.
fn name_stored(runs: &mut Vec<Run>) -> Result<()> {
    let mut names = HashMap::new();
    for row in runs.iter().filter(|run| run.is_of_study()).flat_map(|run| &run.rows) {
        names.entry(measurement(row)?).or_insert_with(|| row.run.clone());
    }
    let mut stored = HashSet::new();
    for run in runs.iter_mut().filter(|run| !names.is_empty() && run.is_stored()) {
        let measurements = run.rows.iter().map(measurement).collect::<Result<Vec<_>>>()?;
        if let Some(name) = measurements.iter().find_map(|it| names.get(it)) {
            run.rows.iter_mut().for_each(|row| row.run.clone_from(name));
        }
        stored.extend(measurements);
    }
    for run in runs.iter_mut().filter(|run| run.is_of_study()) {
        let mut only_here = Vec::new();
        for row in run.rows.drain(..) {
            if !stored.contains(&measurement(&row)?) {
                only_here.push(row);
            }
        }
        run.rows = only_here;
    }
    runs.retain(|run| stored.is_empty() || !run.is_of_study() || !run.rows.is_empty());
    Ok(())
}

/// What tells a measurement from others, whatever its run is called.
fn measurement(row: &ResultRow) -> Result<String> {
    ResultRow { run: String::new(), ..row.clone() }.identity()
}

/// Gives runs that have one name, and are no seeds of one run, the names of their folders, so that nothing is averaged over them. Says
/// what it did.
pub(super) fn tell_apart(runs: &mut [Run]) -> Result<Vec<String>> {
    // A run that was renamed has rows of each of its names.
    let mut names = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let of_run = distinct(run.rows.iter().map(|row| &row.run));
        names.extend(of_run.into_iter().map(|name| (name.clone(), index)));
    }
    let mut notes = Vec::new();
    for (name, of_name) in grouped(names) {
        let (groups, differing) = seeds_of_one(runs, of_name)?;
        let Some((one, other, what)) = differing else { continue };
        notes.push(format!(
            "`{}` and `{}` are called `{name}`, and are no seeds of one run: {what}. Each is shown under the name of its folder.",
            runs[one].name, runs[other].name
        ));
        for group in groups {
            let seeds = if group.len() > 1 { format!(" ({} seeds)", group.len()) } else { String::new() };
            let own = format!("{}{seeds}", runs[group[0]].name);
            for index in group {
                let rows = runs[index].rows.iter_mut().filter(|row| row.run == name);
                rows.for_each(|row| row.run.clone_from(&own));
            }
        }
    }
    Ok(notes)
}

/// Runs, as places in the list, gathered by their config without the seed; and two that differ, with what they differ in.
type Groups = (Vec<Vec<usize>>, Option<(usize, usize, String)>);

fn seeds_of_one(runs: &[Run], places: Vec<usize>) -> Result<Groups> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut differing = None;
    for index in places {
        let mut home = None;
        for (at, group) in groups.iter().enumerate() {
            let [first, other] = [group[0], index].map(|place| &*runs[place].folder);
            let what = longwave_eval::Run::differ_beside_seed(first, other)?;
            if what.is_none() {
                home = Some(at);
                break;
            }
            differing = differing.or_else(|| what.map(|what| (group[0], index, what)));
        }
        match home {
            Some(at) => groups[at].push(index),
            None => groups.push(vec![index]),
        }
    }
    Ok((groups, differing))
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
