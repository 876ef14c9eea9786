//! What every room of the workspace shares.
//!
//! - [`error`]: the one error type; what a user reads when something is wrong.
//! - [`canonical`]: one text for one JSON value, for hashes and identities.
//! - [`clock`]: the time of day.
//! - [`config`]: strict reading of TOML tables, with errors that name the key.
//! - [`csv`]: lines of comma-separated values.
//! - [`event_file`]: curves for `TensorBoard`.
//! - [`mod@file`]: files that appear whole or not at all.
//! - [`in_order`]: short lists in order of first appearance.
//! - [`line_count`]: how many lines a finished file has.
//! - [`memory_check`]: how much memory there is, and whether it is enough.
//! - [`one_or_many`]: lists that may be written as their only value.
//! - [`random`]: one reproducible random stream per purpose.
//! - [`registry`]: lists to which a program adds entries of its own.
//! - [`sealed_line`]: lines of JSON that carry a checksum.
//! - [`text`]: text from files, made safe to show.
//! - [`written`]: values as JSON or TOML.

// A test fails by a panic, and holds numbers that are exact.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests may panic and be exact"))]

pub mod canonical;
pub mod clock;
pub mod config;
pub mod csv;
pub mod error;
pub mod event_file;
pub mod file;
pub mod in_order;
pub mod line_count;
pub mod memory_check;
pub mod one_or_many;
pub mod random;
pub mod registry;
pub mod sealed_line;
pub mod text;
pub mod written;

pub use error::{Error, Result};
pub use one_or_many::OneOrMany;
