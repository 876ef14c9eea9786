//! Evaluation protocols, metrics and the rows of `results.jsonl`.
//!
//! From a block of a config to its rows:
//! - [`block`]: one `[[evaluate]]` block with its defaults filled in; [`evaluation`]: the block with its extensions;
//!   [`sweep`], [`search`]: hyper-parameters that are lists, or searched for; `combinations`: one table for every item of a list; [`windows`]: warnings about windows that
//!   hide nothing; [`task_keys`]: other values for keys of the run's task.
//! - [`applicability`]: which readings a model allows.
//! - [`mod@select`]: decides sweeps and searches on the validation split.
//! - [`protocols`]: which windows are read and which of their tokens are scored; [`plan`]: those windows;
//!   [`source`], [`text`]: the documents of a split, or text made from them; [`sample`]: some windows of them;
//!   [`parts`]: blocks of the one document that a split has;
//!   [`memory_check`]: whether a reading fits in memory.
//! - [`scorer`]: the losses of the targets of a plan; [`metrics`]: sums per document, and the values of a row;
//!   [`bigram`]: losses by where a bigram was last seen; [`statistics`]: means, paired differences, standard errors.
//! - [`scored_tokens`], [`key_tokens`]: all tokens of a protocol, or those that only a long context makes likely;
//!   [`key_choice`]: a reference run chooses them.
//! - [`measure`]: every extension at every length, and the window baseline; `known`: what is measured already.
//! - [`diagnostics`]: what a trained model does with a long text, and why it breaks.
//! - [`row`]: one line of `results.jsonl`, and the file itself; [`fields`]: the fields that every row and block has;
//!   [`reference`](mod@reference): differences between readings; [`label`]: labels of extensions; [`token_log`]: the loss of every scored token as a file.

// A test fails by a panic, and holds numbers that are exact.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests may panic and be exact"))]

pub mod applicability;
pub mod bigram;
pub mod block;
pub mod column;
mod combinations;
pub mod diagnostics;
pub mod evaluation;
mod extend_schema;
pub mod fields;
pub mod key_choice;
pub mod key_tokens;
mod known;
pub mod label;
pub mod measure;
pub mod memory_check;
pub mod metrics;
mod number;
pub mod parts;
pub mod plan;
pub mod protocols;
pub mod reference;
pub mod row;
pub mod sample;
pub mod scored_tokens;
pub mod scorer;
pub mod search;
pub mod select;
pub mod source;
pub mod statistics;
pub mod sweep;
pub mod task_keys;
pub mod text;
pub mod token_log;
pub mod untrained;
pub mod windows;

pub use applicability::{Applicable, Obstacle, applicable, obstacles};
pub use bigram::{BigramRow, LastSeen};
pub use block::{EvaluateConfig, ResolvedEvaluate};
pub use evaluation::{Evaluation, notes_of_other_texts};
pub use key_tokens::KeyTokens;
pub use longwave_core::registry::Registered;
pub use longwave_data::{Scoring, Split};
pub use longwave_train::{Run, Validated};
pub use measure::{Subject, evaluate};
pub use metrics::{DocumentSums, Metric, PositionRow, PositionTally, Score, Tally};
pub use parts::Parts;
pub use plan::{Plan, WINDOW_BASELINE, Window};
pub use protocols::Protocol;
pub use reference::Reference;
pub use row::{ReferenceDifference, ResultRow, Settings};
pub use sample::Sample;
pub use scored_tokens::ScoredTokens;
pub use scorer::Scorer;
pub use select::{Selection, check, select};
pub use source::Source;
pub use statistics::{Mean, paired_difference};
pub use task_keys::TaskKeys;
pub use text::Text;
pub use token_log::TokenLog;
