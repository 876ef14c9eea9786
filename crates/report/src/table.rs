//! A block as a table: for the terminal and as Markdown.

mod order;

use crate::block::{Block, Line, multiple};
use crate::metric::Metric;
use longwave_eval::{Protocol, ResultRow, Settings};
use order::{sorted, sorted_by};
use std::fmt::Write as _;

/// The title of a table names up to so many runs.
const NAMED: usize = 4;

/// A block of results as a table, lengths across and extensions down.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What its cells say.
    pub metric: Metric,
    /// What is shown, in a few words.
    pub title: String,
    /// How it was measured: the scored tokens and documents.
    pub setting: String,
    /// Headers of the label columns: `run` (where there are several) and `extend`.
    pub label_headers: Vec<&'static str>,
    /// The lengths, with their multiples of the training length; then, where the window baseline scored
    /// the same tokens, the difference to it at the longest.
    pub columns: Vec<String>,
    /// One row per run and extension.
    pub rows: Vec<TableRow>,
    /// What the marks mean.
    pub notes: Vec<String>,
}

/// One run read with one extension.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    /// One label per label column.
    pub labels: Vec<String>,
    /// One cell per column; `None` where nothing was measured.
    pub cells: Vec<Option<Cell>>,
}

/// One measured value.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// What it says.
    pub metric: Metric,
    /// The value; the mean over seeds where there are several.
    pub value: f64,
    /// Its standard error over documents (of a perplexity `ppl * nll_se`, the delta method), or its
    /// standard deviation over seeds where there are several.
    pub error: Option<f64>,
    /// How many seeds it is the mean of.
    pub seeds: usize,
    /// Whether it is the best of its run and length, the window baseline aside.
    pub best: bool,
}

/// A row's perplexity: infinite where it is too large for a number, NaN where the loss is none.
pub fn perplexity(row: &ResultRow) -> f64 {
    if row.ppl.is_finite() { row.ppl } else { row.nll.exp() }
}

impl Cell {
    /// The cell of the rows of one length, one per seed; `None` where none says it.
    pub fn new(metric: Metric, rows: &[&ResultRow]) -> Option<Self> {
        Self::of(metric, rows.iter().filter_map(|row| metric.measured(row)).collect())
    }

    /// The cell of values with their errors, one per seed.
    fn of(metric: Metric, values: Vec<(f64, Option<f64>)>) -> Option<Self> {
        let seeds = values.len();
        let value = values.iter().map(|(value, _)| value).sum::<f64>() / seeds as f64;
        let error = match values.as_slice() {
            [] => return None,
            [(_, error)] => *error,
            _ => {
                let squares: f64 = values.iter().map(|(other, _)| (other - value).powi(2)).sum();
                Some((squares / (seeds as f64 - 1.0)).sqrt()).filter(|error| error.is_finite())
            }
        };
        Some(Self { metric, value, error, seeds, best: false })
    }

    /// The value, and its error to the same decimal place.
    pub fn texts(&self) -> (String, Option<String>) {
        self.metric.texts(self.value, self.error)
    }
}

impl Table {
    /// The tables of a block, one for each thing to say of its protocol.
    pub fn all(block: &Block) -> Vec<Self> {
        Metric::of(block.settings.protocol).iter().map(|&metric| Self::new(block, metric)).collect()
    }

    /// The table of a block that says one thing.
    ///
    /// Each run's lines are sorted by it, the best first, at 8L, or at the longest length where that was not read.
    pub fn new(block: &Block, metric: Metric) -> Self {
        let block = &sorted(block, metric);
        let settings = &block.settings;
        let runs = block.runs();
        let several = runs.len() > 1;
        let mut rows: Vec<TableRow> =
            block.lines.iter().map(|line| table_row(block, line, several, metric)).collect();
        mark_best(block, &mut rows);
        let mut columns: Vec<String> = block
            .lengths
            .iter()
            .map(|&length| format!("{length} ({})", multiple(length, settings.train_length)))
            .collect();
        columns.extend(push_differences(block, &mut rows, metric));
        let checkpoint = if block.checkpoint == "last" {
            String::new()
        } else {
            format!(", {} checkpoint", block.checkpoint)
        };
        let of = if runs.len() > NAMED { format!("{} models", runs.len()) } else { runs.join(", ") };
        let of = if several { of } else { block.run_label(&of) };
        Self {
            metric,
            title: format!("{} of {of}: {}{}{checkpoint}", metric.name(), settings.protocol, text_of(block)),
            setting: format!("{}; {}", layout(settings), counts(block)),
            label_headers: if several { vec!["run", "extend"] } else { vec!["extend"] },
            columns,
            notes: notes(block, &rows, metric),
            rows,
        }
    }

    /// As Markdown: a heading, the table with the best of each length in bold, and notes.
    pub fn markdown(&self) -> String {
        let mut text = format!("### {}\n\n{}.\n\n|", self.title, capital(&self.setting));
        for header in &self.label_headers {
            let _ = write!(text, " {header} |");
        }
        for column in &self.columns {
            let _ = write!(text, " {column} |");
        }
        text += "\n|";
        text += &" --- |".repeat(self.label_headers.len());
        text += &" ---: |".repeat(self.columns.len());
        for row in &self.rows {
            text += "\n|";
            for label in &row.labels {
                let _ = write!(text, " {} |", label.replace('|', "\\|"));
            }
            for cell in &row.cells {
                let _ = write!(text, " {} |", markdown_cell(cell.as_ref()));
            }
        }
        text.push('\n');
        for note in &self.notes {
            let _ = write!(text, "\n{}.\n", capital(note));
        }
        text
    }

    /// As aligned text without colours; the best of each length is marked with `*`.
    pub fn terminal(&self) -> String {
        let mut columns: Vec<Vec<String>> = Vec::new();
        for (index, header) in self.label_headers.iter().enumerate() {
            let labels = self.rows.iter().map(|row| row.labels[index].clone());
            columns.push(aligned(std::iter::once((*header).to_owned()).chain(labels), false));
        }
        for (index, header) in self.columns.iter().enumerate() {
            let cells: Vec<Option<&Cell>> = self.rows.iter().map(|row| row.cells[index].as_ref()).collect();
            let texts = terminal_cells(&cells);
            columns.push(aligned(std::iter::once(format!("{header} ")).chain(texts), true));
        }
        let mut text = format!("{}\n{}\n\n", self.title, self.setting);
        for line in 0..=self.rows.len() {
            let cells: Vec<&str> = columns.iter().map(|column| column[line].as_str()).collect();
            text += cells.join("  ").trim_end();
            text.push('\n');
        }
        text.push('\n');
        for note in &self.notes {
            text += note;
            text.push('\n');
        }
        text
    }
}

/// Which text was read, as a title ends.
fn text_of(block: &Block) -> String {
    let settings = &block.settings;
    let corpus = block.rows().next().and_then(|row| row.corpus.as_deref()).unwrap_or_default();
    if settings.protocol == Protocol::Task {
        format!(" {corpus}, {} split", settings.split)
    } else if settings.corpus_hash.is_some() {
        format!(", {} split of {corpus}", settings.split)
    } else {
        format!(", {} split", settings.split)
    }
}

/// Adds the difference to the window baseline at the longest length, seed by seed, to every row that has
/// one; gives the column's header where any has.
fn push_differences(block: &Block, rows: &mut [TableRow], metric: Metric) -> Option<String> {
    let longest = block.lengths.last().filter(|_| metric == Metric::Perplexity)?;
    let differences: Vec<Option<Cell>> = block
        .lines
        .iter()
        .map(|line| {
            let baseline = block.lines.iter().find(|other| other.is_baseline() && other.run == line.run)?;
            let (own, its) = (line.rows.get(longest)?, baseline.rows.get(longest)?);
            let difference = |row: &&ResultRow| {
                let other = its.iter().find(|other| other.seed == row.seed)?;
                row.difference(other).map(|difference| (difference.mean, difference.se))
            };
            let values = own.iter().filter_map(difference).collect();
            if line.is_baseline() { None } else { Cell::of(Metric::Difference, values) }
        })
        .collect();
    if differences.iter().all(Option::is_none) {
        return None;
    }
    for (row, difference) in rows.iter_mut().zip(differences) {
        row.cells.push(difference);
    }
    Some(format!("\u{394} at {}", multiple(*longest, block.settings.train_length)))
}

fn table_row(block: &Block, line: &Line, several: bool, metric: Metric) -> TableRow {
    let mark = match (line.is_baseline(), line.chosen) {
        (true, _) => " <",
        (_, true) => " †",
        _ => "",
    };
    let mut labels = vec![format!("{}{mark}", line.label)];
    if several {
        labels.insert(0, block.run_label(&line.run));
    }
    let cell = |length| Cell::new(metric, line.rows.get(length).map_or(&[][..], Vec::as_slice));
    TableRow { labels, cells: block.lengths.iter().map(cell).collect() }
}

/// Marks the best cell of each run and length, unless all are told alike.
fn mark_best(block: &Block, rows: &mut [TableRow]) {
    for run in block.runs() {
        for column in 0..block.lengths.len() {
            let of_run = rows.iter_mut().zip(&block.lines).filter(|(_, line)| line.run == run);
            let cells = of_run
                .filter(|(_, line)| !line.is_baseline())
                .filter_map(|(row, _)| row.cells[column].as_mut())
                .filter(|cell| cell.value.is_finite());
            mark_best_of(cells.collect());
        }
    }
}

fn mark_best_of(cells: Vec<&mut Cell>) {
    let better = |a: &Cell, b: &Cell| {
        let order = a.value.total_cmp(&b.value);
        if a.metric.falls() { order } else { order.reverse() }
    };
    let Some(best) = cells.iter().min_by(|a, b| better(a, b)).map(|cell| cell.texts().0) else {
        return;
    };
    let all_alike = cells.iter().all(|cell| cell.texts().0 == best);
    for cell in cells {
        cell.best = !all_alike && cell.texts().0 == best;
    }
}

/// Which tokens of which windows are scored.
fn layout(settings: &Settings) -> String {
    let number = |value: Option<usize>| value.unwrap_or_default();
    let text = match settings.protocol {
        Protocol::FixedTarget => format!(
            "the last {} tokens of windows of {}, {} apart",
            number(settings.target),
            number(settings.max_length),
            number(settings.window_stride)
        ),
        Protocol::NonOverlapping => "windows side by side".into(),
        Protocol::Sliding => format!("windows that advance by {} tokens", number(settings.stride)),
        Protocol::ByPosition => "full windows side by side".into(),
        Protocol::RepeatedText => {
            let passage = number(settings.passage);
            format!("the last copy of passages of {passage} tokens, repeated to the length")
        }
        Protocol::Task => "new sequences, as long as fits; the answers are scored".into(),
    };
    match settings.windows_per_document {
        Some(limit) => format!("{text}, up to {limit} of each document"),
        None => text,
    }
}

/// Scored tokens and documents per cell, and the documents skipped.
fn counts(block: &Block) -> String {
    let task = block.settings.protocol == Protocol::Task;
    let range = |of: fn(&ResultRow) -> u64| {
        let (least, most) = block.rows().map(of).fold((u64::MAX, 0), |(a, b), n| (a.min(n), b.max(n)));
        if least == most { most.to_string() } else { format!("{least} to {most}") }
    };
    let documents = |of: fn(&ResultRow) -> u64| match (range(of), task) {
        (count, true) => format!("{count} sequences"),
        (count, _) if count == "1" => "1 document".to_owned(),
        (count, _) => format!("{count} documents"),
    };
    if task {
        return format!(
            "{} tokens of {} scored per cell",
            range(|row| row.tokens),
            documents(|row| row.documents as u64)
        );
    }
    format!(
        "{} tokens of {} scored per cell, {} too short",
        range(|row| row.tokens),
        documents(|row| row.documents as u64),
        documents(|row| row.skipped_documents as u64)
    )
}

fn notes(block: &Block, rows: &[TableRow], metric: Metric) -> Vec<String> {
    let cells: Vec<&Cell> = rows.iter().flat_map(|row| row.cells.iter().flatten()).collect();
    let seeds = cells.iter().map(|cell| cell.seeds).max().unwrap_or(0);
    let mut notes = Vec::new();
    if seeds > 1 {
        notes.push(format!(
            "± is one standard deviation over seeds (up to {seeds} per cell; none for one seed)"
        ));
    } else if cells.iter().any(|cell| cell.error.is_some()) {
        let of = if block.settings.protocol == Protocol::Task { "sequences" } else { "documents" };
        notes.push(format!("± is one standard error over {of}"));
    }
    if cells.iter().any(|cell| cell.best) {
        let of = if block.runs().len() > 1 { "each run and length" } else { "each length" };
        notes.push(format!("the best of {of} is marked, the window baseline aside"));
    }
    if block.lines.len() > 1 {
        let length = sorted_by(block);
        let multiple = multiple(length, block.settings.train_length);
        notes.push(format!("sorted by the {} at {length} ({multiple})", metric.in_words()));
    }
    if block.lines.iter().any(Line::is_baseline) {
        let length = block.settings.train_length;
        notes.push(format!(
            "< window_baseline reads the last L = {length} tokens only: what a longer context must beat"
        ));
    }
    if block.lines.iter().any(|line| line.chosen) {
        notes.push("† its values were chosen by the loss on the validation split".into());
    }
    if let (true, Some(longest)) =
        (cells.iter().any(|cell| cell.metric == Metric::Difference), block.lengths.last())
    {
        notes.push(format!(
            "\u{394} is the loss at {longest} tokens minus that of window_baseline, in nats per token, paired by \
             document"
        ));
    }
    notes
}

fn markdown_cell(cell: Option<&Cell>) -> String {
    let Some(cell) = cell else { return "-".into() };
    let (value, error) = cell.texts();
    let value = if cell.best { format!("**{value}**") } else { value };
    match error {
        Some(error) => format!("{value} ±{error}"),
        None => value,
    }
}

/// The cells of a column, values and errors each aligned at their right; the mark has a place of its
/// own.
fn terminal_cells(cells: &[Option<&Cell>]) -> Vec<String> {
    let texts: Vec<(String, Option<String>)> =
        cells.iter().map(|cell| cell.map_or_else(|| ("-".into(), None), Cell::texts)).collect();
    let widest = texts.iter().filter_map(|(_, error)| error.as_ref().map(String::len)).max();
    texts
        .into_iter()
        .zip(cells)
        .map(|((value, error), cell)| {
            let mark = if cell.is_some_and(|cell| cell.best) { '*' } else { ' ' };
            match (error, widest) {
                (Some(error), Some(width)) => format!("{value} ±{error:<width$}{mark}"),
                (None, Some(width)) => format!("{value}{:1$}{mark}", "", width + 2),
                (_, None) => format!("{value}{mark}"),
            }
        })
        .collect()
}

/// Pads texts to the width of the widest.
fn aligned(texts: impl Iterator<Item = String>, right: bool) -> Vec<String> {
    let texts: Vec<String> = texts.collect();
    let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let pad = |text: String| if right { format!("{text:>width$}") } else { format!("{text:<width$}") };
    texts.into_iter().map(pad).collect()
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
