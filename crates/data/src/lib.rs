//! Corpora, tokenizers, token files and the stateless batch sampler.
//!
//! [`Dataset::open`] turns a [`DataConfig`] into one [`TokenFile`] per split:
//!
//! 1. find the files (a folder, a glob, one file; text, JSON lines or Parquet, also packed) and hash their content;
//! 2. decide which document belongs to which split;
//! 3. train or read the tokenizer;
//! 4. tokenize document by document into a cache folder named after all of the above.
//!
//! A second run with the same content and settings finds the cache folder and starts at once. The
//! files are memory-mapped and every step streams, so a corpus may be larger than memory.
//!
//! A [`TaskConfig`] makes sequences by a rule instead.
//!
//! [`Prompt`] and [`TextStream`] are the way back: tokens of a prompt, and text from sampled tokens.
//!
//! [`batch()`] draws training windows from a token file as a pure function of (seed, step).

// A test fails by a panic.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests may panic"))]

mod batch;
mod build;
pub mod cache;
mod config;
mod corpus;
mod dataset;
mod digest;
mod digits;
mod documents;
mod embedded;
mod examined;
mod grams;
mod guarded;
mod hash;
mod notes;
mod noticed;
mod overlap;
mod overlap_notes;
mod packing;
mod permutation;
mod progress;
mod prompt;
mod reading;
mod record;
mod run_text;
mod split;
mod split_config;
mod split_rule;
mod store;
mod task;
#[cfg(test)]
mod testing;
mod text_stream;
mod tokenizer;
mod tokens;
mod train_bpe;
mod unread_bytes;

pub use batch::{Batch, Sampling, batch};
pub use config::{DataConfig, TokenizerConfig};
pub use corpus::glob_in;
pub use dataset::{Dataset, OtherText};
pub use examined::files_hash;
pub use notes::{MANY_UNKNOWN, Note};
pub use progress::{Progress, Stage};
pub use prompt::Prompt;
pub use record::Record;
pub use run_text::{RunText, Wanted};
pub use split::Split;
pub use split_config::{Part, SplitConfig};
pub use task::{Filler, Questions, Scoring, Sizes, TaskConfig, TaskKind};
pub use text_stream::TextStream;
pub use tokenizer::{Tokenizer, Unread};
pub use tokens::TokenFile;
