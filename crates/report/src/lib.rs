//! Tables, plots and the HTML page of one run, or of a folder of runs.
//!
//! - [`block`]: rows of results gathered into what can stand in one table.
//! - [`history`]: how a run reads along its training.
//! - [`newest`]: rows from before a run was trained further, apart from those of today.
//! - [`grid`]: a table of texts as aligned text, Markdown, LaTeX and CSV.
//! - [`table`]: a block as such a table.
//! - [`mod@csv`]: all rows as plain columns, and as CSV.
//! - [`explained`]: what was found out about a trained model.
//! - [`plot`]: charts as SVG and PNG.
//! - `tensorboard`: the same charts for `TensorBoard`.
//! - [`page`]: reads a folder and writes all of it.

// A test fails by a panic, and holds numbers that are exact.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests may panic and be exact"))]

pub mod block;
mod comparable;
pub mod csv;
mod curve;
pub mod explained;
mod file_name;
pub mod grid;
pub mod history;
mod kept_steps;
pub mod newest;
pub mod page;
pub mod plot;
pub mod table;
mod tensorboard;

#[cfg(test)]
mod example;

pub use block::{Block, blocks};
pub use csv::{Column, Tidy};
pub use grid::{Format, Grid};
pub use history::{History, histories};
pub use table::Table;
