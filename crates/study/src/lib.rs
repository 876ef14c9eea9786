//! Studies: grids of encodings, extensions, lengths and seeds, interrupted at will.
//!
//! Every module uses only modules above it:
//!
//! - `words`: lists in sentences.
//! - [`statistics`]: intervals, tests and corrections, as functions of numbers.
//! - [`schema`](mod@schema): the keys of a study file.
//! - [`best`]: what a study ranks.
//! - [`looks`]: after how many seeds claims are judged.
//! - [`axis`], [`claim`], [`correlation`], [`document`]: a study file, read strictly.
//! - [`applicable`]: the part of the evaluations that applies to a run.
//! - [`plan`]: the runs of a study, each with its identity.
//! - [`saved`]: a study as its folder keeps it.
//! - [`store`]: where runs are kept, shared by studies.
//! - [`stored`]: the stored runs that others go on from.
//! - [`task`], [`execute()`]: one run as a file, and the processes that do the runs.
//! - [`launcher`]: hands tasks to Slurm or to any other engine.
//! - [`cost`]: what a plan takes, before it is run.
//! - [`extensions`]: the names of the extensions that a study reads with.
//! - [`rates`]: the best learning rate of each combination.
//! - [`results`]: the rows of a study, with what each run was.
//! - [`comparable`]: what can be compared with what.
//! - [`sample`], [`difference`]: the value of a metric in a row, and differences paired by seed and document.
//! - [`compare`]: two sides of rows, wherever they were measured alike.
//! - [`declared`]: which claims were there before the first result.
//! - [`judge`]: the verdict on each claim.
//! - [`prediction`]: which metric predicts another.
//! - [`ranking`]: everything that was measured at one length, best first.
//! - [`mod@write`]: the files of a study.

// A test fails by a panic, and holds numbers that are exact.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests may panic and be exact"))]

pub mod applicable;
pub mod axis;
pub mod best;
pub mod claim;
pub mod comparable;
pub mod compare;
pub mod correlation;
pub mod cost;
pub mod declared;
pub mod difference;
pub mod document;
pub mod execute;
pub mod extensions;
pub mod judge;
pub mod launcher;
pub mod looks;
pub mod plan;
pub mod prediction;
pub mod ranking;
pub mod rates;
pub mod results;
pub mod sample;
pub mod saved;
pub mod schema;
#[cfg(test)]
mod simulation;
pub mod statistics;
pub mod store;
pub mod stored;
pub mod task;
mod words;
pub mod write;

pub use document::Study;
pub use execute::execute;
pub use plan::{Job, Plan, Planned};
pub use store::{Failure, Store, Work};
pub use task::StudyTask;
