//! Tests that cross crates, one module a topic: the program as a user starts it, and what several crates promise together.
//!
//! One program, since linking is most of what a test program costs. `cargo test --package longwave-tests --test
//! workspace errors::` runs the tests of one module.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

#[path = "../common/mod.rs"]
mod common;

mod bench;
mod cache;
mod causality;
mod command_line;
mod compare;
mod configs;
mod docs;
mod drop;
mod elsewhere;
mod encodings;
mod errors;
mod explain;
mod extensions;
mod faults;
mod flips;
mod float;
mod fuzz;
mod generate;
mod head_scale;
mod hostile;
mod hub;
mod identities;
mod inspect;
mod installed;
mod integrity;
mod kept_checkpoints;
mod key_tokens;
mod longer;
mod main_job;
mod memory;
mod metrics;
mod model;
mod optimizers;
mod own_encoding;
mod own_measures;
mod patience;
mod precision;
mod protocols;
mod report;
mod resonance;
mod resume;
mod rollback;
mod rope_parameters;
mod search;
mod segments;
mod soak;
mod stages;
mod string;
#[cfg(unix)]
mod study;
mod supply;
mod tasks;
mod temperature;
mod texts;
mod texts_of_files;
mod threads;
mod travel;
mod validated;
mod wrong_inputs;
mod wrong_program;
mod wrong_values;
