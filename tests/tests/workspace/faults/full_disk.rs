//! A disk that is full again and again, each time a little larger: each command says so, and goes on to the same end.
//!
//! The disk is a small tmpfs in a mount namespace of its own (`unshare --map-root-user --mount`). Where the system allows none, the
//! tests say so and pass, unless `LONGWAVE_REQUIRE_MOUNTS=1`.

use super::commands::{export, report, study};
use super::machine::with_mounts;
use super::training::training;
use super::{Case, files};
use crate::common::{Project, RUN};
use std::collections::BTreeSet;
use std::fs;

/// A command that works on a disk that is full.
struct Full {
    case: Case,
    disk: &'static str,
    /// What it holds at the beginning, beside it.
    holds: Option<&'static str>,
    /// By how much it grows, in KiB.
    growth: usize,
    /// How often it is full, at least.
    times: usize,
}

impl Full {
    fn check(&self) {
        let undisturbed = self.case.project.copied();
        let arguments = self.case.arguments();
        undisturbed.ok(&arguments);
        let project = self.case.project.copied();
        let script = format!(
            "mkdir -p {disk}\n{keep}mount -t tmpfs -o size=64m none {disk}\n{bring}\
             size=$(($(df --output=used -k {disk} | tail -n 1) + 4))\nmount -o remount,size=${{size}}k {disk}\n\
             while ! \"$0\" {arguments} 2> message > said; do\n\
             cat message >> messages; echo --- >> messages\n\
             size=$((size + {growth})); test $size -lt 9000; mount -o remount,size=${{size}}k {disk}; done\n\
             cp -a {disk} out; umount {disk}; rmdir {disk}; mv out {disk}\nrm -rf said message kept",
            disk = self.disk,
            keep = self.holds.map_or(String::new(), |holds| format!("mv {holds} kept\n")),
            bring =
                self.holds.map_or(String::new(), |holds| format!("mkdir -p {holds}; cp -a kept/. {holds}\n")),
            arguments =
                arguments.iter().map(|argument| format!("'{argument}'")).collect::<Vec<_>>().join(" "),
            growth = self.growth,
        );
        let Some(output) = with_mounts(&project, &script) else { return };
        assert!(output.status.success(), "{output:?} {}", String::from_utf8_lossy(&project.read("message")));
        let messages = project.text("messages");
        fs::remove_file(project.path("messages")).unwrap();
        fs::remove_dir(project.path("probe")).unwrap();
        let messages: Vec<&str> = messages.split_terminator("---\n").collect();
        println!("{}: the disk was full {} times", arguments[0], messages.len());
        assert!(messages.len() >= self.times, "{messages:?}");
        for message in &messages {
            assert!(message.contains("the disk is full"), "{message}");
            assert!(message.contains("hint: "), "{message}");
            assert!(!message.contains("panicked"), "{message}");
        }
        let (ends, expected) = ((self.case.ends)(&project), (self.case.ends)(&undisturbed));
        let names: BTreeSet<&String> = ends.keys().chain(expected.keys()).collect();
        let other: Vec<_> = names.into_iter().filter(|name| ends.get(*name) != expected.get(*name)).collect();
        assert!(other.is_empty(), "another end: {other:?}");
        let left = files(&project.path("")).into_iter().filter(|name| name.contains(".part"));
        assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
    }
}

#[test]
fn a_training_goes_on() {
    let case = training(Project::new(), &[]);
    Full { case, disk: "runs", holds: None, growth: 92, times: 6 }.check();
}

#[test]
fn an_export_goes_on() {
    let arguments = ["export", RUN, "disk/exported"].map(str::to_owned).to_vec();
    let case = Case { arguments, ..export() };
    Full { case, disk: "disk", holds: None, growth: 20, times: 3 }.check();
}

#[test]
fn a_report_goes_on() {
    Full { case: report(), disk: "runs", holds: Some(RUN), growth: 20, times: 3 }.check();
}

#[test]
fn a_study_goes_on() {
    let mut case = study();
    case.arguments.push("--retry".to_owned());
    Full { case, disk: "runs", holds: None, growth: 60, times: 4 }.check();
}
