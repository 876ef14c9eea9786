//! The GPT: embedding, pre-norm blocks, head. It knows no positional encoding by name.
//!
//! - [`config`]: `[model]` and the named sizes; [`resolved`]: sizes with nothing left open.
//! - [`gpt`]: the model, from tokens to losses.
//! - [`block`], [`attention`], [`feed_forward`], [`activation`], [`norm`]: its parts.
//! - [`segments`]: a long text in pieces; [`segment_memory`]: what one piece knows of those before.
//! - [`complex_weights`]: linear maps over real numbers or complex ones.
//! - [`canon`]: convolutions before the halves of a block.
//! - [`dropout`]: masks from the run's own random streams.
//! - [`cache`]: a text read piece by piece.
//! - [`generate`]: text sampled from a model.
//! - [`size`]: parameters, FLOPs a token and memory, before anything is trained.

// A test fails by a panic, and holds numbers that are exact.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests may panic and be exact"))]

pub mod activation;
pub mod attention;
pub mod block;
pub mod cache;
pub mod canon;
pub mod complex_weights;
pub mod config;
pub mod dropout;
pub mod feed_forward;
pub mod generate;
pub mod gpt;
pub mod norm;
pub mod resolved;
pub mod segment_memory;
pub mod segments;
pub mod size;
#[cfg(test)]
mod testing;

pub use cache::Cache;
pub use config::{MAX_LAYERS, ModelConfig};
pub use dropout::Dropout;
pub use generate::{Generator, Sampling};
pub use gpt::{Gpt, Pass, Place, Stop, Watch, upload};
pub use segment_memory::SegmentMemory;
pub use size::Size;
