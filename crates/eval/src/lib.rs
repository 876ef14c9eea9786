//! Evaluation protocols, metrics and the rows of `results.jsonl`.
//!
//! - [`document`]: a whole config file.
//! - [`config`]: one `[[evaluate]]` block, checked and with its defaults filled in.
//! - [`protocol`]: which windows of which documents are read, and which of their tokens are scored.
//! - [`entry`], [`choose()`], [`search`]: hyper-parameters given as lists or searched for, decided on the validation
//!   split.
//! - [`evaluate()`]: every extension at every length, and the window baseline.
//! - [`score`]: the losses a model gives the targets of a plan.
//! - [`generate`]: text sampled from a model.
//! - [`memory`]: whether a reading fits, before it starts.
//! - [`metrics`]: sums per document, and what is told of them: perplexity, its error, bits per byte.
//! - [`row`]: one line of `results.jsonl`, and the file itself.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::float_cmp))]

pub mod choose;
pub mod config;
pub mod document;
pub mod entry;
pub mod evaluate;
pub mod generate;
pub mod memory;
pub mod metrics;
pub mod protocol;
pub mod row;
pub mod score;
pub mod search;

pub use choose::{Choice, choose};
pub use config::{EvaluateConfig, Protocol, ResolvedEvaluate, WINDOW_BASELINE};
pub use document::{Config, Evaluation};
pub use evaluate::{Subject, check, evaluate};
pub use longwave_data::Split;
pub use metrics::{PositionTally, Summary, Tally};
pub use protocol::{Plan, Window};
pub use row::{PositionRow, ResultRow, Settings};
