//! Studies: grids of encodings, extensions, lengths and seeds.
//!
//! - [`statistics`]: differences, and what may be said of them.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::float_cmp))]

pub mod statistics;
