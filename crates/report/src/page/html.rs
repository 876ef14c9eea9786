//! The page: one file that fetches nothing, for light and dark screens of any width and for print. A script switches
//! series, reads values, sorts and copies; without it the page shows the same.

use super::Opening;
use super::charts::by_name;
use super::elements::{ROW_HEADER, cell, is_baseline, number_class, push_table};
use super::figure::{push_chart, push_heat};
use super::folder::Run;
use super::how::{How, makings};
use super::policy::policy;
use crate::explained::Shown;
use crate::grid::{Entry, Grid, Header, signed};
use crate::plot::Chart;
use crate::table::{Cell, Table, TableRow};
use longwave_core::Result;
use longwave_core::text::{GENERATOR, html as escape};
use longwave_eval::ResultRow;
use std::collections::HashSet;
use std::fmt::Write as _;

pub(super) const STYLE: &str = include_str!("style.css");
pub(super) const SCRIPT: &str = include_str!("script.js");
/// A page of more sections begins with a list of them.
const FEW: usize = 3;
/// Texts of more signs keep room for some words where the screen is narrow.
const LONG: usize = 12;

pub(super) struct Page<'a> {
    pub(super) opening: &'a Opening,
    pub(super) runs: &'a [Run],
    pub(super) sections: &'a [Section<'a>],
    /// How runs read along their training: tables with their charts.
    pub(super) histories: Vec<(Grid, Option<Chart>)>,
    /// What was found out about the run, in sentences and tables.
    pub(super) why_summary: Vec<String>,
    pub(super) why: &'a [Shown],
    pub(super) learning: Option<(Grid, Chart)>,
}

pub(super) struct Section<'a> {
    pub(super) table: &'a Table,
    pub(super) charts: Vec<Chart>,
    /// Whether it has charts, also where they have nothing to draw.
    pub(super) has_charts: bool,
    pub(super) how: How,
}

#[derive(Default)]
struct Body {
    text: String,
    headings: Vec<String>,
}

impl Body {
    fn section(&mut self, heading: &str, write: impl FnOnce(&mut String) -> Result<()>) -> Result<()> {
        self.headings.push(escape(heading));
        let (number, heading) = (self.headings.len(), escape(heading));
        let _ = writeln!(self.text, "<section id=\"section-{number}\">\n<h2>{heading}</h2>");
        write(&mut self.text)?;
        self.text += "</section>\n";
        Ok(())
    }

    fn contents(&self) -> String {
        if self.headings.len() <= FEW {
            return String::new();
        }
        let item = |(number, heading): (usize, &String)| {
            format!("<li><a href=\"#section-{number}\">{heading}</a></li>\n")
        };
        let items: String = (1..).zip(&self.headings).map(item).collect();
        format!("<nav aria-label=\"Contents\"><ul>\n{items}</ul></nav>\n")
    }
}

pub(super) fn page(page: &Page) -> Result<String> {
    let mut body = Body::default();
    for grid in &page.opening.tables {
        body.section(&grid.title, |text| {
            push_grid(text, grid, None)?;
            push_how(text, &How::of_opening(page.opening));
            Ok(())
        })?;
    }
    for section in page.sections {
        body.section(&section.table.title, |text| push_section(text, section))?;
    }
    for (grid, chart) in &page.histories {
        body.section(&grid.title, |text| push_grid(text, grid, chart.as_ref()))?;
    }
    if !page.why_summary.is_empty() {
        body.section("Why", |text| {
            push_sentences(text, &page.why_summary);
            Ok(())
        })?;
    }
    for Shown { grid, chart, .. } in page.why {
        body.section(&grid.title, |text| push_grid(text, grid, chart.as_ref()))?;
    }
    if let Some((grid, chart)) = &page.learning {
        body.section("Training", |text| push_grid(text, grid, Some(chart)))?;
    }
    body.section("How to reproduce", |text| {
        push_recipe(text, page);
        Ok(())
    })?;
    if !page.runs.is_empty() {
        body.section("Runs", |text| {
            push_runs(text, page.runs);
            Ok(())
        })?;
    }
    let title = escape(&page.opening.title);
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         {GENERATOR}\n<title>Longwave: {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <header><p class=\"brand\">Longwave report</p><h1>{title}</h1></header>\n",
        policy(SCRIPT)
    );
    for sentence in &page.opening.sentences {
        let _ = writeln!(text, "<p>{}</p>", words(sentence));
    }
    text += &body.contents();
    text += &body.text;
    let _ = write!(text, "</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n");
    Ok(text)
}

fn push_sentences(text: &mut String, sentences: &[String]) {
    let capital = |sentence: &String| sentence[..1].to_uppercase() + &sentence[1..];
    let items = sentences.iter().map(|it| format!("<li>{}.</li>\n", words(&capital(it))));
    let _ = writeln!(text, "<ul>\n{}</ul>", items.collect::<String>());
}

fn push_grid(text: &mut String, grid: &Grid, chart: Option<&Chart>) -> Result<()> {
    if !grid.setting.is_empty() {
        let _ = writeln!(text, "<p class=\"setting\">{}</p>", words(&grid.setting));
    }
    if let Some(chart) = chart {
        push_chart(text, chart, &grid.title, &grid.setting)?;
    }
    let columns = grid.headers.iter().map(|it| (if it.is_number { "number" } else { "" }, it.name.as_str()));
    let of = |(index, (header, entry)): (usize, (&Header, &Entry))| {
        let is_long = !header.is_number && entry.value.chars().count() > LONG;
        let text = if is_long { "text long" } else { "text" };
        match (index, header.is_number) {
            (0, _) => cell(ROW_HEADER, text, &entry_html(entry)),
            (_, is_number) => cell("td", if is_number { "" } else { text }, &entry_html(entry)),
        }
    };
    let row = |row: &Vec<Entry>| ("", grid.headers.iter().zip(row).enumerate().map(of).collect());
    push_table(text, &grid.title, columns, grid.rows.iter().map(row));
    push_notes(text, &grid.notes);
    Ok(())
}

fn push_notes(text: &mut String, notes: &[String]) {
    for note in notes {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", words(note));
    }
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

fn push_section(text: &mut String, section: &Section) -> Result<()> {
    let table = section.table;
    let _ = writeln!(text, "<p class=\"setting\">{}</p>", escape(&table.setting));
    if section.has_charts && section.charts.is_empty() {
        *text += "<p class=\"note\">There is no finite value to draw.</p>\n";
    }
    // The first chart shows all of the table; further ones are of single runs.
    let (first, further) = section.charts.split_at(section.charts.len().min(1));
    for chart in first {
        push_chart(text, chart, &table.title, &table.setting)?;
    }
    push_heat(text, table);
    push_results(text, table);
    push_how(text, &section.how);
    for chart in further {
        push_chart(text, chart, &table.title, &table.setting)?;
    }
    Ok(())
}

fn push_results(text: &mut String, table: &Table) {
    let columns = table.columns.iter().map(|name| (number_class(name), name.as_str()));
    let labels = table.label_headers.iter().map(|header| ("", *header));
    let row = |row: &TableRow| {
        let labels = row.labels.iter().map(|label| cell(ROW_HEADER, "", &escape(label)));
        let html = |it: &Option<Cell>| it.as_ref().map_or("–".to_owned(), |it| entry_html(&it.entry()));
        let cells = row.cells.iter().map(|it| cell("td", "", &html(it)));
        (if is_baseline(row) { "baseline" } else { "" }, labels.chain(cells).collect())
    };
    push_table(text, &table.title, labels.chain(columns), table.rows.iter().map(row));
    for note in &table.notes {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", escape(note));
    }
}

fn push_how(text: &mut String, how: &How) {
    if let Some(commands) = how.commands() {
        let _ = writeln!(
            text,
            "<details class=\"how\"><summary>How to reproduce this table</summary><pre>{}</pre></details>",
            escape(&commands)
        );
    }
}

/// What measures everything again.
fn push_recipe(text: &mut String, page: &Page) {
    let (sentences, commands) = match &page.opening.recipe {
        Some(recipe) => (recipe.sentences.clone(), recipe.commands.clone()),
        None => makings(page.runs),
    };
    for sentence in sentences {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", words(&sentence));
    }
    if !commands.is_empty() {
        let _ = writeln!(text, "<pre>{}</pre>", escape(&commands.join("\n")));
    }
    for (name, content) in page.opening.recipe.iter().flat_map(|recipe| &recipe.files) {
        push_file(text, name, content);
    }
    // Runs of one name differ in their seed alone.
    for (name, runs) in by_name(page.runs) {
        if let Some(config) = runs.iter().find_map(|run| run.config.as_deref()) {
            push_file(text, &format!("Config of {name}"), config);
        }
    }
}

fn push_file(text: &mut String, name: &str, content: &str) {
    let (name, content) = (escape(name), escape(content));
    let _ = writeln!(text, "<details><summary>{name}</summary><pre>{content}</pre></details>");
}

/// Where the numbers come from: every run with its machine, and how the texts of the runs were read.
fn push_runs(text: &mut String, runs: &[Run]) {
    let columns =
        ["run", "encoding", "seed", "L", "step", "config hash", "text hash", "device", "threads", "version"];
    push_table(text, "Runs", columns.map(|name| ("", name)), runs.iter().flat_map(rows_of));
    let mut seen = HashSet::new();
    for record in runs.iter().filter_map(|run| run.record.as_ref()) {
        if seen.insert((&record.corpus, &record.notes)) {
            let of_text = |note: &String| format!("`{}`: {note}", record.corpus);
            push_notes(text, &record.notes.iter().map(of_text).collect::<Vec<_>>());
        }
    }
}

/// The lines of a folder's runs: one, or several where it pools the rows of several.
fn rows_of<'a>(run: &Run) -> Vec<(&'a str, String)> {
    let members = run.members();
    let pooled = members.len() > 1;
    let short = |hash: &str| hash.chars().take(12).collect::<String>();
    let line = |row: &ResultRow| {
        let name = if pooled { format!("{}: {}", run.name, row.run) } else { run.name.clone() };
        let fields = [
            row.encoding.clone(),
            row.seed.to_string(),
            row.settings.train_length.to_string(),
            row.step.to_string(),
            short(&row.config_hash),
            row.text_hash.as_deref().map_or("–".to_owned(), short),
            row.device.clone(),
            row.threads.to_string(),
            row.version.clone(),
        ];
        let fields = fields.map(|field| cell("td", "text", &escape(&field))).concat();
        ("", cell(ROW_HEADER, "", &escape(&name)) + &fields)
    };
    members.into_iter().map(line).collect()
}
