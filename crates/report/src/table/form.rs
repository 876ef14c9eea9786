//! The forms of a table: aligned text, and a grid of texts for all others.

use super::{Cell, Table, TableRow};
use crate::grid::{Entry, Grid, Header};

impl Table {
    /// The table as texts, in every form but that of a terminal.
    pub fn grid(&self) -> Grid {
        let labels = self.label_headers.iter().map(|header| Header::words(*header));
        let columns = self.columns.iter().map(Header::number);
        let row = |row: &TableRow| {
            let labels = row.labels.iter().map(Entry::new);
            labels.chain(row.cells.iter().map(|cell| entry(cell.as_ref()))).collect()
        };
        Grid {
            title: self.title.clone(),
            setting: self.setting.clone(),
            headers: labels.chain(columns).collect(),
            rows: self.rows.iter().map(row).collect(),
            notes: self.notes.clone(),
        }
    }

    /// As Markdown: a heading, the table with the best of each length in bold, and notes.
    pub fn markdown(&self) -> String {
        self.grid().markdown()
    }

    /// As aligned text without colours; the best of each length is marked with `*`.
    ///
    /// Where the lines do not fit into a terminal of `width` columns, errors are left out, and if need be lengths are
    /// told as multiples of the training length alone.
    pub fn terminal(&self, width: Option<usize>) -> String {
        let fits =
            |grid: &String| width.is_none_or(|width| grid.lines().all(|line| line.chars().count() <= width));
        let (mut grid, mut errors) = (self.lines(true, false), true);
        for short in [false, true] {
            if !fits(&grid) {
                (grid, errors) = (self.lines(false, short), false);
            }
        }
        let mut text = format!("{}\n{}\n\n{grid}\n", self.title, self.setting);
        for note in &self.notes {
            text += if !errors && note.starts_with('±') {
                "errors are left out: the terminal is too narrow for them"
            } else {
                note
            };
            text.push('\n');
        }
        text
    }

    /// The lines of the table, with errors or without; `short` headers say no tokens.
    fn lines(&self, errors: bool, short: bool) -> String {
        let mut columns: Vec<Vec<String>> = Vec::new();
        for (index, header) in self.label_headers.iter().enumerate() {
            let labels = self.rows.iter().map(|row| row.labels[index].clone());
            columns.push(aligned(std::iter::once((*header).to_owned()).chain(labels), false));
        }
        for (index, header) in self.columns.iter().enumerate() {
            let cells: Vec<Option<&Cell>> = self.rows.iter().map(|row| row.cells[index].as_ref()).collect();
            let texts = terminal_cells(&cells, errors);
            let header = if short { short_header(header) } else { header };
            columns.push(aligned(std::iter::once(format!("{header} ")).chain(texts), true));
        }
        let mut text = String::new();
        for line in 0..=self.rows.len() {
            let cells: Vec<&str> = columns.iter().map(|column| column[line].as_str()).collect();
            text += cells.join("  ").trim_end();
            text.push('\n');
        }
        text
    }
}

/// `8L` of `1024 (8L)`, and `\u{394}` of `\u{394} at 8L`.
fn short_header(header: &str) -> &str {
    match header.split_once(" (") {
        Some((_, multiple)) => multiple.trim_end_matches(')'),
        None => header.split(' ').next().unwrap_or(header),
    }
}

fn entry(cell: Option<&Cell>) -> Entry {
    let Some(cell) = cell else { return Entry::new("-") };
    let (value, error) = cell.texts();
    Entry { value, error, best: cell.best }
}

/// The cells of a column, values and errors each aligned at their right; the mark has a place of its
/// own.
fn terminal_cells(cells: &[Option<&Cell>], errors: bool) -> Vec<String> {
    let texts: Vec<(String, Option<String>)> =
        cells.iter().map(|cell| cell.map_or_else(|| ("-".into(), None), Cell::texts)).collect();
    let texts: Vec<_> = texts.into_iter().map(|(value, error)| (value, error.filter(|_| errors))).collect();
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
