//! A clock that jumps by years, back and forth, at every look at it while the program works: nothing changes but times that are
//! shown.

use super::commands::study;
use super::run;
use super::training::{ARGUMENTS, ends};
use crate::common::{Outcome, Project};
use longwave_study::Store;

/// Thirty years back and forth, far into the future, and before 1970.
const JUMPS: &str = "0,-1000000000,1000000000,60,8000000000,-4000000000";

fn under_jumps(project: &Project, arguments: &[&str]) -> Outcome {
    project.run_with("LONGWAVE_CLOCK", JUMPS, arguments).done()
}

#[test]
fn a_training_that_was_stopped_goes_on_under_a_clock_that_jumps() {
    let whole = Project::new();
    whole.ok(&ARGUMENTS);
    let project = Project::new();
    let (_, stopped) = run(&project, &ARGUMENTS, ("kill", 45));
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
    let case = study();
    let arguments = case.arguments();
    let project = case.project.copied();
    under_jumps(&project, &arguments);
    case.project.ok(&arguments);
    assert!((case.ends)(&project) == (case.ends)(&case.project), "another end");
    let store = Store::new(&project.path("runs/store"));
    let lines =
        store.keys().unwrap().iter().flat_map(|key| store.journal_lines(key).unwrap()).collect::<Vec<_>>();
    let times = lines.iter().map(|line| line.time);
    assert!(
        times.clone().max() > times.min().map(|time| time + 900_000_000),
        "no process saw it jump: {lines:?}"
    );
    // Nothing is done again.
    under_jumps(&project, &arguments);
    let again =
        store.keys().unwrap().iter().flat_map(|key| store.journal_lines(key).unwrap()).collect::<Vec<_>>();
    assert_eq!(again, lines);
}
