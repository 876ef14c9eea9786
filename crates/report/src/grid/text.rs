//! A table as aligned text.

use super::{Entry, Grid, signed};
use longwave_core::text::shown_lines;

impl Grid {
    /// Aligned columns under the title, then the notes.
    pub fn text(&self) -> String {
        self.text_within(None)
    }

    /// The same, words wrapped to a terminal of so many columns; the table itself has its [width](Self::width).
    pub fn text_within(&self, width: Option<usize>) -> String {
        self.framed(&self.lines(), width)
    }

    pub fn lines(&self) -> String {
        let columns: Vec<Vec<String>> = (0..self.headers.len()).map(|index| self.column(index)).collect();
        side_by_side(columns.iter(), "  ")
    }

    /// The same where the columns after the first `labels` have errors and marks that are aligned by themselves, and where lines
    /// that are longer than `width` are cut into several tables.
    pub(crate) fn text_cut(&self, labels: usize, width: Option<usize>) -> String {
        let columns: Vec<Vec<String>> = (0..self.headers.len())
            .map(|index| if index < labels { self.column(index) } else { self.marked_column(index) })
            .collect();
        let (labels, columns) = columns.split_at(labels);
        let cuts = ["  ", " "].map(|gap| Cut::new(labels, columns, gap, width.unwrap_or(usize::MAX)));
        // The wide gap, unless the narrow one saves a table or a line that is too long.
        let [wide, narrow] = &cuts;
        let cut = if narrow.cost() < wide.cost() { narrow } else { wide };
        self.framed(&cut.tables.join("\n"), width)
    }

    /// Title and setting, some lines, and the notes.
    fn framed(&self, lines: &str, width: Option<usize>) -> String {
        let mut text = String::new();
        for part in [&self.title, &self.setting].into_iter().filter(|part| !part.is_empty()) {
            text += &wrapped(part, width);
        }
        text.extend(["\n", lines]);
        for (index, note) in self.notes.iter().enumerate() {
            text += if index == 0 { "\n" } else { "" };
            text += &wrapped(note, width);
        }
        shown_lines(&text).into_owned()
    }

    /// Columns that the widest line of the table itself takes in a terminal.
    pub fn width(&self) -> usize {
        let widths = (0..self.headers.len()).map(|index| self.column(index)[0].chars().count());
        widths.map(|width| width + 2).sum::<usize>().saturating_sub(2)
    }

    fn column(&self, index: usize) -> Vec<String> {
        let header = &self.headers[index];
        let cells = self.rows.iter().map(|row| text_of(&row[index]));
        aligned(std::iter::once(header.name.clone()).chain(cells), header.is_number)
    }

    /// The same, values and errors each aligned at their right; the mark has a place of its own.
    fn marked_column(&self, index: usize) -> Vec<String> {
        let entries = || self.rows.iter().map(|row| &row[index]);
        let error = |entry: &Entry| entry.error.as_deref().map(signed);
        let widest = entries().filter_map(|entry| Some(error(entry)?.chars().count())).max();
        let cells = entries().map(|entry| {
            let (value, mark) = (&entry.value, if entry.best { '*' } else { ' ' });
            let error = error(entry).unwrap_or_default();
            widest.map_or_else(|| format!("{value}{mark}"), |width| format!("{value} {error:<width$}{mark}"))
        });
        aligned(std::iter::once(format!("{} ", self.headers[index].name)).chain(cells), true)
    }
}

/// A table cut into several that fit a width.
struct Cut {
    tables: Vec<String>,
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

fn text_of(entry: &Entry) -> String {
    let mark = if entry.best { "*" } else { "" };
    entry.with_errors(entry.value.clone(), signed, str::to_owned) + mark
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

fn aligned(texts: impl Iterator<Item = String>, right: bool) -> Vec<String> {
    let texts: Vec<String> = texts.collect();
    let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let pad = |text: String| if right { format!("{text:>width$}") } else { format!("{text:<width$}") };
    texts.into_iter().map(pad).collect()
}

/// The lines of padded columns that are as long as each other.
fn side_by_side<'a>(columns: impl Iterator<Item = &'a Vec<String>> + Clone, gap: &str) -> String {
    let mut text = String::new();
    for line in 0..columns.clone().next().map_or(0, Vec::len) {
        let cells: Vec<&str> = columns.clone().map(|column| column[line].as_str()).collect();
        text += cells.join(gap).trim_end();
        text.push('\n');
    }
    text
}

/// Lines of words, none wider than `width` unless a word is.
fn wrapped(words: &str, width: Option<usize>) -> String {
    let (mut text, mut line) = (String::new(), 0);
    for word in words.split(' ') {
        let long = word.chars().count();
        if line > 0 && width.is_some_and(|width| line + 1 + long > width) {
            text.push('\n');
            line = 0;
        } else if line > 0 {
            text.push(' ');
            line += 1;
        }
        text += word;
        line += long;
    }
    text.push('\n');
    text
}
