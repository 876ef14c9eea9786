//! The forms of a table: aligned text, and a grid of texts for all others.

use super::{Cell, Table, TableRow};
use crate::grid::{Entry, Grid, Header, aligned, side_by_side, signed, wrapped};

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
    /// Where the lines do not fit into a terminal of `width` columns, the table is cut into several: each has the labels
    /// and as many columns as fit, and every value keeps its error. The text around them is wrapped.
    pub fn terminal(&self, width: Option<usize>) -> String {
        let [title, setting] = [&self.title, &self.setting].map(|text| wrapped(text, width));
        let notes: String = self.notes.iter().map(|note| wrapped(note, width)).collect();
        format!("{title}{setting}\n{}\n{notes}", self.lines(width.unwrap_or(usize::MAX)))
    }

    /// The lines of the table, cut where they would be longer than `width`.
    fn lines(&self, width: usize) -> String {
        let labels = self.label_headers.iter().enumerate().map(|(index, header)| {
            let labels = self.rows.iter().map(|row| row.labels[index].clone());
            aligned(std::iter::once((*header).to_owned()).chain(labels), false)
        });
        let labels: Vec<Vec<String>> = labels.collect();
        let columns = self.columns.iter().enumerate().map(|(index, header)| {
            let cells: Vec<Option<&Cell>> = self.rows.iter().map(|row| row.cells[index].as_ref()).collect();
            aligned(std::iter::once(format!("{header} ")).chain(terminal_cells(&cells)), true)
        });
        let columns: Vec<Vec<String>> = columns.collect();
        let cuts = ["  ", " "].map(|gap| Cut::new(&labels, &columns, gap, width));
        // The wide gap, unless the narrow one saves a table or a line that is too long.
        let [wide, narrow] = &cuts;
        let cut = if narrow.cost() < wide.cost() { narrow } else { wide };
        cut.tables.join("\n")
    }
}

/// A table cut into several that fit a width.
struct Cut {
    /// Their lines.
    tables: Vec<String>,
    /// How many are wider all the same.
    too_wide: usize,
}

impl Cut {
    /// Takes as many columns into each table as fit, and one at least.
    fn new(labels: &[Vec<String>], columns: &[Vec<String>], gap: &str, width: usize) -> Self {
        let mut cut = Self { tables: Vec::new(), too_wide: 0 };
        let mut left = columns;
        while cut.tables.is_empty() || !left.is_empty() {
            let grid = |count: usize| side_by_side(labels.iter().chain(&left[..count]), gap);
            let fitting = (1..=left.len()).rev().find(|&count| widest(&grid(count)) <= width);
            cut.too_wide += usize::from(fitting.is_none());
            let count = fitting.unwrap_or(left.len().min(1));
            cut.tables.push(grid(count));
            left = &left[count..];
        }
        cut
    }

    fn cost(&self) -> (usize, usize) {
        (self.too_wide, self.tables.len())
    }
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

fn entry(cell: Option<&Cell>) -> Entry {
    let Some(cell) = cell else { return Entry::new("-") };
    let (value, error) = cell.texts();
    Entry { value, error, best: cell.best, ..Entry::default() }
}

/// The cells of a column, values and errors each aligned at their right; the mark has a place of its
/// own.
fn terminal_cells(cells: &[Option<&Cell>]) -> Vec<String> {
    let texts: Vec<(String, Option<String>)> =
        cells.iter().map(|cell| cell.map_or_else(|| ("-".into(), None), Cell::texts)).collect();
    let signed = |(value, error): (String, Option<String>)| (value, error.map(|error| signed(&error)));
    let texts: Vec<_> = texts.into_iter().map(signed).collect();
    let widest = texts.iter().filter_map(|(_, error)| Some(error.as_ref()?.chars().count())).max();
    texts
        .into_iter()
        .zip(cells)
        .map(|((value, error), cell)| {
            let mark = if cell.is_some_and(|cell| cell.best) { '*' } else { ' ' };
            match (error, widest) {
                (Some(error), Some(width)) => format!("{value} {error:<width$}{mark}"),
                (None, Some(width)) => format!("{value}{:1$}{mark}", "", width + 1),
                (_, None) => format!("{value}{mark}"),
            }
        })
        .collect()
}
