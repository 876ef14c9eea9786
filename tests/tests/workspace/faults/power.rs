//! A power cut at any operation on a file: what was not synced is lost, and the same command goes on to the same bits.
//!
//! `core::file::fault` keeps a picture of what had reached the disk: contents when a file was synced, names when a folder was. After the cut
//! the test puts that in the place of the folder: every second time with nothing more, and else with some of the rest by chance, since systems
//! write in their own time what nobody syncs. The processes of a study end together.

use super::commands::{EVALUATION, RUN, SEARCH, STUDY, answers, everything, trained, with_study};
use super::training::{ARGUMENTS, ends};
use super::{Case, every, files, run_with};
use crate::common::Project;
use longwave_core::file::fault::Disk;
use longwave_core::random::Stream;
use std::collections::BTreeMap;
use std::fs;

impl Case<'_> {
    /// Cuts the power at every `step`-th operation from `first` on, and once after the end.
    fn check_power(&self, first: usize, step: usize) {
        let expected = self.expected();
        let mut cuts = 0;
        for at in (first..).step_by(every(step)) {
            let project = self.project.copied();
            let marks = tempfile::tempdir().unwrap();
            let mark = marks.path().join("mark");
            let root = project.path("");
            let disk = Disk::begin(&mark, &root).unwrap();
            let fault = format!("power:{at}:{}", mark.display());
            let outcome = run_with(&project, self.arguments, Some(("LONGWAVE_FAULT", fault)));
            assert!(!outcome.stderr.contains("panicked"), "power {at}: {}", outcome.stderr);
            let Ok(done) = fs::read_to_string(&mark) else {
                assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
                // A command that has ended has everything on the disk.
                disk.restore(&root, None).unwrap();
                self.is_the_same(&project, "after the end", &expected);
                self.goes_on(&project, "after the end", &expected);
                break;
            };
            cuts += 1;
            let mut luck = (cuts % 2 == 0).then(|| Stream::new(at as u64, "luck", 0));
            disk.restore(&root, luck.as_mut()).unwrap();
            self.goes_on(&project, &format!("power {at}: {done}"), &expected);
        }
        assert!(cuts > 2, "{cuts}");
        println!("power: {cuts} cuts");
    }
}

fn check(
    project: &Project,
    arguments: &[&str],
    ends: fn(&Project) -> BTreeMap<String, Vec<u8>>,
    clean: &'static str,
    step: usize,
) {
    Case { project, arguments, ends, may_pass: |_| false, clean }.check_power(1, step);
}

/// The cut is a real one: of a whole training, only the curves of `TensorBoard` are not synced, and they are lost.
#[test]
fn what_nobody_syncs_is_lost() {
    let project = Project::new();
    let marks = tempfile::tempdir().unwrap();
    let mark = marks.path().join("mark");
    let disk = Disk::begin(&mark, &project.path("")).unwrap();
    let fault = format!("power:1000000:{}", mark.display());
    let outcome = run_with(&project, &ARGUMENTS, Some(("LONGWAVE_FAULT", fault)));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let curves = project.path(RUN).join("tensorboard/train");
    assert_eq!(files(&curves).len(), 1);
    disk.restore(&project.path(""), None).unwrap();
    assert_eq!(files(&curves), [""; 0]);
    assert!(!project.read("runs/small-0/metrics.jsonl").is_empty());
}

#[test]
fn a_training_goes_on() {
    check(&Project::new(), &ARGUMENTS, ends, "runs", 11);
}

#[test]
fn an_evaluation_goes_on() {
    check(&trained(), &EVALUATION, everything, ".", 7);
}

#[test]
fn a_search_goes_on() {
    let arguments = ["eval", RUN, "--device=cpu", "--threads=1", "--lengths=64", "--extend", SEARCH];
    check(&trained(), &arguments, everything, ".", 11);
}

#[test]
fn a_report_goes_on() {
    let project = Project::new();
    project.train(&["--threads=1"]);
    check(&project, &["report", RUN, "--pdf"], everything, ".", 9);
}

#[test]
fn an_export_and_an_import_go_on() {
    let project = trained();
    check(&project, &["export", RUN, "exported"], everything, ".", 3);
    assert_eq!(project.run(&["export", RUN, "exported"]).code, Some(0));
    check(&project, &["import", "exported", "--out", "runs/back"], everything, ".", 3);
}

#[test]
fn a_study_goes_on() {
    check(&with_study(), &STUDY, answers, ".", 31);
}
