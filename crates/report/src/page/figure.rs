//! The figures of the page: charts, and heat maps of tables.

use super::elements::{ROW_HEADER, cell, is_baseline, number_class, push_table};
use crate::plot::{Chart, inline};
use crate::table::{Cell, Table, TableRow, is_chance};
use longwave_core::Result;
use longwave_core::text::{html as escape, is_invisible};
use longwave_eval::Metric;
use serde_json::Value;
use std::fmt::Write as _;

/// Steps of a heat map's colours; the style sheet has as many.
pub(super) const STEPS: usize = 7;
/// A larger multiple of the smallest value has the last colour, where values are compared by their ratios.
const MOST: f64 = 50.0;
/// The colours of such values reach at least so far: a difference that is no more than noise is not dark.
const LEAST: f64 = 1.2;

/// A chart below a heading that says `title` and `setting` already.
pub(super) fn push_chart(text: &mut String, chart: &Chart, title: &str, setting: &str) -> Result<()> {
    let inline = inline(chart)?;
    *text += "<figure class=\"chart\">\n";
    push_caption(text, chart, title, setting);
    let name = if chart.title.is_empty() { title } else { &chart.title };
    let label = format!("Chart: {name}: {} by {}", chart.y.label, chart.x.label);
    *text += "<div class=\"plot\">\n";
    for (drawing, class) in inline.drawings.iter().zip(["wide-screen", "narrow"]) {
        let _ = writeln!(
            text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" viewBox=\"{}\" data-frame=\"{}\" role=\"img\" \
             aria-label=\"{}\">\n{}</svg>",
            drawing.view_box,
            drawing.frame,
            escape(&label),
            drawing.content
        );
    }
    *text += "</div>\n<ul class=\"legend\">\n";
    for (index, key) in &inline.keys {
        let name = escape(&chart.series[*index].name);
        let _ = writeln!(text, "<li data-series=\"{index}\"><span class=\"name\">{key}{name}</span></li>");
    }
    *text += "</ul>\n";
    if inline.leaves_scale {
        *text += "<p class=\"note\">↑ leaves the scale</p>\n";
    }
    let _ = writeln!(text, "<script type=\"application/json\">{}</script>\n</figure>", json(&inline.values));
    Ok(())
}

/// What the heading of the section does not say.
fn push_caption(text: &mut String, chart: &Chart, title: &str, setting: &str) {
    let mut parts = Vec::new();
    if !chart.title.is_empty() && chart.title != title {
        parts.push(format!("<strong>{}</strong>", escape(&chart.title)));
    }
    let subtitle = Some(&chart.subtitle).filter(|it| !it.is_empty() && *it != setting);
    parts.extend(subtitle.into_iter().chain(&chart.note).map(|part| escape(part)));
    if !parts.is_empty() {
        let _ = writeln!(text, "<figcaption>{}</figcaption>", parts.join("<br>\n"));
    }
}

/// JSON as it may stand in a script element: nothing in it ends the element.
fn json(values: &Value) -> String {
    let mut text = String::new();
    for character in values.to_string().chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(character));
            }
            other if is_invisible(other) => text.push(char::REPLACEMENT_CHARACTER),
            other => text.push(other),
        }
    }
    text
}

/// A heat map of a table's values, readings down and lengths across, where there are two of each at least and all compare.
pub(super) fn push_heat(text: &mut String, table: &Table) {
    if !table.compares {
        return;
    }
    let own = |index: &usize| {
        let cells = || table.rows.iter().filter_map(|row| row.cells[*index].as_ref());
        cells().next().is_some() && cells().all(|cell| cell.metric == table.metric)
    };
    let columns: Vec<usize> = (0..table.columns.len()).filter(own).collect();
    // Of several runs each has a baseline and a chance, which the table shows.
    let has_runs = table.label_headers.len() > 1;
    let is_aside = |row: &TableRow| has_runs && (is_baseline(row) || is_chance(row));
    let rows: Vec<&TableRow> = table.rows.iter().filter(|row| !is_aside(row)).collect();
    let Some(scale) =
        Scale::of(table.metric, &rows, &columns).filter(|_| columns.len() > 1 && rows.len() > 1)
    else {
        return;
    };
    // Where all runs are read in one way, their names say enough.
    let is_one_reading = has_runs && rows.iter().all(|row| row.labels.last() == rows[0].labels.last());
    let labels = if is_one_reading { 1 } else { table.label_headers.len() };
    let metric = table.metric.title();
    let better = table.metric.better().map_or(String::new(), |which| format!(", {which} is better"));
    let _ = writeln!(
        text,
        "<figure class=\"heat\">\n<figcaption>Heat map: {}{better}</figcaption>",
        escape(&metric.to_lowercase()),
    );
    let first = table.label_headers[..labels].join(": ");
    let names = columns.iter().map(|column| table.columns[*column].as_str());
    let columns_of =
        std::iter::once(("", first.as_str())).chain(names.map(|name| (number_class(name), name)));
    let rows = rows.iter().map(|row| ("", heat_row(&row.labels[..labels], row, &columns, &scale)));
    push_table(text, &format!("Heat map: {}", table.title), columns_of, rows);
    push_scale(text, table.metric, &scale);
    *text += "</figure>\n";
}

fn heat_row(labels: &[String], row: &TableRow, columns: &[usize], scale: &Scale) -> String {
    let of = |column: &usize| match &row.cells[*column] {
        None => cell("td", "", "–"),
        Some(of) => {
            let class = scale.step(of.value).map_or(String::new(), |step| format!("h{step}"));
            cell("td", &class, &of.metric.shown(of.value, None).0)
        }
    };
    cell(ROW_HEADER, "", &escape(&labels.join(": "))) + &columns.iter().map(of).collect::<String>()
}

fn push_scale(text: &mut String, metric: Metric, scale: &Scale) {
    *text += "<ul class=\"scale\" aria-label=\"Colours\">\n";
    for step in 0..STEPS {
        let shown = |end: f64| metric.shown(end, None).0;
        let (low, high) = (shown(scale.end(step)), shown(scale.end(step + 1)));
        let words = if step + 1 == STEPS { format!("{low} and more") } else { format!("{low} to {high}") };
        let _ = writeln!(text, "<li class=\"h{step}\">{words}</li>");
    }
    *text += "</ul>\n";
}

/// From values to colours: equal ratios of what is exponential, equal differences of everything else.
struct Scale {
    is_log: bool,
    low: f64,
    high: f64,
}

impl Scale {
    /// `None` where there are no two different values.
    fn of(metric: Metric, rows: &[&TableRow], columns: &[usize]) -> Option<Self> {
        let is_log = metric.is_exponential();
        let cells =
            rows.iter().flat_map(|row| columns.iter().filter_map(|column| row.cells[*column].as_ref()));
        let values: Vec<f64> =
            cells.map(|cell: &Cell| cell.value).filter(|value| value.is_finite()).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = if is_log { low * MOST } else { f64::INFINITY };
        let high = values.iter().copied().filter(|value| *value <= most).fold(low, f64::max);
        let high = if is_log { high.max(low * LEAST) } else { high };
        let of = |value: f64| if is_log { value.ln() } else { value };
        let scale = Self { is_log, low: of(low), high: of(high) };
        (scale.low.is_finite() && scale.high > scale.low).then_some(scale)
    }

    fn step(&self, value: f64) -> Option<usize> {
        let at = if self.is_log { value.ln() } else { value };
        let share = (at - self.low) / (self.high - self.low);
        (!share.is_nan()).then(|| ((share * STEPS as f64) as usize).min(STEPS - 1))
    }

    fn end(&self, step: usize) -> f64 {
        let at = self.low + (self.high - self.low) * step as f64 / STEPS as f64;
        if self.is_log { at.exp() } else { at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ratios_have_equal_steps() {
        let scale = Scale { is_log: true, low: 1f64.ln(), high: 128f64.ln() };
        let steps = [1.0, 1.9, 2.1, 4.1, 65.0, 128.0, 1e9, f64::INFINITY].map(|value| scale.step(value));
        assert_eq!(steps.map(Option::unwrap), [0, 0, 1, 2, 6, 6, 6, 6]);
        assert_eq!(scale.step(f64::NAN), None);
        assert!((scale.end(2) - 4.0).abs() < 1e-9);
    }

    #[test]
    fn json_cannot_end_its_element() {
        let text = json(&serde_json::json!({ "name": "</script><b>&\u{2028}\u{202e}" }));
        assert_eq!(text, "{\"name\":\"\\u003c/script\\u003e\\u003cb\\u003e\\u0026\\u2028\u{fffd}\"}");
    }
}
