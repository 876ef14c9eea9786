//! Processes that are killed at random moments, again and again until one comes to its end: the end has the same bits, what was
//! finished at a kill stays as it is, and training goes on from its last checkpoint.
//!
//! `LONGWAVE_KILLS=200 cargo test --package longwave-tests --test workspace faults::kills -- --nocapture` kills each command so often;
//! studies are in `study::killed`.

use super::commands::{RUN, evaluation, export, search};
use super::training::training;
use super::{Case, files};
use crate::common::Project;
use longwave_core::random::Stream;
use longwave_train::Checkpoint;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

struct Victim<'a> {
    name: &'a str,
    case: Case,
    /// Looks at a folder when a process was killed, with what it wrote to stderr, or had come to its end.
    look: &'a mut dyn FnMut(&Project, Option<&str>),
}

impl Victim<'_> {
    fn check(&mut self) {
        let wanted: usize = std::env::var("LONGWAVE_KILLS").map_or(4, |count| count.parse().unwrap());
        let begin = Instant::now();
        let expected = self.case.expected();
        let whole = begin.elapsed();
        let arguments = self.case.arguments();
        let mut stream = Stream::new(5, self.name, 0);
        let (mut kills, mut ends) = (0, 0);
        while kills < wanted {
            let project = self.case.project.copied();
            // On a busy machine a process may take longer than the first: each gets more time than the one before.
            let mut in_a_row = 0.0;
            while let Some(said) =
                killed(&project, &arguments, whole.mul_f64(stream.uniform() * (1.0 + in_a_row / 8.0)))
            {
                in_a_row += 1.0;
                kills += 1;
                (self.look)(&project, Some(&said));
            }
            ends += 1;
            assert!((self.case.ends)(&project) == expected, "{}: another end after {kills} kills", self.name);
            let left: Vec<String> =
                files(&project.path("runs")).into_iter().filter(|name| name.contains(".part")).collect();
            assert_eq!(left, [""; 0]);
            assert!(ends < 20 * wanted, "{}: {kills} of {ends} processes were killed", self.name);
            (self.look)(&project, None);
        }
        println!("{}: {kills} kills, {ends} ends", self.name);
    }
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

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// What the rows of a run measured; their difference to the baseline is added when that is measured.
fn measured(project: &Project) -> Vec<String> {
    let rows = lines(&project.path(RUN).join("results.jsonl"));
    rows.iter().map(|row| row.split(",\"per_document\"").next().unwrap().to_owned()).collect()
}

/// Checks that lines that were there at a kill stay the first ones, until the command starts from nothing again.
fn grows(before: &mut Vec<String>, now: Vec<String>, said: Option<&str>) {
    // A kill may cut the last line short.
    let whole = before.len().saturating_sub(1);
    assert!(now.len() >= whole && now[..whole] == before[..whole], "{before:#?} {now:#?}");
    *before = if said.is_none() { Vec::new() } else { now };
}

/// No step of the last checkpoint is trained again.
#[test]
fn a_training_ends_with_the_same_bits() {
    let mut done: u64 = 0;
    let mut rows = Vec::new();
    let mut look = |project: &Project, said: Option<&str>| {
        if let Some(begun) = said.and_then(|said| said.split("resuming after step ").nth(1)) {
            let begun: u64 = begun.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
            assert_eq!(begun, done, "{said:?}");
        }
        let last = project.path(RUN).join("checkpoints/last.safetensors");
        let now = if last.exists() { Checkpoint::load(&last).unwrap().meta.step } else { 0 };
        assert!(now >= done, "{now} {done}");
        done = if said.is_none() { 0 } else { now };
        grows(&mut rows, measured(project), said);
    };
    Victim { name: "training", case: training(Project::new(), &[]), look: &mut look }.check();
}

/// Rows that are measured stay.
#[test]
fn an_evaluation_ends_with_the_same_bits() {
    let mut rows = Vec::new();
    let mut look = |project: &Project, said: Option<&str>| {
        grows(&mut rows, measured(project), said);
    };
    Victim { name: "evaluation", case: evaluation(), look: &mut look }.check();
}

/// What the search tried stays, and nothing is tried twice.
#[test]
fn a_search_ends_with_the_same_bits() {
    let mut tried = Vec::new();
    let mut look = |project: &Project, said: Option<&str>| {
        let folder = project.path(RUN).join("searches");
        let names = if folder.exists() { files(&folder) } else { Vec::new() };
        let paths = names.iter().map(Path::new);
        let found = paths.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        let now: Vec<String> = found.flat_map(lines).collect();
        let mut once = now.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), now.len(), "{now:#?}");
        grows(&mut tried, now, said);
    };
    Victim { name: "search", case: search(), look: &mut look }.check();
}

/// Files that are whole are not written again.
#[test]
fn an_export_ends_with_the_same_bits() {
    let mut written = BTreeMap::new();
    let mut look = |project: &Project, said: Option<&str>| {
        let folder = project.path("exported");
        let names = if folder.exists() { files(&folder) } else { Vec::new() };
        let whole = names.into_iter().filter(|name| !name.contains(".part"));
        let now: BTreeMap<String, SystemTime> = whole
            .map(|name| {
                let time = fs::metadata(&name).unwrap().modified().unwrap();
                (name, time)
            })
            .collect();
        assert!(written.iter().all(|(name, time)| now.get(name) == Some(time)), "{written:?} {now:?}");
        written = if said.is_none() { BTreeMap::new() } else { now };
    };
    Victim { name: "export", case: export(), look: &mut look }.check();
}
