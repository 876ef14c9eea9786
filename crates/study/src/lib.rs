//! Studies: grids of encodings, extensions, lengths and seeds, interrupted at will.
//!
//! - [`document`], [`axis`]: a study file, read strictly.
//! - [`plan`]: its runs, each with its identity.
//! - [`store`]: where runs are kept, shared by studies.
//! - [`task`], [`execute()`]: one run as a file, and the processes that do them.
//! - [`launcher`]: hands tasks to Slurm or to any other engine.
//! - [`cost`]: what a plan takes, before it is run.
//! - [`results`], [`mod@write`]: tidy rows, and the files they go to.
//! - [`sample`]: the value of a metric in a row, and its parts by document.
//! - [`statistics`], [`difference`], [`claim`], [`compare`]: differences, and what may be said of them.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::float_cmp))]

pub mod axis;
pub mod claim;
pub mod compare;
pub mod cost;
pub mod difference;
pub mod document;
pub mod execute;
pub mod launcher;
pub mod plan;
pub mod results;
pub mod sample;
pub mod statistics;
pub mod store;
pub mod task;
pub mod write;

pub use document::Study;
pub use execute::execute;
pub use plan::{Job, Plan, Planned};
pub use store::{Failure, Store, Work};
pub use task::Task;
