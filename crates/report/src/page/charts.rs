//! The charts of a report, each with the name of its files.

use super::folder::Run;
use crate::block::Block;
use crate::file_name::file_name_of;
use crate::grid::{Entry, Grid, Header};
use crate::history::Reading;
use crate::plot::{Chart, Curve, Series, Styles, by_length, positions, training, values_per_point};
use crate::table::Table;
use crate::tensorboard;
use longwave_core::in_order::grouped;
use longwave_core::{Error, Result, file};
use longwave_eval::protocols::{self, Key};
use longwave_eval::{Metric, Split};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub(super) struct Named {
    pub(super) file: String,
    pub(super) chart: Chart,
}

pub(super) struct OfTable {
    pub(super) charts: Vec<Named>,
    /// Whether there are any, also where they have nothing to draw.
    pub(super) has_charts: bool,
}

/// The charts of every table of every block. A file is named after what it shows: the metric, what its block has apart
/// from the first with that metric, or with that protocol, and the run where each has its own chart.
pub(super) fn of_tables(blocks: &[Block], tables: &[Vec<Table>], styles: &Styles) -> Vec<Vec<OfTable>> {
    let mut names = BTreeSet::new();
    let (mut firsts, mut firsts_of_protocol) = (BTreeMap::new(), BTreeMap::new());
    let mut of_table = |place: usize, tables: &[Table], index: usize| {
        let block = &blocks[place];
        let (metric, charts) = charts(block, tables, index, styles);
        let has_charts = !charts.is_empty();
        let mut named = Vec::new();
        for chart in charts.into_iter().filter(Chart::has_numbers) {
            let mut parts = vec![metric.to_owned()];
            parts.extend(apart(block, &blocks[*firsts.entry(metric).or_insert(place)]));
            let kind = (metric, block.settings.protocol.name());
            parts.extend(measured_apart(block, &blocks[*firsts_of_protocol.entry(kind).or_insert(place)]));
            parts.extend(chart.run.as_deref().map(file_name_of));
            let file = unused(parts.join("-"), &mut names);
            named.push(Named { file, chart });
        }
        OfTable { charts: named, has_charts }
    };
    let of_block = |(place, tables): (usize, &Vec<Table>)| {
        (0..tables.len()).map(|index| of_table(place, tables, index)).collect()
    };
    tables.iter().enumerate().map(of_block).collect()
}

/// The readings by training step that have something to draw, each with the name of its files: `by_step-EXTENSION`.
pub(super) fn of_readings(readings: &[Reading]) -> Vec<(String, &Reading)> {
    let mut names = BTreeSet::new();
    let mut named = Vec::new();
    for reading in readings.iter().filter(|reading| reading.chart.has_numbers()) {
        let parts = reading.name.iter().map(|part| file_name_of(part));
        let name = std::iter::once("by_step".to_owned()).chain(parts).collect::<Vec<_>>().join("-");
        named.push((unused(name, &mut names), reading));
    }
    named
}

/// Removes the charts of earlier reports from a folder that holds nothing but a report, as pictures and for `TensorBoard`: those that are
/// not among what was `written` now. Pictures of other names stay.
pub fn remove_other_charts(folder: &Path, written: &[PathBuf]) -> Result<()> {
    let failed = |error: std::io::Error| Error::io("list", folder, &error);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if is_chart(&path) && !written.contains(&path) {
            file::remove(&path)?;
        }
    }
    if written.is_empty() { tensorboard::remove(folder) } else { Ok(()) }
}

/// Whether a file has the name of a chart: what it shows, and after a hyphen what tells it from others.
fn is_chart(path: &Path) -> bool {
    let [stem, kind] =
        [path.file_stem(), path.extension()].map(|it| it.and_then(OsStr::to_str).unwrap_or(""));
    let metrics = Metric::all().iter().map(|metric| metric.name());
    let mut shown = metrics.chain(["positions", "by_step", "training"]);
    let is_of =
        |name: &str| stem.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    ["svg", "png", "pdf"].contains(&kind) && shown.any(is_of)
}

/// The name, with a number where it is taken.
fn unused(name: String, names: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let free =
        std::iter::once(name.clone()).chain(numbered).find(|name| !names.contains(name)).unwrap_or(name);
    names.insert(free.clone());
    free
}

/// The charts that stand with one of a block's tables, and what they show: its metric by length, or the loss by
/// position.
fn charts(block: &Block, tables: &[Table], index: usize, styles: &Styles) -> (&'static str, Vec<Chart>) {
    let curves = positions(block, styles);
    let has_curves = !curves.is_empty();
    if has_curves && index + 1 == tables.len() {
        return ("positions", curves);
    }
    let metric = tables[index].metric;
    // A curve by position says more than its mean, the one point of a chart by length.
    let charts =
        if has_curves && block.lengths.len() < 2 { Vec::new() } else { by_length(block, metric, styles) };
    (metric.name(), charts)
}

/// What a block has apart from the first of its report, as parts of a file's name.
fn apart(block: &Block, first: &Block) -> Vec<String> {
    let (settings, other) = (&block.settings, &first.settings);
    let mut parts = Vec::new();
    if settings.protocol != other.protocol {
        parts.push(settings.protocol.to_string());
    }
    if settings.train_length != other.train_length {
        parts.push(format!("L{}", settings.train_length));
    }
    if settings.split != other.split {
        parts.push(if settings.split == Split::Valid {
            "validation".into()
        } else {
            settings.split.to_string()
        });
    }
    if block.checkpoint != first.checkpoint {
        parts.push(file_name_of(&block.checkpoint));
    }
    parts
}

/// Keys of the protocol, and the text, that differ from those of the first block with the same protocol.
fn measured_apart(block: &Block, first: &Block) -> Vec<String> {
    let (settings, other) = (&block.settings, &first.settings);
    let of_key = |key: Key| {
        let value = settings.keys.get(key.name);
        let text = value.map_or("all".to_owned(), |value| value.to_string());
        (value != other.keys.get(key.name)).then(|| format!("{}-{text}", key.name))
    };
    let mut parts: Vec<String> = protocols::keys().into_iter().filter_map(of_key).collect();
    if settings.key_tokens != other.key_tokens {
        parts.push(
            settings.key_tokens.as_ref().map_or("all-tokens".into(), |hash| format!("key-tokens-{hash}")),
        );
    }
    if settings.score != other.score {
        let score = serde_json::to_value(settings.score).unwrap_or_default();
        parts.push(format!("score-{}", score.as_str().unwrap_or("one")));
    }
    if settings.corpus_hash != other.corpus_hash {
        let corpus = block.rows().find_map(|row| row.corpus.as_deref()).unwrap_or_default();
        parts.push(file_name_of(corpus));
    }
    parts
}

/// Losses while training: both of one run, or of several the validation losses where there are some. Runs that share a
/// name are averaged where all of them have the step.
pub(super) fn training_curves(runs: &[Run]) -> Vec<Curve> {
    let mut curves = Vec::new();
    if let [run] = runs {
        for (name, values) in [("training", run.training_losses()), ("validation", run.validation_losses())] {
            curves.push(Curve { name: name.into(), run: None, values });
        }
    } else {
        curves.extend(by_name(runs).into_iter().map(|(name, runs)| curve_of(name, &runs)));
        give_colours_once(&mut curves);
    }
    curves.retain(|curve| curve.values.len() > 1);
    curves
}

/// The chart of these losses. Where losses do not compare in the `blocks` of their results, it says so.
pub(super) fn training_chart(curves: &[Curve], blocks: &[Block], styles: &Styles) -> Option<Chart> {
    let note = blocks.iter().find_map(|block| block.obstacle(Metric::Loss)).filter(|_| curves.len() > 1);
    Some(Chart { note, ..training(curves, styles) }).filter(Chart::has_numbers)
}

/// The values of a chart of training losses that a reader looks for: where each of the curves that it draws begins and ends, and its
/// least.
pub(super) fn training_table(chart: &Chart, curves: &[Curve]) -> Grid {
    let shown = |value: f64| Entry::new(format!("{value:.4}"));
    let row = |(series, curve): (&Series, &Curve)| {
        let (first, last) = (series.points.first()?, series.points.last()?);
        let least = series.points.iter().map(|point| point.y).fold(f64::INFINITY, f64::min);
        // A point of a long curve lies in the middle of the steps that it is the mean of.
        let step = Entry::new(format!("{:.0}", curve.values.last()?.0));
        Some(vec![Entry::new(series.name.clone()), step, shown(first.y), shown(least), shown(last.y)])
    };
    let longest = curves.iter().map(|curve| curve.values.len()).max().unwrap_or(0);
    let per_point = values_per_point(longest);
    let averaged = if per_point > 1 {
        format!(
            "; in long curves every loss, the first and the last too, is the mean of up to {per_point} in a row"
        )
    } else {
        String::new()
    };
    let numbers = ["last step", "first loss", "least", "last"].map(Header::number);
    Grid {
        title: "Training losses".into(),
        setting: format!("nats per token{averaged}"),
        headers: std::iter::once(Header::words("curve")).chain(numbers).collect(),
        rows: chart.series.iter().zip(curves).filter_map(row).collect(),
        notes: Vec::new(),
    }
}

/// Runs under each name, in order of first appearance.
pub(super) fn by_name(runs: &[Run]) -> Vec<(&str, Vec<&Run>)> {
    grouped(runs.iter().map(|run| (run.name.as_str(), run)))
}

fn curve_of(name: &str, runs: &[&Run]) -> Curve {
    let valid: Vec<_> = runs.iter().map(|run| run.validation_losses()).filter(|it| it.len() > 1).collect();
    let (kind, curves) = if valid.is_empty() {
        ("training", runs.iter().map(|run| run.training_losses()).collect())
    } else {
        ("validation", valid)
    };
    let seeds = if curves.len() > 1 { format!(", mean of {} seeds", curves.len()) } else { String::new() };
    Curve {
        name: format!("{name} ({kind}{seeds})"),
        run: runs[0].rows.first().map(|row| row.run.clone()),
        values: mean(&curves),
    }
}

fn mean(curves: &[Vec<(f64, f64)>]) -> Vec<(f64, f64)> {
    let mut steps: BTreeMap<u64, (usize, f64)> = BTreeMap::new();
    for &(step, loss) in curves.iter().flatten() {
        // Steps are whole numbers.
        let (count, sum) = steps.entry(step as u64).or_default();
        *count += 1;
        *sum += loss;
    }
    let shared = steps.into_iter().filter(|(_, (count, _))| *count == curves.len());
    shared.map(|(step, (count, sum))| (step as f64, sum / count as f64)).collect()
}

/// Folders whose runs have one name, such as the seeds of a config, would have one colour: they are coloured in their
/// order.
fn give_colours_once(curves: &mut [Curve]) {
    let mut counts: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for curve in &*curves {
        *counts.entry(curve.run.clone()).or_default() += 1;
    }
    if counts.values().any(|count| *count > 1) {
        for curve in curves {
            curve.run = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_of_earlier_reports_go_and_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let events = file("tensorboard/by_length/events.out.tfevents.0.charts");
        let charts = [
            "perplexity.svg",
            "perplexity-sliding.png",
            "by_step-ntk.svg",
            "training.pdf",
            "positions-2.svg",
        ];
        let others = ["perplexity.csv", "figure.svg", "perplexities.png", "report.html"];
        fs::create_dir_all(events.parent().unwrap()).unwrap();
        for path in charts.iter().chain(&others).map(|name| file(name)).chain([events.clone()]) {
            fs::write(path, "").unwrap();
        }
        let there = |names: &[&str]| names.iter().map(|name| file(name).exists()).collect::<Vec<_>>();
        remove_other_charts(folder.path(), &[file("perplexity.svg"), file("report.html")]).unwrap();
        assert_eq!(there(&charts), [true, false, false, false, false]);
        assert!(events.exists(), "a report has put its own in its place");
        remove_other_charts(folder.path(), &[]).unwrap();
        assert_eq!(there(&charts), [false; 5]);
        assert_eq!(there(&others), [true; 4]);
        assert!(!file("tensorboard").exists());
        remove_other_charts(&file("nowhere"), &[]).unwrap();
    }

    #[test]
    fn means_are_of_steps_that_all_seeds_have() {
        let curves = [vec![(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)], vec![(1.0, 1.0), (3.0, 2.0)]];
        assert_eq!(mean(&curves), [(1.0, 2.0), (3.0, 1.5)]);
    }

    #[test]
    fn the_last_step_is_that_of_training_and_not_of_the_mean_at_its_end() {
        // The loss of step n is n, so that means tell their steps.
        let curve = |steps: u32| Curve {
            name: format!("{steps} steps"),
            run: None,
            values: (1..=steps).map(|step| (f64::from(step), f64::from(step))).collect(),
        };
        let table = |steps: &[u32]| {
            let curves: Vec<Curve> = steps.iter().map(|&steps| curve(steps)).collect();
            let table = training_table(&training(&curves, &Styles::default()), &curves);
            let rows = table.rows.into_iter().map(|row| row.into_iter().map(|entry| entry.value));
            (table.setting, rows.map(|row| row.skip(1).collect()).collect::<Vec<Vec<String>>>())
        };
        let (setting, rows) = table(&[1500, 20]);
        // Of 1 to 5 and of 1496 to 1500.
        assert_eq!(rows, [["1500", "3.0000", "3.0000", "1498.0000"], ["20", "1.0000", "1.0000", "20.0000"]]);
        assert!(setting.ends_with("is the mean of up to 5 in a row"), "{setting}");
        assert_eq!(table(&[300]).0, "nats per token");
    }
}
