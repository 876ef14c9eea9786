//! Holds the project against golden files: float64 inputs and expected outputs.
//!
//! One test walks `tests/golden`, or the folder that `LONGWAVE_GOLDEN` names, so that anyone can hold
//! the project against cases it has never seen. A file without a handler is a failure, not a skip. The
//! files' schema and tolerances are in `tests/golden/README.md`.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod attention;
mod bias;
mod build;
mod diagnostic;
mod embedding;
mod encoded;
mod file;
mod formula;
mod frequency;
mod logits;
mod longppl;
mod protocol;
mod qk;
mod sampling;
mod statistics;

use file::{Case, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// Checks one case of the named file; panics with what differs.
type Check = fn(&str, &Case);

fn handler(file: &File) -> Option<Check> {
    Some(match file.kind.as_str() {
        "attention" => attention::check,
        "bias" => bias::check,
        "diagnostic" => diagnostic::check,
        "embedding" => embedding::check,
        "frequency" => frequency::check,
        "logits" => logits::check,
        "protocol" => protocol::check,
        "qk" => qk::check,
        "sampling" => sampling::check,
        "statistics" => statistics::check,
        _ => return None,
    })
}

#[test]
fn every_golden_file_is_met() {
    let folder = std::env::var_os("LONGWAVE_GOLDEN")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/golden")), PathBuf::from);
    let files = file::read_folder(&folder);
    assert!(!files.is_empty(), "no golden file in {}", folder.display());
    let mut failures = Vec::new();
    let mut cases = 0;
    for file in &files {
        let Some(check) = handler(file) else {
            failures.push(format!("{}: no handler for kind `{}`", file.name, file.kind));
            continue;
        };
        for (index, case) in file.cases.iter().enumerate() {
            cases += 1;
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&file.name, case))) {
                let text = panic
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                    .unwrap_or_default();
                failures.push(format!("{} case {index} {}: {text}", file.name, case.config));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {cases} cases:\n{}", failures.len(), failures.join("\n"));
}
