//! What `longwave inspect` shows: the list of encodings and extensions, and pictures of one encoding.
//!
//! - [`catalog`]: every encoding and every extension, with what their files state and what their hooks do.
//! - [`tables`]: the catalog as the two Markdown tables of the reference in `docs`.
//! - [`charts`]: the same as charts and heat maps, and a page that shows them.
//! - [`typeset`]: the formulas of encodings and extensions as HTML.
//! - [`picture`]: one encoding, as trained and as an extension reads it, as numbers and as text.
//! - [`attention`]: where a trained model attends on some text.

// A test fails by a panic, and holds numbers that are exact.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests may panic and be exact"))]

pub mod attention;
pub mod catalog;
pub mod charts;
pub mod picture;
pub mod tables;
pub mod typeset;

pub use attention::Attention;
pub use picture::{Detail, ModelPart, Picture, View, pictures};
