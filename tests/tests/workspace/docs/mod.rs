//! The documentation says what the program does: generated pages, links, commands and examples.
//!
//! `UPDATE_DOCS=1 cargo test --package longwave-tests --test workspace docs` writes the generated pages again: `docs/src/reference`,
//! the atlas, what holds at the scale of the studies, and the README's figure and table.

mod atlas;
mod commands;
mod committed;
mod examples;
mod front;
mod keys;
mod links;
mod markdown;
mod reference;
mod results;
mod sentences;

use crate::common::PROGRAM;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// What stands below the heading of a generated page.
const GENERATED: &str =
    "<!-- Made by `UPDATE_DOCS=1 cargo test --package longwave-tests --test workspace docs`. -->\n\n";

/// Whether generated pages are to be written again.
fn updates() -> bool {
    env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1")
}

/// Compares a generated page with the file, or writes it.
fn hold(name: &str, text: &str) {
    let path = repository(name);
    if updates() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(there == text, "{name} is not what code and results say: write it again with UPDATE_DOCS=1");
}

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
