//! A power cut at any operation on a file: what was not synced is lost, and the same command goes on to the same bits.
//!
//! `core::file::fault` keeps a picture of what had reached the disk: contents when a file was synced, names when a folder was. After the cut
//! the test puts that in the place of the folder: every second time with nothing more, and else with some of the rest by chance, since systems
//! write in their own time what nobody syncs. The processes of a study end together.

use super::commands::{evaluation, export, import, report, search, study};
use super::training::{ARGUMENTS, training};
use super::{Case, every, files};
use crate::common::{Project, RUN};
use longwave_core::file::fault::Disk;
use longwave_core::random::Stream;
use std::fs;

impl Case {
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
            let outcome = project.run_with("LONGWAVE_FAULT", &fault, &self.arguments());
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

/// The cut is a real one: of a whole training, only the curves of `TensorBoard` are not synced, and they are lost.
#[test]
fn what_nobody_syncs_is_lost() {
    let project = Project::new();
    let marks = tempfile::tempdir().unwrap();
    let mark = marks.path().join("mark");
    let disk = Disk::begin(&mark, &project.path("")).unwrap();
    let fault = format!("power:1000000:{}", mark.display());
    project.run_with("LONGWAVE_FAULT", &fault, &ARGUMENTS).done();
    let curves = project.path(RUN).join("tensorboard/train");
    assert_eq!(files(&curves).len(), 1);
    disk.restore(&project.path(""), None).unwrap();
    assert_eq!(files(&curves), [""; 0]);
    assert!(!project.read("runs/small-0/metrics.jsonl").is_empty());
}

#[test]
fn a_training_goes_on() {
    training(Project::new(), &[]).check_power(1, 11);
}

#[test]
fn an_evaluation_goes_on() {
    evaluation().check_power(1, 7);
}

#[test]
fn a_search_goes_on() {
    search().check_power(1, 11);
}

#[test]
fn a_report_goes_on() {
    report().check_power(1, 9);
}

#[test]
fn an_export_and_an_import_go_on() {
    export().check_power(1, 3);
    import().check_power(1, 3);
}

#[test]
fn a_study_goes_on() {
    study().check_power(1, 31);
}
