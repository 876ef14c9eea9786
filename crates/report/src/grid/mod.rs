//! A table of texts, and the forms it is written in: aligned text, Markdown, LaTeX and CSV.

mod escape;
mod text;

use escape::{latex_entry, latex_text, markdown_entry};
use longwave_core::text::shown;
use longwave_core::{Error, Result, csv};
use std::fmt::Write as _;
use std::str::FromStr;

pub use escape::markdown_text;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns.
    #[default]
    Text,
    Markdown,
    /// A `table` with a `tabular` in the style of the package booktabs.
    Latex,
    /// Comma-separated values (RFC 4180): every error has a column of its own.
    Csv,
}

impl Format {
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

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    /// What is shown, in a few words.
    pub title: String,
    /// How it was measured; may be empty.
    pub setting: String,
    pub headers: Vec<Header>,
    pub rows: Vec<Vec<Entry>>,
    /// What else a reader has to know.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub name: String,
    /// Whether its entries are numbers, which are aligned at their right.
    pub is_number: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub value: String,
    /// Its error or spread, or an interval in brackets.
    pub error: Option<String>,
    /// Its error over documents where `error` is a spread over seeds, in parentheses; or its interval.
    pub error_over_documents: Option<String>,
    pub best: bool,
    /// Whether it is what the table is read for, such as a verdict.
    pub strong: bool,
}

impl Entry {
    pub fn new(value: impl Into<String>) -> Self {
        Self { value: value.into(), ..Self::default() }
    }

    /// The value in some form, followed by its errors; `form` makes the one with a sign, `plain` the one in parentheses.
    pub(crate) fn with_errors(
        &self,
        value: String,
        form: impl Fn(&str) -> String,
        plain: impl Fn(&str) -> String,
    ) -> String {
        let error = self.error.as_deref().map(form);
        let over_documents = self.error_over_documents.as_deref().map(|error| {
            let is_bare = is_interval(error);
            plain(&if is_bare { error.to_owned() } else { format!("({error})") })
        });
        [Some(value), error, over_documents].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

impl Header {
    pub fn words(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_number: false }
    }

    pub fn number(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_number: true }
    }

    /// The same of a column that is at least so wide as text, whatever stands in it.
    #[must_use]
    pub fn at_least(self, width: usize) -> Self {
        let Self { name, is_number } = self;
        Self {
            name: if is_number { format!("{name:>width$}") } else { format!("{name:<width$}") },
            is_number,
        }
    }
}

impl Grid {
    pub fn of<R: IntoIterator<Item: Into<String>>>(
        headers: impl IntoIterator<Item = Header>,
        rows: impl IntoIterator<Item = R>,
    ) -> Self {
        let rows = rows.into_iter().map(|row| row.into_iter().map(Entry::new).collect());
        Self { headers: headers.into_iter().collect(), rows: rows.collect(), ..Self::default() }
    }

    pub fn written(&self, format: Format) -> String {
        match format {
            Format::Text => self.text(),
            Format::Markdown => self.markdown(),
            Format::Latex => self.latex(),
            Format::Csv => self.csv(),
        }
    }

    /// A heading, the table with the best of each column in bold, and notes.
    pub fn markdown(&self) -> String {
        self.markdown_at(3)
    }

    /// The same, its heading of a level from 1.
    pub fn markdown_at(&self, level: usize) -> String {
        let mut text = format!("{} {}\n\n", "#".repeat(level), markdown_text(&self.title));
        if !self.setting.is_empty() {
            let _ = write!(text, "{}.\n\n", markdown_text(&capital(&self.setting)));
        }
        text += &self.markdown_lines();
        for note in &self.notes {
            let _ = write!(text, "\n{}.\n", markdown_text(capital(note).trim_end_matches('.')));
        }
        text
    }

    pub fn markdown_lines(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.headers.iter().map(|header| markdown_text(&header.name)).collect());
        let rule = self.headers.iter().map(|header| if header.is_number { "---:" } else { "---" });
        text += &line(rule.map(str::to_owned).collect());
        for row in &self.rows {
            text += &line(row.iter().map(markdown_entry).collect());
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

    /// Comma-separated values: a line of names, and where a column has errors, columns of errors beside it.
    pub fn csv(&self) -> String {
        let columns: Vec<Vec<String>> = (0..self.headers.len()).flat_map(|index| self.plain(index)).collect();
        let line = |line: usize| csv::line(columns.iter().map(|column| &column[line]));
        (0..=self.rows.len()).map(line).collect()
    }

    /// A column with its header as CSV has it: the values, and each kind of error that there is.
    fn plain(&self, index: usize) -> Vec<Vec<String>> {
        let name = &self.headers[index].name;
        let column = |name: String, of: fn(&Entry) -> Option<&str>| {
            let entries = self.rows.iter().map(|row| of(&row[index]).unwrap_or(""));
            std::iter::once(name.as_str()).chain(entries).map(|text| shown(text).into_owned()).collect()
        };
        let mut columns =
            vec![column(name.clone(), |entry| Some(&*entry.value).filter(|value| *value != "-"))];
        if self.rows.iter().any(|row| row[index].error.is_some()) {
            columns.push(column(format!("{name} error"), |entry| entry.error.as_deref()));
        }
        if self.rows.iter().any(|row| row[index].error_over_documents.is_some()) {
            let name = format!("{name} error over documents");
            columns.push(column(name, |entry| entry.error_over_documents.as_deref()));
        }
        columns
    }
}

fn is_interval(error: &str) -> bool {
    error.starts_with('[')
}

/// An error with its sign; an interval has none.
pub(crate) fn signed(error: &str) -> String {
    if is_interval(error) { error.to_owned() } else { format!("±{error}") }
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
                    Entry { error: Some("0.5".into()), best: true, ..Entry::new("12.9") },
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
        assert_eq!(latex_text("`a_b` is best"), "\\texttt{a\\_b} is best");
        assert_eq!(latex_text("-0.2 to -0.1, x-1 `"), "$-$0.2 to $-$0.1, x-1 `");
    }

    #[test]
    fn csv_has_a_column_of_errors_where_there_are_some() {
        assert_eq!(
            grid().csv(),
            "extend,128 (L),128 (L) error,Δ at 8L\nyarn | x,12.9,0.5,-0.1\n\"say \"\"a,b\"\"\",,,5%\n"
        );
    }

    #[test]
    fn an_error_over_documents_stands_in_parentheses() {
        let mut grid = grid();
        grid.rows[0][1].error_over_documents = Some("2%".into());
        grid.rows[1][1].error_over_documents = Some("3%".into());
        assert!(grid.text().contains("12.9 ±0.5 (2%)*"), "{}", grid.text());
        assert!(grid.markdown().contains("| **12.9** ±0.5 (2%) |"), "{}", grid.markdown());
        assert!(grid.latex().contains("{\\scriptsize $\\pm$ 0.5} {\\scriptsize (2\\%)}"), "{}", grid.latex());
        let csv = grid.csv();
        assert!(csv.starts_with("extend,128 (L),128 (L) error,128 (L) error over documents,"), "{csv}");
        assert!(csv.contains("yarn | x,12.9,0.5,2%,-0.1\n"), "{csv}");
    }

    #[test]
    fn formats_are_named() {
        assert_eq!("latex".parse::<Format>().unwrap(), Format::Latex);
        assert!("tex".parse::<Format>().unwrap_err().hint_text().is_some());
    }
}
