//! The columns of result files: the one list that CSV and Parquet files, and their reference, follow.

use crate::column::{ColumnInfo, ColumnType};
use crate::fields::{COUNTS, FIRST, LAST};
use crate::metrics::Metric;
use crate::protocols::{self, Unit};

/// The columns of a row in CSV and Parquet files, in order.
pub fn columns() -> Vec<ColumnInfo> {
    let fixed = |list: &[(&'static str, ColumnType, &'static str)]| -> Vec<ColumnInfo> {
        list.iter().map(|&(name, of, meaning)| ColumnInfo { name, of, meaning: meaning.into() }).collect()
    };
    let keys = protocols::keys().into_iter().map(|key| {
        // Descriptions are wrapped, and stand in one line of a table.
        let description = key.description.split_whitespace().collect::<Vec<_>>().join(" ");
        let meaning = match key.unit {
            Unit::Tokens => format!("key of the protocol, in tokens: {description}"),
            Unit::Count => format!("key of the protocol: {description}"),
        };
        ColumnInfo { name: key.name, of: ColumnType::Whole, meaning: meaning.into() }
    });
    let metrics = Metric::all().iter().flat_map(|metric| metric.csv_columns());
    fixed(&FIRST).into_iter().chain(keys).chain(fixed(&COUNTS)).chain(metrics).chain(fixed(&LAST)).collect()
}
