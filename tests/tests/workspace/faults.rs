//! Every operation on a file fails once, or ends the process: the same command then goes on, and ends with the same bits.
//!
//! A sample of the operations; `LONGWAVE_FAULTS=all` takes every one of them.

use crate::common::{Outcome, PROGRAM, Project};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const LAST: &str = "runs/small-0/checkpoints/last.safetensors";
const ARGUMENTS: [&str; 8] = [
    "train",
    "small.toml",
    "--device",
    "cpu",
    "--set",
    "train.checkpoint_every=2",
    "--resume",
    "--threads=1",
];

/// Trains and evaluates; `fault` says which operation fails or ends the process, and gives what was done there.
fn run(project: &Project, fault: Option<(&str, usize)>) -> (Outcome, Option<String>) {
    let mark = project.path("mark");
    let mut command = Command::new(PROGRAM);
    if let Some((kind, at)) = fault {
        command.env("LONGWAVE_FAULT", format!("{kind}:{at}:{}", mark.display()));
    }
    let output = command
        .args(ARGUMENTS)
        .current_dir(project.path(""))
        .env("NO_COLOR", "1")
        .env("LONGWAVE_CACHE", project.path(".cache"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let outcome = Outcome {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    };
    let done = fs::read_to_string(&mark).ok();
    let _ = fs::remove_file(mark);
    (outcome, done)
}

/// The files that must be the same at the end; the seconds of steps are not.
fn ends(project: &Project) -> (Vec<u8>, Vec<u8>, Vec<Value>) {
    let metrics = String::from_utf8(project.read("runs/small-0/metrics.jsonl")).unwrap();
    let without_seconds = |line: &str| {
        let mut metric: Value = serde_json::from_str(line).unwrap();
        for key in ["seconds", "checksum"] {
            assert!(metric.as_object_mut().unwrap().remove(key).is_some());
        }
        metric
    };
    let metrics = metrics.lines().map(without_seconds).collect();
    (project.read(LAST), project.read("runs/small-0/results.jsonl"), metrics)
}

/// The half-written files below a folder.
fn leftovers(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let below = entries.flat_map(|entry| {
        let path = entry.path();
        let name = path.display().to_string();
        if path.is_dir() { leftovers(&path) } else { Vec::from_iter(name.contains(".part").then_some(name)) }
    });
    below.collect()
}

fn check_every(kind: &str, first: usize, step: usize) {
    let undisturbed = Project::new();
    assert_eq!(run(&undisturbed, None).0.code, Some(0));
    let expected = ends(&undisturbed);
    let step = if std::env::var("LONGWAVE_FAULTS").is_ok_and(|wanted| wanted == "all") { 1 } else { step };
    let mut faults = 0;
    for at in (first..).step_by(step) {
        let project = Project::new();
        let (outcome, done) = run(&project, Some((kind, at)));
        let Some(done) = done else {
            assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
            break;
        };
        faults += 1;
        let place = format!("{kind} {at}: {done}: {:?} {}", outcome.code, outcome.stderr);
        if kind == "fail" {
            // A second name for a file is made a copy where there can be none.
            let may_pass = done.starts_with("link ") || done.starts_with("remove ");
            assert!(may_pass || outcome.code == Some(1), "unnoticed: {place}");
            assert!(may_pass || outcome.stderr.contains("a fault on purpose"), "{place}");
            assert!(!outcome.stderr.contains("panicked"), "{place}");
        }
        let (again, _) = run(&project, None);
        assert_eq!(again.code, Some(0), "{place}, then {}", again.stderr);
        assert!(ends(&project) == expected, "{place}: another end");
        let left = leftovers(&project.path("runs"));
        assert!(left.is_empty(), "{place}: {left:?}");
    }
    assert!(faults > 5, "{faults}");
}

#[test]
fn operations_that_fail_once_are_noticed_and_made_good() {
    check_every("fail", 3, 11);
}

#[test]
fn a_process_that_ends_at_an_operation_is_made_good() {
    check_every("kill", 1, 13);
}
