//! Pieces that tables and figures of the page share.

use crate::table::TableRow;
use longwave_core::text::html as escape;
use std::fmt::Write as _;

/// A class for a header without a space: a range keeps both ends on one line.
pub(super) fn solid(header: &str) -> &'static str {
    if header.contains(' ') { "" } else { " solid" }
}

/// A box that scrolls where the table is wider than the screen, which the keyboard reaches.
pub(super) fn open_table(text: &mut String, name: &str) {
    let _ = write!(
        text,
        "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table>\n<thead><tr>",
        escape(name)
    );
}

pub(super) fn close_table(text: &mut String) {
    *text += "</tbody></table></div>\n";
}

/// Whether a line is what a longer context must beat.
pub(super) fn is_baseline(row: &TableRow) -> bool {
    row.labels.last().is_some_and(|label| label.starts_with(longwave_eval::WINDOW_BASELINE))
}
