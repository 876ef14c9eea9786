//! Trained models in Hugging Face's layout: `config.json`, `model.safetensors`, `tokenizer.json`.
//!
//! A model that computes exactly what a published architecture computes is written as that architecture, so
//! that other tools read it: [`Architecture`] says which. Any other is written as `model_type = "longwave"`
//! under our own names. Either way `config.json` holds the resolved config under the key `longwave`, so that
//! the run comes back whole: the same identity, the same bits.
//!
//! - [`architecture`]: which published architecture a model is, and what stands in the way.
//! - [`fields`]: its `config.json`, read strictly.
//! - [`weights`]: which tensor of ours is which of theirs.
//! - [`tensors`]: the weights in `model.safetensors`.
//! - [`export()`] and [`import()`]: folders.

pub mod architecture;
mod export;
pub mod fields;
mod import;
pub mod tensors;
pub mod weights;

pub use architecture::Architecture;
pub use export::{Exported, export};
pub use import::{Import, import};

use serde::{Deserialize, Serialize};

/// The key of `config.json` that holds the run.
const RUN_KEY: &str = "longwave";

/// The format of what stands under `longwave`. A reader refuses a newer one.
const FORMAT: u32 = 1;

/// What `config.json` holds under `longwave`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunBlock {
    /// [`FORMAT`].
    format: u32,
    /// The run's config, every default written out.
    config: serde_json::Value,
    /// What the checkpoint said about itself.
    checkpoint: crate::checkpoint::Meta,
    /// SHA-256 of `model.safetensors`: other weights are not this run's.
    weights_sha256: String,
}
