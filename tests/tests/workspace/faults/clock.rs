//! A clock that jumps by years, back and forth, at every look at it while the program works: nothing changes but times that are
//! shown.

use super::commands::{STUDY, answers, with_study};
use super::training::{ARGUMENTS, ends};
use super::{run, run_with};
use crate::common::{Outcome, Project};
use longwave_study::Store;

/// Thirty years back and forth, far into the future, and before 1970.
const JUMPS: &str = "0,-1000000000,1000000000,60,8000000000,-4000000000";

fn under_jumps(project: &Project, arguments: &[&str]) -> Outcome {
    let outcome = run_with(project, arguments, Some(("LONGWAVE_CLOCK", JUMPS.to_owned())));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    outcome
}

#[test]
fn a_training_that_was_stopped_goes_on_under_a_clock_that_jumps() {
    let whole = Project::new();
    assert_eq!(whole.run(&ARGUMENTS).code, Some(0));
    let project = Project::new();
    let (_, stopped) = run(&project, &ARGUMENTS, Some(("kill", 45)));
    assert!(stopped.is_some());
    under_jumps(&project, &ARGUMENTS);
    assert!(ends(&project) == ends(&whole), "another end");
    for arguments in [&["eval", "runs/small-0", "--lengths=64"][..], &["report", "runs/small-0"], &["runs"]] {
        under_jumps(&project, arguments);
    }
    assert!(ends(&project) == ends(&whole), "another end");
}

#[test]
fn a_study_gives_the_same_numbers_under_a_clock_that_jumps() {
    let whole = with_study();
    assert_eq!(whole.run(&STUDY).code, Some(0));
    let project = with_study();
    under_jumps(&project, &STUDY);
    assert!(answers(&project) == answers(&whole), "another end");
    let store = Store::new(&project.path("runs/store"));
    let lines =
        store.keys().unwrap().iter().flat_map(|key| store.journal_lines(key).unwrap()).collect::<Vec<_>>();
    let times = lines.iter().map(|line| line.time);
    assert!(
        times.clone().max() > times.min().map(|time| time + 900_000_000),
        "no process saw it jump: {lines:?}"
    );
    // Nothing is done again.
    under_jumps(&project, &STUDY);
    let again =
        store.keys().unwrap().iter().flat_map(|key| store.journal_lines(key).unwrap()).collect::<Vec<_>>();
    assert_eq!(again, lines);
}
