//! The report of a folder: tables, plots and one HTML page that needs nothing beside it.

mod charts;
mod elements;
mod figure;
mod folder;
mod how;
mod html;
mod policy;

use crate::block::{Block, blocks};
use crate::csv::Tidy;
use crate::explained::{self, Shown};
use crate::grid::{Grid, markdown_text};
use crate::history::{History, Reading, histories};
use crate::kept_steps::without_kept_steps;
use crate::plot::{self, Chart, Figure, FigureFormat, Styles, of_paper, svg, write_png};
use crate::table::Table;
use crate::tensorboard;
use charts::{of_readings, of_tables, training_chart, training_curves, training_table};
use how::How;
use longwave_core::{Error, Result, file};
use longwave_eval::diagnostics::Explained;
use longwave_eval::{Reference, ResultRow, reference};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

pub use charts::remove_other_charts;
pub use folder::Run;

#[derive(Clone, Debug, Default)]
pub struct Opening {
    pub title: String,
    pub sentences: Vec<String>,
    /// Tables before those of the results, such as verdicts.
    pub tables: Vec<Grid>,
    /// What measures everything again, where that is not said run by run.
    pub recipe: Option<Recipe>,
}

/// How all numbers of a report are measured again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    pub sentences: Vec<String>,
    pub commands: Vec<String>,
    pub files: Vec<(String, String)>,
}

/// A run's folder, or a folder with runs in it and below, read once for everything that reports it.
#[derive(Debug)]
pub struct Report {
    folder: PathBuf,
    opening: Opening,
    runs: Vec<Run>,
    /// Each measurement once, with differences to one reading.
    rows: Vec<ResultRow>,
    /// Those that stand in tables by length, where some are from before a run was trained further.
    newest: Option<Vec<ResultRow>>,
    notes: Vec<String>,
}

impl Report {
    /// Reads `results.jsonl` and, where they are, `metrics.jsonl` and `config.toml`. Losses are compared with those of the
    /// reading that is `against`, or as [`reference::resolve`] finds it.
    pub fn read(folder: &Path, against: Option<&Reference>) -> Result<Self> {
        Self::of_runs(folder, folder::runs(folder)?, against)
    }

    /// The same for the rows that another folder has of the run in `run`, as `eval --out` writes them.
    pub fn read_elsewhere(folder: &Path, run: &Path) -> Result<Self> {
        Self::of_runs(folder, vec![folder::measured_in(folder, run)?], None)
    }

    fn of_runs(folder: &Path, mut runs: Vec<Run>, against: Option<&Reference>) -> Result<Self> {
        let notes = folder::tell_apart(&mut runs)?;
        let members: Vec<&ResultRow> = runs.iter().flat_map(Run::members).collect();
        let title = match members.as_slice() {
            [row] => row.run.clone(),
            _ => format!("{} runs", members.len()),
        };
        Self::noted(folder, Opening { title, ..Opening::default() }, runs, notes, against)
    }

    /// A report on these runs, which lie in `folder`.
    pub fn new(folder: &Path, opening: Opening, runs: Vec<Run>, against: Option<&Reference>) -> Result<Self> {
        Self::noted(folder, opening, runs, Vec::new(), against)
    }

    fn noted(
        folder: &Path,
        mut opening: Opening,
        runs: Vec<Run>,
        mut notes: Vec<String>,
        against: Option<&Reference>,
    ) -> Result<Self> {
        let mut rows = folder::distinct_rows(&runs)?;
        if rows.is_empty() {
            return Err(no_results(folder, &runs));
        }
        reference::resolve(&mut rows, against)?;
        let newest = newest_of(&runs, &rows)?;
        notes.extend(runs.iter().flat_map(|run| how::missed(run, folder)));
        notes.extend(earlier_steps(&runs));
        opening.sentences.extend(notes.clone());
        Ok(Self { folder: folder.to_owned(), opening, runs, rows, newest, notes })
    }

    fn blocks(&self) -> Vec<Block<'_>> {
        blocks(self.newest.as_deref().unwrap_or(&self.rows))
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn tables(&self) -> Vec<Table> {
        self.blocks().iter().flat_map(Table::all).collect()
    }

    /// What a reader should know before the tables: runs of one name that are no seeds of one, rows from before a run was trained
    /// further, and runs whose end was read and that were better on validation at an earlier step.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub fn histories(&self) -> Vec<Grid> {
        readings(&self.rows).into_iter().map(|reading| reading.table).collect()
    }

    /// Writes into a folder `report.html`, `results.md`, `results.csv`, and the charts as SVG and PNG. The first chart is `perplexity` (`accuracy` or `exact_match` where
    /// the protocol is about those), behind `bits_per_byte` where runs have different tokenizers, or `positions` where losses by
    /// position were measured; further ones say in their names what they show, such as `perplexity-sliding` or
    /// `perplexity-rope`. The same charts go to `tensorboard/`. Each file appears whole or not at all. Gives the paths it wrote,
    /// those in `tensorboard/` aside.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        let Self { folder: reported, opening, runs, rows, notes, .. } = self;
        let blocks = self.blocks();
        let styles = Styles::of(&blocks);
        let tables: Vec<Vec<Table>> = blocks.iter().map(Table::all).collect();
        let mut written = Written { folder, paths: Vec::new() };
        let readings = readings(rows);
        let grids = readings.iter().map(|reading| &reading.table);
        written.text("results.md", &markdown(&opening.title, notes, &tables.concat(), grids))?;
        written.text("results.csv", &Tidy::of(rows)?.csv())?;
        let mut sections = Vec::new();
        let charts = of_tables(&blocks, &tables, &styles);
        let named = charts.iter().flatten().flat_map(|of_table| &of_table.charts);
        tensorboard::write(
            folder,
            tensorboard::BY_LENGTH,
            named.map(|named| (named.file.as_str(), &named.chart)),
        )?;
        for ((block, tables), of_tables) in blocks.iter().zip(&tables).zip(charts) {
            let how = How::of_block(block, runs, opening, reported);
            for (table, of_table) in tables.iter().zip(of_tables) {
                of_table.charts.iter().try_for_each(|named| written.picture(&named.file, &named.chart))?;
                let charts = of_table.charts.into_iter().map(|named| named.chart).collect();
                sections.push(html::Section {
                    table,
                    charts,
                    has_charts: of_table.has_charts,
                    how: how.clone(),
                });
            }
        }
        let mut histories = Vec::new();
        for (file, reading) in of_readings(&readings) {
            written.picture(&file, &reading.chart)?;
            histories.push((reading.table.clone(), Some(reading.chart.clone())));
        }
        let explained = self.explained()?;
        let why = explained.as_ref().map(explained::tables).unwrap_or_default();
        written.shown(&why)?;
        let why_summary = explained.as_ref().map(explained::summary).unwrap_or_default();
        let curves = training_curves(runs);
        let learning = training_chart(&curves, &blocks, &styles);
        // A single training has written its own.
        let several = learning.iter().filter(|_| runs.len() > 1).map(|chart| ("loss", chart));
        tensorboard::write(folder, tensorboard::TRAINING, several)?;
        let learning = learning.map(|chart| (training_table(&chart, &curves), chart));
        let page = html::page(&html::Page {
            opening,
            runs,
            sections: &sections,
            histories,
            why_summary,
            why: &why,
            learning,
        })?;
        written.text("report.html", &page)?;
        written.paths.rotate_right(1);
        Ok(written.paths)
    }

    /// What was found out about the one run that is reported, where that is of the training that its rows are of.
    fn explained(&self) -> Result<Option<Explained>> {
        let [run] = self.runs.as_slice() else { return Ok(None) };
        // A run that went on has rows of earlier steps too.
        let last = run.rows.iter().max_by_key(|row| row.step);
        let is_of =
            |it: &Explained| last.is_some_and(|row| row.config_hash == it.config_hash && row.step == it.step);
        Ok(Explained::read(&self.folder)?.filter(is_of))
    }

    /// The one chart that a paper shows, the metric of the first table by length, and how many tables by length it leaves out.
    pub fn figure(&self) -> Result<(Chart, usize)> {
        let blocks = self.blocks();
        let mut by_length = blocks.iter().filter(|block| block.lengths.len() > 1);
        let first = by_length.next().and_then(|block| Some((block, Table::all(block).first()?.metric)));
        let (block, metric) = first.ok_or_else(|| {
            Error::failed(format!("nothing in `{}` was measured at two lengths", self.folder.display()))
                .hint("`longwave eval RUN --lengths L,2L,4L` reads a run at more; a study has `lengths` in its `[[evaluate]]`")
        })?;
        Ok((of_paper(block, metric, &Styles::of(&blocks)), by_length.count()))
    }

    /// Writes the charts as PDF for a paper: those that [`write`](Self::write) draws, under the same names, and
    /// `training.pdf`, the losses of the training, which otherwise stand on the page alone. Gives the paths it wrote.
    pub fn write_figures(&self, folder: &Path, figure: &Figure) -> Result<Vec<PathBuf>> {
        let blocks = self.blocks();
        let styles = Styles::of(&blocks);
        let tables: Vec<Vec<Table>> = blocks.iter().map(Table::all).collect();
        let mut written = Written { folder, paths: Vec::new() };
        let mut write = |name: &str, chart: &Chart| {
            written.file(&format!("{name}.pdf"), &plot::figure(chart, figure, FigureFormat::Pdf)?)
        };
        for named in of_tables(&blocks, &tables, &styles).into_iter().flatten().flat_map(|it| it.charts) {
            write(&named.file, &named.chart)?;
        }
        for (file, reading) in of_readings(&readings(&self.rows)) {
            write(&file, &reading.chart)?;
        }
        for shown in self.explained()?.as_ref().map(explained::tables).unwrap_or_default() {
            if let Some(chart) = &shown.chart {
                write(&shown.file, chart)?;
            }
        }
        if let Some(chart) = training_chart(&training_curves(&self.runs), &blocks, &styles) {
            write("training", &chart)?;
        }
        Ok(written.paths)
    }
}

/// Writes what was found out about runs into a folder of its own: `explained.json`, `explained.csv`, the charts and `report.html`. `command` makes it
/// again. Gives the paths it wrote.
pub fn write_explained(explained: &Explained, command: String, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut written = Written { folder, paths: explained::keep(explained, folder)? };
    let why = explained::tables(explained);
    written.shown(&why)?;
    let recipe = Recipe { sentences: Vec::new(), commands: vec![command], files: Vec::new() };
    let opening = Opening {
        title: explained.runs.join(", "),
        sentences: explained.notes.clone(),
        recipe: Some(recipe),
        ..Opening::default()
    };
    let page = html::Page {
        opening: &opening,
        runs: &[],
        sections: &[],
        histories: Vec::new(),
        why_summary: explained::summary(explained),
        why: &why,
        learning: None,
    };
    written.text("report.html", &html::page(&page)?)?;
    Ok(written.paths)
}

/// The rows without those from before their run was trained further; `None` where there are none of these.
fn newest_of(runs: &[Run], rows: &[ResultRow]) -> Result<Option<Vec<ResultRow>>> {
    let mut older = HashSet::new();
    for it in runs.iter().flat_map(|run| run.newest().older) {
        older.insert(it.row.identity()?);
    }
    if older.is_empty() {
        return Ok(None);
    }
    // A kept step is read along with the end of its training, which may be older.
    let mut newest = Vec::new();
    for row in without_kept_steps(rows) {
        if !older.contains(&row.identity()?) {
            newest.push(row.clone());
        }
    }
    Ok(Some(newest))
}

/// That runs whose end was read were better on validation at an earlier step.
fn earlier_steps(runs: &[Run]) -> Option<String> {
    let earlier: Vec<(&Run, String)> = runs.iter().filter_map(|run| Some((run, run.earlier()?))).collect();
    let (run, sentence) = earlier.first()?;
    let said = match (runs.len(), earlier.len()) {
        (1, _) => format!("{}{}", sentence[..1].to_uppercase(), &sentence[1..]),
        (_, 1) => format!("Of `{}`, {sentence}", run.name),
        (all, some) => format!(
            "{some} of {all} runs were better on validation at an earlier step; of `{}`, {sentence}",
            run.name
        ),
    };
    Some(format!("{said}. `evaluate.checkpoints = \"best\"` reads it, and `train.patience` stops in time."))
}

fn no_results(folder: &Path, runs: &[Run]) -> Error {
    let what = if runs.is_empty() { "is no `results.jsonl`" } else { "are no results" };
    Error::failed(format!("there {what} in `{}` or in the folders below it", folder.display()))
        .hint("train with an `[[evaluate]]` block, or measure a trained run with `longwave eval RUN`")
}

fn markdown<'a>(
    title: &str,
    notes: &[String],
    tables: &[Table],
    grids: impl Iterator<Item = &'a Grid>,
) -> String {
    let tables: Vec<String> = tables.iter().map(Table::markdown).chain(grids.map(Grid::markdown)).collect();
    let title = format!("## Results of {}", markdown_text(title));
    let before = std::iter::once(&title).chain(notes).map(String::as_str).collect::<Vec<_>>().join("\n\n");
    format!("{before}\n\n{}", tables.join("\n"))
}

struct Written<'a> {
    folder: &'a Path,
    paths: Vec<PathBuf>,
}

impl Written<'_> {
    fn text(&mut self, name: &str, text: &str) -> Result<()> {
        self.file(name, text.as_bytes())
    }

    fn file(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.folder.join(name);
        file::write(&path, bytes)?;
        self.paths.push(path);
        Ok(())
    }

    fn shown(&mut self, shown: &[Shown]) -> Result<()> {
        let charts = shown.iter().filter_map(|shown| Some((&shown.file, shown.chart.as_ref()?)));
        charts.into_iter().try_for_each(|(file, chart)| self.picture(file, chart))
    }

    fn picture(&mut self, name: &str, chart: &Chart) -> Result<()> {
        self.text(&format!("{name}.svg"), &svg(chart)?)?;
        let path = self.folder.join(format!("{name}.png"));
        write_png(chart, &path)?;
        self.paths.push(path);
        Ok(())
    }
}

fn readings(rows: &[ResultRow]) -> Vec<Reading> {
    histories(rows).iter().flat_map(History::readings).collect()
}

#[cfg(test)]
mod contrast;
#[cfg(test)]
mod tests;
