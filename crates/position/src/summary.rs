//! Tables of an encoding's own numbers for `longwave inspect`: its buckets, digits or slopes.

use serde::Serialize;

/// A small table of numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub title: String,
    pub columns: Vec<String>,
    /// One number per column each.
    pub rows: Vec<Vec<f64>>,
}

impl Summary {
    /// A table; every row has a number for each column.
    pub fn new(title: &str, columns: &[&str], rows: Vec<Vec<f64>>) -> Self {
        Self { title: title.to_owned(), columns: columns.iter().map(|&name| name.to_owned()).collect(), rows }
    }
}
