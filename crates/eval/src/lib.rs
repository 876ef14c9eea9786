//! Evaluation protocols, metrics and the rows of `results.jsonl`.
//!
//! - [`document`]: a whole config file.
//! - [`config`]: one `[[evaluate]]` block, checked and with its defaults filled in.
//! - [`protocol`]: which windows of which documents are read, and which of their tokens are scored.
//! - [`entry`], [`choose()`], [`search`]: hyper-parameters given as lists or searched for, decided on the validation
//!   split.
//! - [`evaluate()`]: every extension at every length, and the window baseline.
//! - [`text`]: what is read: the documents of a split, or text made from them.
//! - [`score`]: what a model makes of the targets of a plan.
//! - [`against`]: differences between readings.
//! - [`bigram`]: where the bigram that ends in a token was last seen.
//! - [`memory`]: whether a reading fits, before it starts.
//! - [`metrics`]: sums per document, and what is told of them: perplexity, its error, bits per byte.
//! - [`statistics`]: means over documents, paired differences, and their standard errors.
//! - [`token_log`]: the loss of every scored token as a file.
//! - [`mod@schema`]: the JSON schema of a config.
//! - [`row`]: one line of `results.jsonl`, and the file itself.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::float_cmp))]

pub mod against;
pub mod bigram;
pub mod choose;
pub mod config;
pub mod document;
pub mod entry;
pub mod evaluate;
pub mod memory;
pub mod metrics;
pub mod protocol;
pub mod row;
pub mod schema;
pub mod score;
pub mod search;
pub mod statistics;
pub mod text;
pub mod token_log;
mod windows;

pub use against::Against;
pub use bigram::LastSeen;
pub use choose::{Choice, choose};
pub use config::{EvaluateConfig, Protocol, ResolvedEvaluate, WINDOW_BASELINE};
pub use document::{Config, Evaluation};
pub use evaluate::{Subject, check, evaluate};
pub use longwave_data::Split;
pub use metrics::{PositionTally, Summary, Tally};
pub use protocol::{Plan, Window};
pub use row::{BigramRow, Difference, DocumentSums, PositionRow, ResultRow, Settings};
pub use schema::schema;
pub use score::{Score, Scorer};
pub use statistics::{Mean, paired_difference};
pub use text::{Source, Text};
pub use token_log::TokenLog;
