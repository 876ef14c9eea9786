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
//! - `files`: where its weights lie, in one file or in several.
//! - `bos`: the beginning-of-text token that its tokenizer's files ask for.
//! - `scaling`: the `rope_parameters` of a model that is extended; `published`: those of one that is imported.
//! - [`torch`]: a folder with a file of `PyTorch` that computes the model.
//! - [`describe()`]: a folder's `config.json` alone.
//! - [`export()`] and [`import()`]: folders.

// A test fails by a panic, and holds numbers that are exact.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests may panic and be exact"))]

pub mod architecture;
mod bos;
mod describe;
mod document;
mod export;
pub mod fields;
mod files;
mod import;
mod published;
mod run_block;
mod scaling;
pub mod tensors;
pub mod torch;
pub mod weights;

pub use architecture::Architecture;
pub use describe::{Description, describe};
pub use export::{Exported, export};
pub use import::{Import, import};
pub use published::Scaled;
