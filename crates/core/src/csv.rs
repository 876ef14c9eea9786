//! Comma-separated values (RFC 4180).

use crate::text::shown;
use serde_json::Value;
use std::borrow::Cow;

/// A line of cells, each in quotes where it needs them.
pub fn line<T: AsRef<str>>(cells: impl IntoIterator<Item = T>) -> String {
    let quoted = |cell: T| match cell.as_ref() {
        cell if cell.contains([',', '"', '\n', '\r']) => format!("\"{}\"", cell.replace('"', "\"\"")),
        cell => cell.to_owned(),
    };
    cells.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

/// A value as a cell: nothing stands for null.
pub fn cell(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => "".into(),
        Value::String(text) => harmless(text),
        other => other.to_string().into(),
    }
}

/// A text whose characters are all shown, and that no spreadsheet takes for a formula: one that begins like a formula, and is no
/// number, has an apostrophe before it.
pub fn harmless(text: &str) -> Cow<'_, str> {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err() {
        format!("'{}", shown(text)).into()
    } else {
        shown(text)
    }
}
