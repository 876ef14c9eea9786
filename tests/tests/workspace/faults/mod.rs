//! Every operation on a file fails once, or ends the process: the same command then goes on, and ends with the same bits.
//!
//! A sample of the operations; `LONGWAVE_FAULTS=all` takes every one of them. `kills` ends processes at random moments,
//! `LONGWAVE_KILLS` times.

#![allow(clippy::print_stdout, reason = "counts, for who runs the long form")]

#[cfg(target_os = "linux")]
mod clock;
mod commands;
#[cfg(target_os = "linux")]
mod full_disk;
#[cfg(unix)]
mod kills;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(unix)]
mod power;
mod training;

use crate::common::{Outcome, Project, files};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// A command under faults.
struct Case {
    /// The folder that it begins in.
    project: Project,
    arguments: Vec<String>,
    /// What must be the same at the end.
    ends: fn(&Project) -> BTreeMap<String, Vec<u8>>,
    /// Whether the command may go on to its end where this operation fails.
    may_pass: fn(&str) -> bool,
    /// Lines on what is finished: they stay, in this order, and none is there twice.
    kept: fn(&Project) -> Vec<String>,
    /// The folder that holds no half-written file at the end.
    clean: &'static str,
}

impl Case {
    fn arguments(&self) -> Vec<&str> {
        self.arguments.iter().map(String::as_str).collect()
    }

    /// Lets every `step`-th operation from `first` on fail, or end the process, and goes on with the same command.
    fn check_every(&self, kind: &str, first: usize, step: usize) {
        let expected = self.expected();
        let mut faults = 0;
        for at in (first..).step_by(every(step)) {
            let project = self.project.copied();
            let (outcome, done) = run(&project, &self.arguments(), (kind, at));
            let Some(done) = done else {
                assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
                break;
            };
            faults += 1;
            let place = format!("{kind} {at}: {done}: {:?} {}", outcome.code, outcome.stderr);
            if kind == "fail" && !(self.may_pass)(&done) {
                assert!(outcome.code == Some(1), "unnoticed: {place}");
                assert!(outcome.stderr.contains("a fault on purpose"), "{place}");
            }
            assert!(!outcome.stderr.contains("panicked"), "{place}");
            self.goes_on(&project, &place, &expected);
        }
        assert!(faults > 1, "{faults}");
        println!("{kind}: {faults} operations");
    }

    /// How the command ends where nothing disturbs it.
    fn expected(&self) -> BTreeMap<String, Vec<u8>> {
        let undisturbed = self.project.copied();
        undisturbed.ok(&self.arguments());
        let expected = (self.ends)(&undisturbed);
        assert!(!expected.is_empty());
        expected
    }

    fn goes_on(&self, project: &Project, place: &str, expected: &BTreeMap<String, Vec<u8>>) {
        let kept = (self.kept)(project);
        let mut again = project.run(&self.arguments());
        // A study tries a run that failed when it is asked to, and says so.
        if again.code == Some(1) && again.stderr.contains("`--retry`") {
            again = project.run(&[&self.arguments()[..], &["--retry"]].concat());
        }
        assert_eq!(again.code, Some(0), "{place}, then {}", again.stderr);
        self.stays(project, place, &kept);
        self.is_at_its_end(project, place, expected);
    }

    /// Looks whether what was finished stays, and gives what is finished now.
    fn stays(&self, project: &Project, place: &str, finished: &[String]) -> Vec<String> {
        let now = (self.kept)(project);
        assert!(now.starts_with(finished), "{place}: {finished:#?}, then {now:#?}");
        let once: BTreeSet<&String> = now.iter().collect();
        assert_eq!(once.len(), now.len(), "{place}: {now:#?}");
        now
    }

    fn is_at_its_end(&self, project: &Project, place: &str, expected: &BTreeMap<String, Vec<u8>>) {
        self.is_the_same(project, place, expected);
        let left: Vec<String> =
            files(&project.path(self.clean)).into_iter().filter(|name| name.contains(".part")).collect();
        assert!(left.is_empty(), "{place}: {left:?}");
    }

    fn is_the_same(&self, project: &Project, place: &str, expected: &BTreeMap<String, Vec<u8>>) {
        let ends = (self.ends)(project);
        let other = expected.iter().filter(|(name, bytes)| ends.get(*name) != Some(bytes));
        let mut other: Vec<&String> = other.map(|(name, _)| name).collect();
        other.extend(ends.keys().filter(|name| !expected.contains_key(*name)));
        assert!(other.is_empty(), "{place}: another end: {other:?}");
    }
}

/// Of operations, every one in the long form, or else one of `2 * step`.
fn every(step: usize) -> usize {
    let all = std::env::var("LONGWAVE_FAULTS").is_ok_and(|wanted| wanted == "all");
    if all { 1 } else { 2 * step }
}

/// Runs the program, in which an operation fails or ends the process, and gives what was done there.
fn run(project: &Project, arguments: &[&str], (kind, at): (&str, usize)) -> (Outcome, Option<String>) {
    let marks = tempfile::tempdir().unwrap();
    let mark = marks.path().join("mark");
    let fault = format!("{kind}:{at}:{}", mark.display());
    (project.run_with("LONGWAVE_FAULT", &fault, arguments), fs::read_to_string(&mark).ok())
}

/// A second name for a file is made a copy where there can be none, and a training goes on without the folder of its live
/// curves, with a warning.
fn may_be_missing(operation: &str) -> bool {
    ["link ", "remove "].iter().any(|begin| operation.starts_with(begin))
        || (operation.starts_with("make ") && operation.contains("tensorboard"))
}
