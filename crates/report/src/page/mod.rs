//! The report of a folder: tables, plots and one HTML page that needs nothing beside it.

mod folder;
mod html;

use crate::block::{Block, blocks};
use crate::csv::Tidy;
use crate::plot::{Chart, Figure, by_length, pdf, positions, svg, training, write_png};
use crate::table::Table;
use folder::Run;
use longwave_core::{Error, Result, file};
use longwave_eval::{Reference, ResultRow, reference};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A run's folder, or a folder with runs in it and below, read once for everything that reports it.
#[derive(Debug)]
pub struct Report {
    folder: PathBuf,
    runs: Vec<Run>,
    /// Each measurement once, with differences to one reading.
    rows: Vec<ResultRow>,
}

impl Report {
    /// Reads `results.jsonl` and, where they are, `metrics.jsonl` and `config.toml`. Losses are compared with those of the
    /// reading that is `against`, or as [`reference::resolve`] finds it.
    ///
    /// # Errors
    /// There is no result in the folder, no reading that is `against`, or a file of it is damaged.
    pub fn read(folder: &Path, against: Option<&Reference>) -> Result<Self> {
        let runs = folder::runs(folder)?;
        let mut rows = folder::distinct_rows(&runs)?;
        if rows.is_empty() {
            return Err(no_results(folder, &runs));
        }
        reference::resolve(&mut rows, against)?;
        Ok(Self { folder: folder.to_owned(), runs, rows })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its tables.
    pub fn tables(&self) -> Vec<Table> {
        blocks(&self.rows).iter().flat_map(Table::all).collect()
    }

    /// Writes into the folder `report.html`, `results.md`, `results.csv`, `perplexity.svg` and `.png` (the first chart;
    /// further ones are numbered; `accuracy` or `exact_match` where the protocol is about those) and, where losses by
    /// position were measured, `positions.svg` and `.png`. Each file appears whole or not at all. Gives the paths it
    /// wrote.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self) -> Result<Vec<PathBuf>> {
        let Self { folder, runs, rows } = self;
        let members: Vec<&ResultRow> = runs.iter().flat_map(Run::members).collect();
        let title = match members.as_slice() {
            [row] => row.run.clone(),
            _ => format!("{} runs", members.len()),
        };
        let blocks = blocks(rows);
        let tables: Vec<Vec<Table>> = blocks.iter().map(Table::all).collect();
        let mut written = Written::new(folder);
        written.text("results.md", &markdown(&title, &tables.concat()))?;
        written.text("results.csv", &Tidy::of(rows)?.csv())?;
        let mut sections = Vec::new();
        for (block, tables) in blocks.iter().zip(&tables) {
            for (index, table) in tables.iter().enumerate() {
                let (name, charts) = charts(block, tables, index);
                let drawable = charts.iter().filter(|chart| chart.has_numbers());
                let pictures =
                    drawable.map(|chart| written.chart(name, chart, table)).collect::<Result<_>>()?;
                sections.push(html::Section { table, pictures, has_charts: !charts.is_empty() });
            }
        }
        let learning = training_chart(runs).map(|chart| svg(&chart)).transpose()?;
        let page = html::page(&html::Page { title: &title, runs, sections: &sections, learning });
        written.text("report.html", &page)?;
        written.paths.rotate_right(1);
        Ok(written.paths)
    }

    /// Writes the charts as PDF for a paper: those that [`write`](Self::write) draws, under the same names, and
    /// `training.pdf`. Gives the paths it wrote.
    ///
    /// # Errors
    /// A file cannot be written, or the figures are too small for their texts.
    pub fn write_figures(&self, figure: &Figure) -> Result<Vec<PathBuf>> {
        let mut written = Written::new(&self.folder);
        for block in &blocks(&self.rows) {
            let tables = Table::all(block);
            for index in 0..tables.len() {
                let (name, charts) = charts(block, &tables, index);
                for chart in charts.iter().filter(|chart| chart.has_numbers()) {
                    let name = written.numbered(name);
                    written.file(&format!("{name}.pdf"), &pdf(chart, figure)?)?;
                }
            }
        }
        if let Some(chart) = training_chart(&self.runs) {
            written.file("training.pdf", &pdf(&chart, figure)?)?;
        }
        Ok(written.paths)
    }
}

/// Reads a folder and writes its report, see [`Report`].
///
/// # Errors
/// As [`Report::read`] and [`Report::write`].
pub fn write(folder: &Path, against: Option<&Reference>) -> Result<Vec<PathBuf>> {
    Report::read(folder, against)?.write()
}

/// The charts that stand with one of a block's tables, and the name of their files: its metric by length, or the loss
/// by position.
fn charts(block: &Block, tables: &[Table], index: usize) -> (&'static str, Vec<Chart>) {
    let curves = positions(block);
    let has_curves = !curves.is_empty();
    if has_curves && index + 1 == tables.len() {
        return ("positions", curves);
    }
    let metric = tables[index].metric;
    // A curve by position says more than its mean, the one point of a chart by length.
    let charts = if has_curves && block.lengths.len() < 2 { Vec::new() } else { by_length(block, metric) };
    (metric.name(), charts)
}

fn no_results(folder: &Path, runs: &[Run]) -> Error {
    let what = if runs.is_empty() { "is no `results.jsonl`" } else { "are no results" };
    Error::failed(format!("there {what} in `{}` or in the folders below it", folder.display()))
        .hint("train with an `[[evaluate]]` block, or measure a trained run with `longwave eval RUN`")
}

fn markdown(title: &str, tables: &[Table]) -> String {
    let tables: Vec<String> = tables.iter().map(Table::markdown).collect();
    format!("## Results of {title}\n\n{}", tables.join("\n"))
}

/// Losses while training: both of one run, or the validation losses of several.
fn training_chart(runs: &[Run]) -> Option<Chart> {
    let mut curves = Vec::new();
    let mut add = |name: String, values: Vec<(f64, f64)>| {
        if values.len() > 1 {
            curves.push((name, values));
        }
    };
    if let [run] = runs {
        add("training".into(), run.training_losses());
        add("validation".into(), run.validation_losses());
    } else {
        for run in runs {
            let valid = run.validation_losses();
            let (kind, values) =
                if valid.len() > 1 { ("validation", valid) } else { ("training", run.training_losses()) };
            add(format!("{} ({kind})", run.name), values);
        }
    }
    Some(training(&curves)).filter(Chart::has_numbers)
}

/// What was written so far.
struct Written<'a> {
    folder: &'a Path,
    paths: Vec<PathBuf>,
    /// Charts of each name so far.
    charts: BTreeMap<&'static str, usize>,
}

impl<'a> Written<'a> {
    fn new(folder: &'a Path) -> Self {
        Self { folder, paths: Vec::new(), charts: BTreeMap::new() }
    }

    fn text(&mut self, name: &str, text: &str) -> Result<()> {
        self.file(name, text.as_bytes())
    }

    fn file(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.folder.join(name);
        file::write(&path, bytes)?;
        self.paths.push(path);
        Ok(())
    }

    /// The name of the next chart of that name: the first has no number.
    fn numbered(&mut self, name: &'static str) -> String {
        let number = self.charts.entry(name).and_modify(|number| *number += 1).or_insert(1);
        if *number == 1 { name.to_owned() } else { format!("{name}-{number}") }
    }

    /// Writes a chart as SVG and PNG. Gives the SVG for the page, which
    /// does not repeat what the page says above it.
    fn chart(&mut self, name: &'static str, chart: &Chart, table: &Table) -> Result<String> {
        let name = self.numbered(name);
        self.text(&format!("{name}.svg"), &svg(chart)?)?;
        let path = self.folder.join(format!("{name}.png"));
        write_png(chart, &path)?;
        self.paths.push(path);
        let mut inside = chart.clone();
        if inside.title == table.title {
            inside.title.clear();
        }
        if inside.subtitle == table.setting {
            inside.subtitle.clear();
        }
        svg(&inside)
    }
}

#[cfg(test)]
mod tests;
