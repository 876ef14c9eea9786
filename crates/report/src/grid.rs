//! A table of texts, and the forms it is written in: aligned text, Markdown, LaTeX and CSV.

use longwave_core::{Error, Result};
use longwave_eval::token_log::quoted;
use std::fmt::Write as _;
use std::str::FromStr;

/// What a table is written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns.
    #[default]
    Text,
    /// A Markdown table under a heading.
    Markdown,
    /// A `table` with a `tabular` in the style of the package booktabs.
    Latex,
    /// Comma-separated values (RFC 4180): every error has a column of its own.
    Csv,
}

impl Format {
    /// All of them by name.
    pub const ALL: [(&str, Self); 4] =
        [("text", Self::Text), ("markdown", Self::Markdown), ("latex", Self::Latex), ("csv", Self::Csv)];
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, format)| *format).ok_or_else(|| {
            longwave_core::config::unknown_kind("--format", name, Self::ALL.iter().map(|(known, _)| *known))
        })
    }
}

/// A table of texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    /// What is shown, in a few words.
    pub title: String,
    /// How it was measured; may be empty.
    pub setting: String,
    /// The columns.
    pub headers: Vec<Header>,
    /// One entry a column.
    pub rows: Vec<Vec<Entry>>,
    /// What else a reader has to know.
    pub notes: Vec<String>,
}

/// The name of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name.
    pub name: String,
    /// Whether its entries are numbers, which are aligned at their right.
    pub is_number: bool,
}

/// One place of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: String,
    /// Its error or spread, or an interval in brackets.
    pub error: Option<String>,
    /// Whether it is the best of its column.
    pub best: bool,
}

impl Entry {
    /// An entry without an error.
    pub fn new(value: impl Into<String>) -> Self {
        Self { value: value.into(), error: None, best: false }
    }

    fn text(&self) -> String {
        let mark = if self.best { "*" } else { "" };
        match &self.error {
            Some(error) => format!("{} {}{mark}", self.value, signed(error)),
            None => format!("{}{mark}", self.value),
        }
    }
}

impl Header {
    /// A column of words.
    pub fn words(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_number: false }
    }

    /// A column of numbers.
    pub fn number(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_number: true }
    }
}

impl Grid {
    /// The table in a format.
    pub fn written(&self, format: Format) -> String {
        match format {
            Format::Text => self.text(),
            Format::Markdown => self.markdown(),
            Format::Latex => self.latex(),
            Format::Csv => self.csv(),
        }
    }

    /// Aligned columns under the title, then the notes.
    pub fn text(&self) -> String {
        self.text_within(None)
    }

    /// The same, words wrapped to a terminal of so many columns; the table itself has its [width](Self::width).
    pub fn text_within(&self, width: Option<usize>) -> String {
        let columns: Vec<Vec<String>> = (0..self.headers.len()).map(|index| self.column(index)).collect();
        let mut text = String::new();
        for part in [&self.title, &self.setting].into_iter().filter(|part| !part.is_empty()) {
            text += &wrapped(part, width);
        }
        text.push('\n');
        text += &side_by_side(columns.iter(), "  ");
        for (index, note) in self.notes.iter().enumerate() {
            text += if index == 0 { "\n" } else { "" };
            text += &wrapped(note, width);
        }
        text
    }

    /// Columns that the widest line of the table itself takes in a terminal.
    pub fn width(&self) -> usize {
        let widths = (0..self.headers.len()).map(|index| self.column(index)[0].chars().count());
        widths.map(|width| width + 2).sum::<usize>().saturating_sub(2)
    }

    /// A column with its header, padded.
    fn column(&self, index: usize) -> Vec<String> {
        let header = &self.headers[index];
        let cells = self.rows.iter().map(|row| row[index].text());
        aligned(std::iter::once(header.name.clone()).chain(cells), header.is_number)
    }

    /// A heading, the table with the best of each column in bold, and notes.
    pub fn markdown(&self) -> String {
        let mut text = format!("### {}\n\n", markdown_text(&self.title));
        if !self.setting.is_empty() {
            let _ = write!(text, "{}.\n\n", markdown_text(&capital(&self.setting)));
        }
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        text += &line(self.headers.iter().map(|header| markdown_text(&header.name)).collect());
        let rule = self.headers.iter().map(|header| if header.is_number { "---:" } else { "---" });
        text += &line(rule.map(str::to_owned).collect());
        for row in &self.rows {
            text += &line(row.iter().map(markdown_entry).collect());
        }
        for note in &self.notes {
            let _ = write!(text, "\n{}.\n", markdown_text(capital(note).trim_end_matches('.')));
        }
        text
    }

    /// A `table` for a paper, to be used with `\usepackage{booktabs}`.
    pub fn latex(&self) -> String {
        let align: String =
            self.headers.iter().map(|header| if header.is_number { 'r' } else { 'l' }).collect();
        let line = |cells: Vec<String>| format!("    {} \\\\\n", cells.join(" & "));
        let headers = line(self.headers.iter().map(|header| latex_text(&header.name)).collect());
        let rows: String = self.rows.iter().map(|row| line(row.iter().map(latex_entry).collect())).collect();
        let mut caption = latex_text(&self.title);
        for part in std::iter::once(&self.setting).chain(&self.notes).filter(|part| !part.is_empty()) {
            let _ = write!(caption, ". {}", latex_text(capital(part).trim_end_matches('.')));
        }
        format!(
            "% needs \\usepackage{{booktabs}}\n\\begin{{table}}\n  \\centering\n  \\caption{{{caption}.}}\n  \
             \\begin{{tabular}}{{{align}}}\n    \\toprule\n{headers}    \\midrule\n{rows}    \\bottomrule\n  \
             \\end{{tabular}}\n\\end{{table}}\n"
        )
    }

    /// Comma-separated values: a line of names, and where a column has errors, one of errors beside it.
    pub fn csv(&self) -> String {
        let has_errors: Vec<bool> = (0..self.headers.len())
            .map(|index| self.rows.iter().any(|row| row[index].error.is_some()))
            .collect();
        let mut names = Vec::new();
        for (header, &errors) in self.headers.iter().zip(&has_errors) {
            names.push(quoted(&header.name));
            if errors {
                names.push(quoted(&format!("{} error", header.name)));
            }
        }
        let mut text = names.join(",") + "\n";
        for row in &self.rows {
            let mut cells = Vec::new();
            for (entry, &errors) in row.iter().zip(&has_errors) {
                cells.push(quoted(if entry.value == "-" { "" } else { &entry.value }));
                if errors {
                    cells.push(quoted(entry.error.as_deref().unwrap_or("")));
                }
            }
            text += &(cells.join(",") + "\n");
        }
        text
    }
}

/// Pads texts to the width of the widest.
pub(crate) fn aligned(texts: impl Iterator<Item = String>, right: bool) -> Vec<String> {
    let texts: Vec<String> = texts.collect();
    let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let pad = |text: String| if right { format!("{text:>width$}") } else { format!("{text:<width$}") };
    texts.into_iter().map(pad).collect()
}

/// The lines of padded columns that are as long as each other.
pub(crate) fn side_by_side<'a>(columns: impl Iterator<Item = &'a Vec<String>> + Clone, gap: &str) -> String {
    let mut text = String::new();
    for line in 0..columns.clone().next().map_or(0, Vec::len) {
        let cells: Vec<&str> = columns.clone().map(|column| column[line].as_str()).collect();
        text += cells.join(gap).trim_end();
        text.push('\n');
    }
    text
}

/// Lines of words, none wider than `width` unless a word is.
pub(crate) fn wrapped(words: &str, width: Option<usize>) -> String {
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

fn is_interval(error: &str) -> bool {
    error.starts_with('[')
}

/// An error with its sign; an interval has none.
pub(crate) fn signed(error: &str) -> String {
    if is_interval(error) { error.to_owned() } else { format!("±{error}") }
}

fn markdown_entry(entry: &Entry) -> String {
    let value = markdown_text(&entry.value);
    let value = if entry.best { format!("**{value}**") } else { value };
    match &entry.error {
        Some(error) => format!("{value} {}", signed(error)),
        None => value,
    }
}

/// A text on one line that ends no cell and begins no HTML element.
pub fn markdown_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '|' => escaped += "\\|",
            '\n' | '\r' => escaped.push(' '),
            '<' if signs.peek().is_some_and(|next| next.is_ascii_alphabetic() || "/!?".contains(*next)) => {
                escaped += "&lt;";
            }
            other => escaped.push(other),
        }
    }
    escaped
}

fn latex_entry(entry: &Entry) -> String {
    let value = latex_text(&entry.value);
    let value = if entry.best { format!("\\textbf{{{value}}}") } else { value };
    match &entry.error {
        Some(interval) if is_interval(interval) => {
            format!("{value} {{\\scriptsize {}}}", latex_text(interval))
        }
        Some(error) => format!("{value} {{\\scriptsize $\\pm$ {}}}", latex_text(error)),
        None => value,
    }
}

/// A text in which no sign has a meaning to LaTeX; signs that its usual fonts lack are commands.
fn latex_text(text: &str) -> String {
    let mut escaped = String::new();
    for sign in text.chars() {
        match sign {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => escaped.extend(['\\', sign]),
            '\\' => escaped += "\\textbackslash{}",
            '~' => escaped += "\\textasciitilde{}",
            '^' => escaped += "\\textasciicircum{}",
            '<' => escaped += "$<$",
            '>' => escaped += "$>$",
            '|' => escaped += "$|$",
            '±' => escaped += "$\\pm$",
            '×' => escaped += "$\\times$",
            '†' => escaped += "$\\dagger$",
            'Δ' | '\u{2206}' => escaped += "$\\Delta$",
            '≤' => escaped += "$\\leq$",
            'α' => escaped += "$\\alpha$",
            'β' => escaped += "$\\beta$",
            'θ' => escaped += "$\\theta$",
            '–' => escaped += "--",
            sign => escaped.push(sign),
        }
    }
    // A minus sign is no hyphen.
    match escaped.strip_prefix('-') {
        Some(number) if number.starts_with(|sign: char| sign.is_ascii_digit()) => format!("$-${number}"),
        _ => escaped,
    }
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        Grid {
            title: "Perplexity of a_b".to_owned(),
            setting: "fixed_target".to_owned(),
            headers: vec![Header::words("extend"), Header::number("128 (L)"), Header::number("Δ at 8L")],
            rows: vec![
                vec![
                    Entry::new("yarn | x"),
                    Entry { value: "12.9".into(), error: Some("0.5".into()), best: true },
                    Entry::new("-0.1"),
                ],
                vec![Entry::new("say \"a,b\""), Entry::new("-"), Entry::new("5%")],
            ],
            notes: vec!["± is a spread".to_owned()],
        }
    }

    #[test]
    fn text_is_aligned() {
        let expected = "Perplexity of a_b\nfixed_target\n\n\
             extend        128 (L)  Δ at 8L\n\
             yarn | x   12.9 ±0.5*     -0.1\n\
             say \"a,b\"           -       5%\n\n± is a spread\n";
        assert_eq!(grid().text(), expected);
        assert_eq!(grid().width(), expected.lines().nth(3).unwrap().chars().count());
    }

    #[test]
    fn markdown_is_a_table() {
        let text = grid().markdown();
        assert!(text.contains("| extend | 128 (L) | Δ at 8L |\n| --- | ---: | ---: |\n"), "{text}");
        assert!(text.contains("| yarn \\| x | **12.9** ±0.5 | -0.1 |"), "{text}");
    }

    #[test]
    fn latex_escapes_what_means_something_to_it() {
        let text = grid().latex();
        assert!(
            text.contains("\\caption{Perplexity of a\\_b. Fixed\\_target. $\\pm$ is a spread.}"),
            "{text}"
        );
        assert!(text.contains("\\begin{tabular}{lrr}"), "{text}");
        assert!(
            text.contains("yarn $|$ x & \\textbf{12.9} {\\scriptsize $\\pm$ 0.5} & $-$0.1 \\\\"),
            "{text}"
        );
        assert!(text.contains("$\\Delta$ at 8L") && text.contains("5\\%"), "{text}");
    }

    #[test]
    fn csv_has_a_column_of_errors_where_there_are_some() {
        assert_eq!(
            grid().csv(),
            "extend,128 (L),128 (L) error,Δ at 8L\nyarn | x,12.9,0.5,-0.1\n\"say \"\"a,b\"\"\",,,5%\n"
        );
    }

    #[test]
    fn formats_are_named() {
        assert_eq!("latex".parse::<Format>().unwrap(), Format::Latex);
        assert!("tex".parse::<Format>().unwrap_err().hint_text().is_some());
    }
}
