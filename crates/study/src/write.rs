//! The files of a study: `results.csv`, `results.parquet`, and `study.md` with its tables.

mod markdown;
mod parquet_file;

use crate::results::Tidy;
use longwave_core::{Result, file};
use serde_json::Value;
use std::path::Path;

pub use markdown::{markdown, tables};

/// Writes a table as comma-separated values (RFC 4180), with a line of names; nothing stands for null.
///
/// # Errors
/// The file cannot be written.
pub fn csv(path: &Path, table: &Tidy) -> Result<()> {
    let mut text = String::new();
    let names: Vec<String> = table.columns.iter().map(|column| quoted(&column.name)).collect();
    text.extend([names.join(",").as_str(), "\n"]);
    for row in 0..table.height() {
        let cells: Vec<String> = table.columns.iter().map(|column| cell(&column.values[row])).collect();
        text.extend([cells.join(",").as_str(), "\n"]);
    }
    file::write(path, text.as_bytes())
}

/// Writes a table as Apache Parquet, one row group, nothing compressed; the same table gives the same
/// bytes.
///
/// # Errors
/// The file cannot be written.
pub fn parquet(path: &Path, table: &Tidy) -> Result<()> {
    file::write(path, &parquet_file::bytes(table)?)
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// A text in quotes where it needs them.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Column;
    use serde_json::json;

    pub(super) fn table() -> Tidy {
        let column = |name: &str, values: Vec<Value>| Column { name: name.to_owned(), values };
        Tidy {
            columns: vec![
                column("label", vec![json!("a,b"), json!("say \"x\"")]),
                column("length", vec![json!(128), Value::Null]),
                column("nll", vec![json!(0.1), json!(2.0)]),
                column("exact", vec![Value::Null, json!(true)]),
                column("stride", vec![Value::Null, Value::Null]),
            ],
        }
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.csv");
        csv(&path, &table()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "label,length,nll,exact,stride\n\"a,b\",128,0.1,,\n\"say \"\"x\"\"\",,2.0,true,\n");
    }
}
