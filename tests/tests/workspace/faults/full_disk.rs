//! A disk that is full again and again, each time a little larger: each command says so, and goes on to the same end.
//!
//! The disk is a small tmpfs in a mount namespace of its own (`unshare --map-root-user --mount`). Where the system allows none, the
//! tests say so and pass, unless `LONGWAVE_REQUIRE_MOUNTS=1`.

use super::commands::{RUN, STUDY, answers, everything, trained, with_study};
use super::files;
use super::machine::with_mounts;
use super::training::{ARGUMENTS, ends};
use crate::common::Project;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// A command that works on a disk that is full.
struct Full<'a> {
    /// The folder that it begins in.
    project: &'a Project,
    arguments: &'a [&'a str],
    disk: &'a str,
    /// What it holds at the beginning, beside it.
    holds: Option<&'a str>,
    /// By how much it grows, in KiB.
    growth: usize,
    ends: fn(&Project) -> BTreeMap<String, Vec<u8>>,
    /// How often it is full, at least.
    times: usize,
}

impl Full<'_> {
    fn check(&self) {
        let undisturbed = self.project.copied();
        let outcome = undisturbed.run(self.arguments);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let project = self.project.copied();
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
                self.arguments.iter().map(|argument| format!("'{argument}'")).collect::<Vec<_>>().join(" "),
            growth = self.growth,
        );
        let Some(output) = with_mounts(&project, &script) else { return };
        assert!(output.status.success(), "{output:?} {}", String::from_utf8_lossy(&project.read("message")));
        let messages = String::from_utf8(project.read("messages")).unwrap();
        fs::remove_file(project.path("messages")).unwrap();
        fs::remove_dir(project.path("probe")).unwrap();
        let messages: Vec<&str> = messages.split_terminator("---\n").collect();
        println!("{}: the disk was full {} times", self.arguments[0], messages.len());
        assert!(messages.len() >= self.times, "{messages:?}");
        for message in &messages {
            assert!(message.contains("the disk is full"), "{message}");
            assert!(message.contains("hint: "), "{message}");
            assert!(!message.contains("panicked"), "{message}");
        }
        let (ends, expected) = ((self.ends)(&project), (self.ends)(&undisturbed));
        let names: BTreeSet<&String> = ends.keys().chain(expected.keys()).collect();
        let other: Vec<_> = names.into_iter().filter(|name| ends.get(*name) != expected.get(*name)).collect();
        assert!(other.is_empty(), "another end: {other:?}");
        let left = files(&project.path("")).into_iter().filter(|name| name.contains(".part"));
        assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
    }
}

#[test]
fn a_training_goes_on() {
    let project = Project::new();
    Full { project: &project, arguments: &ARGUMENTS, disk: "runs", holds: None, growth: 92, ends, times: 6 }
        .check();
}

#[test]
fn an_export_goes_on() {
    let project = trained();
    let arguments = ["export", RUN, "disk/exported"];
    Full {
        project: &project,
        arguments: &arguments,
        disk: "disk",
        holds: None,
        growth: 20,
        ends: everything,
        times: 3,
    }
    .check();
}

#[test]
fn a_report_goes_on() {
    let project = Project::new();
    project.train(&["--threads=1"]);
    let arguments = ["report", RUN, "--pdf"];
    let holds = Some(RUN);
    Full {
        project: &project,
        arguments: &arguments,
        disk: "runs",
        holds,
        growth: 20,
        ends: everything,
        times: 3,
    }
    .check();
}

#[test]
fn a_study_goes_on() {
    let project = with_study();
    let arguments = [&STUDY[..], &["--retry"]].concat();
    Full {
        project: &project,
        arguments: &arguments,
        disk: "runs",
        holds: None,
        growth: 60,
        ends: answers,
        times: 4,
    }
    .check();
}
