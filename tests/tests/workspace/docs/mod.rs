//! The documentation says what the program does: generated pages, links, commands and examples.
//!
//! `UPDATE_DOCS=1 cargo test --package longwave-tests --test workspace docs` writes the pages of `docs/src/reference` again.

mod atlas;
mod commands;
mod examples;
mod keys;
mod links;
mod markdown;
mod reference;

use crate::common::PROGRAM;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// What the program prints.
fn program(arguments: &[&str]) -> String {
    let output = Command::new(PROGRAM).args(arguments).env_remove("COLUMNS").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    // Help names the program by its file.
    String::from_utf8(output.stdout).unwrap().replace("longwave-under-test", "longwave")
}
