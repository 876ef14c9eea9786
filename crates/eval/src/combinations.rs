//! Keys whose values are lists, as one table for every combination of their items.

use longwave_core::{Result, written};
use toml::{Table, Value};

pub(crate) fn combinations(table: &Table, lists: &[(&String, &Vec<Value>)]) -> Vec<Table> {
    let mut tables = vec![table.clone()];
    for (key, items) in lists {
        let with = |table: &Table, item: &Value| {
            let mut table = table.clone();
            table.insert((*key).clone(), item.clone());
            table
        };
        tables = tables.iter().flat_map(|table| items.iter().map(move |item| with(table, item))).collect();
    }
    tables
}

/// A value as JSON, for rows.
pub(crate) fn as_json(value: &(impl serde::Serialize + ?Sized)) -> Result<serde_json::Value> {
    written::json_value("an extension", &value)
}
