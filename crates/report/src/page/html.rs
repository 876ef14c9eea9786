//! The page: one file, no script, nothing fetched, for light and dark screens and for print.

use super::Opening;
use super::charts::by_name;
use super::folder::Run;
use crate::grid::{Entry, Grid, signed};
use crate::table::{Cell, Table, TableRow};
use longwave_core::text::is_invisible;
use std::fmt::Write as _;

const STYLE: &str = include_str!("style.css");

/// What the page shows.
pub(super) struct Page<'a> {
    pub(super) opening: &'a Opening,
    pub(super) runs: &'a [Run],
    pub(super) sections: &'a [Section<'a>],
    /// How runs read along their training: tables with their charts as SVG.
    pub(super) histories: Vec<(Grid, Option<String>)>,
    /// The chart of the training losses, as SVG.
    pub(super) learning: Option<String>,
}

/// One table of results.
pub(super) struct Section<'a> {
    pub(super) table: &'a Table,
    /// Its charts, as SVG.
    pub(super) pictures: Vec<String>,
    /// Whether it has charts, also where they have nothing to draw.
    pub(super) has_charts: bool,
}

/// The whole page.
pub(super) fn page(page: &Page) -> String {
    let title = escape(&page.opening.title);
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Longwave: {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <header><p class=\"brand\">Longwave report</p><h1>{title}</h1></header>\n"
    );
    for sentence in &page.opening.sentences {
        let _ = writeln!(text, "<p>{}</p>", words(sentence));
    }
    for grid in &page.opening.tables {
        push_grid(&mut text, grid, None);
    }
    for section in page.sections {
        push_section(&mut text, section);
    }
    for (grid, picture) in &page.histories {
        push_grid(&mut text, grid, picture.as_deref());
    }
    if let Some(picture) = &page.learning {
        text += "<section>\n<h2>Training</h2>\n";
        push_picture(&mut text, picture, "Training losses");
        text += "</section>\n";
    }
    push_runs(&mut text, page.runs);
    text += "</main>\n</body>\n</html>\n";
    text
}

/// A table of texts with its heading, its picture and notes.
fn push_grid(text: &mut String, grid: &Grid, picture: Option<&str>) {
    let _ = writeln!(text, "<section>\n<h2>{}</h2>", escape(&grid.title));
    if !grid.setting.is_empty() {
        let _ = writeln!(text, "<p class=\"setting\">{}</p>", words(&grid.setting));
    }
    if let Some(picture) = picture {
        push_picture(text, picture, &grid.title);
    }
    *text += "<div class=\"wide\"><table>\n<thead><tr>";
    for header in &grid.headers {
        let class = if header.is_number { " class=\"number\"" } else { "" };
        let _ = write!(text, "<th scope=\"col\"{class}>{}</th>", escape(&header.name));
    }
    *text += "</tr></thead>\n<tbody>\n";
    for row in &grid.rows {
        *text += "<tr>";
        for (header, entry) in grid.headers.iter().zip(row) {
            let class = if header.is_number { "" } else { " class=\"text\"" };
            let _ = write!(text, "<td{class}>{}</td>", entry_html(entry));
        }
        *text += "</tr>\n";
    }
    *text += "</tbody></table></div>\n";
    for note in &grid.notes {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", words(note));
    }
    *text += "</section>\n";
}

fn entry_html(entry: &Entry) -> String {
    let value = words(&entry.value);
    let value = if entry.best || entry.strong { format!("<strong>{value}</strong>") } else { value };
    let small = |text: &str| format!("<small>{}</small>", escape(text));
    entry.with_errors(value, |error| small(&signed(error)), small)
}

/// A sentence in which names stand between backticks.
fn words(text: &str) -> String {
    let mut parts = text.split('`').map(escape);
    let mut html = parts.next().unwrap_or_default();
    while let Some(name) = parts.next() {
        let pieces = match parts.next() {
            Some(rest) => ["<code>", &name, "</code>", &rest].concat(),
            None => ["`", &name].concat(),
        };
        html += &pieces;
    }
    html
}

fn push_section(text: &mut String, section: &Section) {
    let table = section.table;
    let _ = write!(
        text,
        "<section>\n<h2>{}</h2>\n<p class=\"setting\">{}</p>\n",
        escape(&table.title),
        escape(&table.setting)
    );
    if section.has_charts && section.pictures.is_empty() {
        *text += "<p class=\"note\">There is no finite value to draw.</p>\n";
    }
    // The first picture shows all of the table; further ones are of single runs.
    let (first, further) = section.pictures.split_at(section.pictures.len().min(1));
    for picture in first {
        push_picture(text, picture, &table.title);
    }
    push_table(text, table);
    for picture in further {
        push_picture(text, picture, &table.title);
    }
    *text += "</section>\n";
}

fn push_picture(text: &mut String, picture: &str, label: &str) {
    let svg = picture.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{}\" ", escape(label)), 1);
    let _ = writeln!(text, "<figure>{svg}</figure>");
}

fn push_table(text: &mut String, table: &Table) {
    *text += "<div class=\"wide\"><table>\n<thead><tr>";
    for header in &table.label_headers {
        let _ = write!(text, "<th scope=\"col\">{header}</th>");
    }
    for column in &table.columns {
        let _ = write!(text, "<th scope=\"col\" class=\"number\">{}</th>", escape(column));
    }
    *text += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        push_row(text, row);
    }
    *text += "</tbody></table></div>\n";
    for note in &table.notes {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", escape(note));
    }
}

fn push_row(text: &mut String, row: &TableRow) {
    let baseline = row.labels.last().is_some_and(|label| label.starts_with(longwave_eval::WINDOW_BASELINE));
    *text += if baseline { "<tr class=\"baseline\">" } else { "<tr>" };
    for label in &row.labels {
        let _ = write!(text, "<th scope=\"row\">{}</th>", escape(label));
    }
    for cell in &row.cells {
        let _ = write!(text, "<td>{}</td>", cell_html(cell.as_ref()));
    }
    *text += "</tr>\n";
}

fn cell_html(cell: Option<&Cell>) -> String {
    let Some(cell) = cell else { return "–".into() };
    let (value, error) = cell.texts();
    let value = if cell.best { format!("<strong>{value}</strong>") } else { value };
    match error {
        Some(error) => format!("{value} <small>{}</small>", signed(&error)),
        None => value,
    }
}

/// Where the numbers come from: every run with its machine and config.
fn push_runs(text: &mut String, runs: &[Run]) {
    *text += "<section>\n<h2>Runs</h2>\n<div class=\"wide\"><table>\n<thead><tr>";
    for header in ["run", "encoding", "seed", "L", "step", "config hash", "device", "threads", "version"] {
        let _ = write!(text, "<th scope=\"col\">{header}</th>");
    }
    *text += "</tr></thead>\n<tbody>\n";
    for run in runs {
        push_run(text, run);
    }
    *text += "</tbody></table></div>\n";
    // Runs of one name differ in their seed alone.
    for (name, runs) in by_name(runs) {
        if let Some(config) = runs.iter().find_map(|run| run.config.as_deref()) {
            let (name, config) = (escape(name), escape(config));
            let _ =
                writeln!(text, "<details><summary>Config of {name}</summary><pre>{config}</pre></details>");
        }
    }
    *text += "</section>\n";
}

/// The lines of a folder's runs: one, or several where it pools the rows of several.
fn push_run(text: &mut String, run: &Run) {
    let members = run.members();
    let pooled = members.len() > 1;
    for row in members {
        let name = if pooled { format!("{}: {}", run.name, row.run) } else { run.name.clone() };
        let fields = [
            row.encoding.clone(),
            row.seed.to_string(),
            row.settings.train_length.to_string(),
            row.step.to_string(),
            row.config_hash.chars().take(12).collect(),
            row.device.clone(),
            row.threads.to_string(),
            row.version.clone(),
        ];
        let _ = write!(text, "<tr><th scope=\"row\">{}</th>", escape(&name));
        for field in fields {
            let _ = write!(text, "<td class=\"text\">{}</td>", escape(&field));
        }
        *text += "</tr>\n";
    }
}

/// Text as it may stand in an element or an attribute.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            '\n' | '\t' => escaped.push(character),
            other if is_invisible(other) => escaped.push(char::REPLACEMENT_CHARACTER),
            other => escaped.push(other),
        }
    }
    escaped
}
