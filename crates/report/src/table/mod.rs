//! A block as a table: for the terminal and as Markdown.

mod cell;
mod chance;
mod form;
mod order;
mod positions;
mod words;

use crate::block::{Block, Line, heading, multiple};
use longwave_eval::Metric;
use order::sorted;
use words::{counts, layout, notes};

pub use cell::{Cell, Spread, percent};
pub(crate) use chance::is_chance;
pub use words::across_lengths;
pub(crate) use words::{across, notes_of_errors, text_of};

/// The title of a table names up to so many runs.
const NAMED: usize = 4;

/// A block of results as a table, lengths across and extensions down.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
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
    /// One row per run, extension and way to ask a task; below them what a guess reaches.
    pub rows: Vec<TableRow>,
    pub notes: Vec<String>,
    /// Whether its runs compare with each other; the notes say why where they do not.
    pub compares: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    pub labels: Vec<String>,
    /// One cell per column; `None` where nothing was measured.
    pub cells: Vec<Option<Cell>>,
}

impl Table {
    /// The tables of a block: one for each of its [metrics](Block::metrics), and the loss by position where that was measured.
    pub fn all(block: &Block) -> Vec<Self> {
        let metrics = block.metrics().into_iter().map(|metric| Self::new(block, metric));
        metrics.chain(Self::by_position(block)).collect()
    }

    /// The table of a block for one metric.
    ///
    /// Each run's lines are sorted by it, the best first, at 8L, or at the longest length where that was not read.
    pub fn new(block: &Block, metric: Metric) -> Self {
        let block = &sorted(block, metric);
        let settings = &block.settings;
        let cell =
            |line: &Line, length| Cell::new(metric, line.rows.get(length).map_or(&[][..], Vec::as_slice));
        let cells = |line| block.lengths.iter().map(|length| cell(line, length)).collect();
        let mut rows: Vec<TableRow> = block
            .lines
            .iter()
            .map(|line| TableRow { labels: labels(block, line), cells: cells(line) })
            .collect();
        mark_best(block, &mut rows);
        let mut columns: Vec<String> =
            block.lengths.iter().map(|&length| heading(length, settings.train_length)).collect();
        columns.extend(push_differences(block, &mut rows, metric));
        rows.extend(chance::rows(block, metric));
        leave_out_other_errors(&mut rows);
        let (of, text) = (runs_of(block), text_of(block));
        Self {
            metric,
            title: format!("{} of {of}: {}{text}", metric.title(), settings.protocol),
            setting: format!("{}; {}", layout(settings), counts(block)),
            label_headers: label_headers(block),
            columns,
            notes: notes(block, &rows, metric),
            compares: block.compares(metric),
            rows,
        }
    }
}

/// Adds a column with the difference at the longest length, of every row that holds one, seed by seed; returns its
/// header where any does.
fn push_differences(block: &Block, rows: &mut [TableRow], metric: Metric) -> Option<String> {
    let longest = block.lengths.last().filter(|_| metric == Metric::Perplexity)?;
    let of_line =
        |line: &Line| Cell::new(Metric::Difference, line.rows.get(longest).map_or(&[][..], Vec::as_slice));
    let differences: Vec<Option<Cell>> = block.lines.iter().map(of_line).collect();
    if differences.iter().all(Option::is_none) {
        return None;
    }
    for (row, difference) in rows.iter_mut().zip(differences) {
        row.cells.push(difference);
    }
    Some(format!("\u{394} at {}", multiple(*longest, block.settings.train_length)))
}

/// Where some cells show a spread over seeds, removes the errors of those of one seed, which are over documents.
pub(crate) fn leave_out_other_errors(rows: &mut [TableRow]) {
    let cells = || rows.iter().flat_map(|row| row.cells.iter().flatten());
    if cells().any(|cell| cell.seeds > 1) {
        for cell in rows.iter_mut().flat_map(|row| row.cells.iter_mut().flatten()) {
            cell.error = cell.error.filter(|_| cell.seeds > 1);
        }
    }
}

fn runs_of(block: &Block) -> String {
    match block.runs().as_slice() {
        [run] => block.run_label(run),
        runs if runs.len() > NAMED => format!("{} models", runs.len()),
        runs => runs.join(", "),
    }
}

fn label_headers(block: &Block) -> Vec<&'static str> {
    if block.runs().len() > 1 { vec!["run", "extend"] } else { vec!["extend"] }
}

/// The labels of a line, one for each of [`label_headers`].
fn labels(block: &Block, line: &Line) -> Vec<String> {
    let mark = match (line.is_baseline(), line.chosen) {
        (true, _) => " <",
        (_, true) => " †",
        _ => "",
    };
    let mut labels = vec![format!("{}{mark}", line.label)];
    if block.runs().len() > 1 {
        labels.insert(0, block.run_label(&line.run));
    }
    labels
}

/// Marks the best cell of each run, column and way to ask the task, unless all look alike.
fn mark_best(block: &Block, rows: &mut [TableRow]) {
    let columns = rows.first().map_or(0, |row| row.cells.len());
    let groups =
        block.runs().into_iter().flat_map(|run| block.tasks().into_iter().map(move |task| (run, task)));
    for (run, task) in groups {
        for column in 0..columns {
            let is_of = |line: &Line| line.run == run && line.task == *task;
            let of_run = rows.iter_mut().zip(&block.lines).filter(|(_, line)| is_of(line));
            let cells = of_run
                .filter(|(_, line)| !line.is_baseline())
                .filter_map(|(row, _)| row.cells[column].as_mut())
                .filter(|cell| cell.value.is_finite());
            mark_best_of(cells.collect());
        }
    }
}

fn mark_best_of(cells: Vec<&mut Cell>) {
    // A number that describes a model has no best.
    if cells.first().is_some_and(|cell| cell.metric.better().is_none()) {
        return;
    }
    let better = |a: &Cell, b: &Cell| {
        let order = a.value.total_cmp(&b.value);
        if a.metric.lower_is_better() { order } else { order.reverse() }
    };
    let Some(best) = cells.iter().min_by(|a, b| better(a, b)).map(|cell| cell.texts().0) else {
        return;
    };
    let all_alike = cells.iter().all(|cell| cell.texts().0 == best);
    for cell in cells {
        cell.best = !all_alike && cell.texts().0 == best;
    }
}

#[cfg(test)]
mod tests;
