//! The forms of a table: a grid of texts, which the terminal has in as many parts as it takes.

use super::{Cell, Table, TableRow};
use crate::grid::{Entry, Grid, Header};

impl Table {
    pub fn grid(&self) -> Grid {
        let labels = self.label_headers.iter().map(|header| Header::words(*header));
        let columns = self.columns.iter().map(Header::number);
        let row = |row: &TableRow| {
            let cells =
                row.cells.iter().map(|cell| cell.as_ref().map_or_else(|| Entry::new("-"), Cell::entry));
            row.labels.iter().map(Entry::new).chain(cells).collect()
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
        self.grid().text_cut(self.label_headers.len(), width)
    }
}
