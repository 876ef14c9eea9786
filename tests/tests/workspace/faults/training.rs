//! Training with its evaluation.

use super::{Case, may_be_missing};
use crate::common::Project;
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) const ARGUMENTS: [&str; 8] = [
    "train",
    "small.toml",
    "--device",
    "cpu",
    "--set",
    "train.checkpoint_every=2",
    "--resume",
    "--threads=1",
];

/// The files that must be the same at the end; the seconds of steps are not.
pub(super) fn ends(project: &Project) -> BTreeMap<String, Vec<u8>> {
    let mut ends: BTreeMap<String, Vec<u8>> =
        ["runs/small-0/checkpoints/last.safetensors", "runs/small-0/results.jsonl"]
            .into_iter()
            .map(|name| (name.to_owned(), project.read(name)))
            .collect();
    let metrics = String::from_utf8(project.read("runs/small-0/metrics.jsonl")).unwrap();
    let without_seconds = |line: &str| {
        let mut metric: Value = serde_json::from_str(line).unwrap();
        for key in ["seconds", "checksum"] {
            assert!(metric.as_object_mut().unwrap().remove(key).is_some());
        }
        metric.to_string() + "\n"
    };
    ends.insert("metrics".to_owned(), metrics.lines().map(without_seconds).collect::<String>().into());
    ends
}

fn check_every(kind: &str, first: usize, step: usize) {
    let project = Project::new();
    let case =
        Case { project: &project, arguments: &ARGUMENTS, ends, may_pass: may_be_missing, clean: "runs" };
    case.check_every(kind, first, step);
}

#[test]
fn operations_that_fail_once_are_noticed_and_made_good() {
    check_every("fail", 3, 11);
}

#[test]
fn a_process_that_ends_at_an_operation_is_made_good() {
    check_every("kill", 1, 13);
}
