//! Training with its evaluation.

use super::commands::measured;
use super::{Case, may_be_missing};
use crate::common::{Project, set};
use crate::rollback;
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

/// The files that must be the same at the end; the seconds of steps and the memory are not.
pub(super) fn ends(project: &Project) -> BTreeMap<String, Vec<u8>> {
    let mut ends: BTreeMap<String, Vec<u8>> =
        ["runs/small-0/checkpoints/last.safetensors", "runs/small-0/results.jsonl"]
            .into_iter()
            .map(|name| (name.to_owned(), project.read(name)))
            .collect();
    let metrics = project.text("runs/small-0/metrics.jsonl");
    let without_seconds = |line: &str| {
        let mut metric: Value = serde_json::from_str(line).unwrap();
        for key in ["seconds", "checksum"] {
            assert!(metric.as_object_mut().unwrap().remove(key).is_some());
        }
        assert_eq!(
            metric.as_object_mut().unwrap().remove("resident_mib").is_some(),
            cfg!(target_os = "linux")
        );
        metric.to_string() + "\n"
    };
    ends.insert("metrics".to_owned(), metrics.lines().map(without_seconds).collect::<String>().into());
    ends
}

/// The training, in a folder with more changes.
pub(super) fn training(project: Project, changes: &[&str]) -> Case {
    let arguments = [&ARGUMENTS[..], &set(changes)].concat().into_iter().map(str::to_owned).collect();
    Case { project, arguments, ends, may_pass: may_be_missing, kept: measured, clean: "runs" }
}

/// A run that leaves out two batches, each after a checkpoint of its own.
#[test]
fn a_process_that_ends_around_a_rollback_is_made_good() {
    let project = Project::with_program(rollback::PROGRAM);
    let spoiled = rollback::spoiled(&project, &[1, 5]);
    let case = training(project, &[&spoiled, "train.on_non_finite=rollback", "evaluate.extend=direct"]);
    case.check_every("kill", 4, 9);
    case.check_every("fail", 2, 17);
}

#[test]
fn operations_that_fail_once_are_noticed_and_made_good() {
    training(Project::new(), &[]).check_every("fail", 3, 11);
}

#[test]
fn a_process_that_ends_at_an_operation_is_made_good() {
    training(Project::new(), &[]).check_every("kill", 1, 13);
}
