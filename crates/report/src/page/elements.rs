//! Pieces that tables and figures of the page share.

use crate::table::TableRow;
use longwave_core::text::html as escape;
use std::fmt::Write as _;

pub(super) const ROW_HEADER: &str = "th scope=\"row\"";

/// The classes of a column of numbers: where its header has no space, as a range, it keeps both ends on one line.
pub(super) fn number_class(header: &str) -> &'static str {
    if header.contains(' ') { "number" } else { "number solid" }
}

/// A cell: its element, its classes, and what stands in it as HTML.
pub(super) fn cell(element: &str, class: &str, html: &str) -> String {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let end = element.split(' ').next().unwrap_or(element);
    format!("<{element}{class}>{html}</{end}>")
}

/// A table in a box that scrolls where it is wider than the screen, and that the keyboard reaches. Columns have classes and names,
/// rows classes and [cells](cell).
pub(super) fn push_table<'a>(
    text: &mut String,
    name: &str,
    columns: impl IntoIterator<Item = (&'a str, &'a str)>,
    rows: impl IntoIterator<Item = (&'a str, String)>,
) {
    let head = columns.into_iter().map(|(class, name)| cell("th scope=\"col\"", class, &escape(name)));
    let body = rows.into_iter().map(|(class, cells)| cell("tr", class, &cells) + "\n");
    let _ = writeln!(
        text,
        "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table>\n<thead><tr>{}</tr></thead>\n\
         <tbody>\n{}</tbody></table></div>",
        escape(name),
        head.collect::<String>(),
        body.collect::<String>()
    );
}

/// Whether a line is what a longer context must beat.
pub(super) fn is_baseline(row: &TableRow) -> bool {
    row.labels.last().is_some_and(|label| label.starts_with(longwave_eval::WINDOW_BASELINE))
}
