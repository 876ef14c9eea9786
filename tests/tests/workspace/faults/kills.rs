//! Processes that are killed at random moments, again and again until one comes to its end: the end has the same bits, what was
//! finished at a kill stays as it is, and training goes on from its last checkpoint.
//!
//! `LONGWAVE_KILLS=200 cargo test --package longwave-tests --test workspace faults::kills -- --nocapture` kills each command so often, and
//! not once; studies are in `study::killed`.

use super::Case;
use super::commands::{evaluation, export, search};
use super::training::training;
use crate::common::{LAST, Project, RUN};
use longwave_core::random::Stream;
use longwave_train::Checkpoint;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

impl Case {
    fn check_kills(&self, name: &str) {
        let wanted: usize = std::env::var("LONGWAVE_KILLS").map_or(1, |count| count.parse().unwrap());
        let begin = Instant::now();
        let expected = self.expected();
        let whole = begin.elapsed();
        let mut stream = Stream::new(5, name, 0);
        let (mut kills, mut ends) = (0, 0);
        while kills < wanted {
            let project = self.project.copied();
            let (mut kept, mut step) = ((self.kept)(&project), last_step(&project));
            // On a busy machine a process may take longer than the first: each gets more time than the one before.
            for in_a_row in 0.. {
                let after = whole.mul_f64(stream.uniform() * (1.0 + f64::from(in_a_row) / 8.0));
                let said = killed(&project, &self.arguments(), after);
                kept = self.stays(&project, name, &kept);
                let resumed = said.as_ref().and_then(|said| said.split("resuming after step ").nth(1));
                assert!(resumed.is_none_or(|at| at.starts_with(&step.to_string())), "{step}: {said:?}");
                let before = std::mem::replace(&mut step, last_step(&project));
                assert!(before <= step, "{name}: step {before}, then {step}");
                if said.is_none() {
                    break;
                }
                kills += 1;
            }
            ends += 1;
            self.is_at_its_end(&project, &format!("{name} after {kills} kills"), &expected);
            assert!(ends < 20 * wanted, "{name}: {kills} of {ends} processes were killed");
        }
        println!("{name}: {kills} kills, {ends} ends");
    }
}

/// The step of the last checkpoint.
fn last_step(project: &Project) -> u64 {
    let last = project.path(RUN).join(LAST);
    if last.exists() { Checkpoint::load(&last).unwrap().meta.step } else { 0 }
}

/// Starts the command and kills it some time later: what it wrote to stderr, or `None` where it came to its end before.
fn killed(project: &Project, arguments: &[&str], after: Duration) -> Option<String> {
    let path = project.path(".said");
    let said = fs::File::create(&path).unwrap();
    let mut child = project.command("", arguments).stdout(Stdio::null()).stderr(said).spawn().unwrap();
    std::thread::sleep(after);
    child.kill().unwrap();
    let status = child.wait().unwrap();
    let said = fs::read_to_string(&path).unwrap();
    fs::remove_file(path).unwrap();
    match status.code() {
        Some(code) => {
            assert_eq!(code, 0, "{said}");
            None
        }
        None => Some(said),
    }
}

#[test]
fn a_training_ends_with_the_same_bits() {
    training(Project::new(), &[]).check_kills("training");
}

#[test]
fn an_evaluation_ends_with_the_same_bits() {
    evaluation().check_kills("evaluation");
}

#[test]
fn a_search_ends_with_the_same_bits() {
    search().check_kills("search");
}

#[test]
fn an_export_ends_with_the_same_bits() {
    export().check_kills("export");
}
