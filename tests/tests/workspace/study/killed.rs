//! Studies that are killed, stopped or run twice at once end with the same numbers and compute nothing twice.

#![allow(clippy::print_stdout, reason = "counts, for who runs the long form")]

use super::{STUDY, events, finished, project, results, store, study, written};
use crate::common::{Outcome, Project, same, signal, wait_until};
use longwave_core::random::Stream;
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

/// How far the study's runs are: lines of metrics and rows that they have written.
fn progress(project: &Project) -> usize {
    let store = store(project);
    let lines = |path: PathBuf| std::fs::read_to_string(path).map_or(0, |text| text.lines().count());
    let of = |key: &String| ["metrics.jsonl", "results.jsonl"].map(|name| lines(store.run(key).join(name)));
    store.keys().unwrap_or_default().iter().flat_map(of).sum()
}

/// Starts the study as the head of a process group of its own.
fn start(project: &Project) -> Child {
    let mut command = project.command("", &["study", "two.toml"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().unwrap()
}

/// How often a study is killed before it comes to its end.
const AT_A_TIME: u32 = 10;

/// Kills a study and checks that nothing is computed twice; gives how many kills met it at work.
fn kill(disturbed: &Project, kills: u32, whole: f64, stream: &mut Stream) -> u32 {
    let mut seen = BTreeMap::new();
    let mut landed = 0;
    for kill in 0..kills {
        // Somewhere in its own part of the study, so that all of it meets kills and the last one is not too late.
        let share = (f64::from(kill) + stream.uniform()) / f64::from(kills);
        let mut child = start(disturbed);
        while (progress(disturbed) as f64) < share * whole && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Not only where something has just been written.
        std::thread::sleep(Duration::from_millis(stream.below(40)));
        let alive = child.try_wait().unwrap().is_none();
        if kill % 2 == 0 {
            // With all its runs: they have no time to write a checkpoint.
            signal("-KILL", &format!("-{}", child.id()));
        } else {
            // Alone: its runs see that it is gone.
            child.kill().unwrap();
        }
        child.wait().unwrap();
        landed += u32::from(alive);
        for (path, time) in finished(disturbed) {
            let first = *seen.entry(path.clone()).or_insert(time);
            assert_eq!(first, time, "{} was computed twice", path.display());
        }
    }
    study(disturbed, &[]).done();
    for (path, time) in &seen {
        assert_eq!(written(path), *time, "{} was computed twice", path.display());
    }
    landed
}

#[test]
fn a_study_killed_again_and_again_ends_with_the_same_bytes() {
    let kills: u32 = std::env::var("LONGWAVE_KILLS").map_or(4, |count| count.parse().unwrap());
    let undisturbed = project(STUDY);
    study(&undisturbed, &[]).done();
    let whole = progress(&undisturbed) as f64;
    let mut stream = Stream::new(7, "kills", 0);
    let mut landed = 0;
    for first in (0..kills).step_by(AT_A_TIME as usize) {
        let disturbed = project(STUDY);
        landed += kill(&disturbed, AT_A_TIME.min(kills - first), whole, &mut stream);
        assert_eq!(results(&disturbed), results(&undisturbed));
        for (key, events) in events(&disturbed) {
            let end = events.iter().position(|event| event == "finished").unwrap_or(events.len());
            assert!(events.len() <= end + 1, "{key} was begun again after its end: {events:?}");
        }
        for key in store(&disturbed).keys().unwrap() {
            let [a, b] =
                [&disturbed, &undisturbed].map(|it| store(it).run(&key).join("checkpoints/last.safetensors"));
            assert!(same(&a, &b), "{key}");
        }
    }
    println!("{kills} kills, {landed} of them met a running study");
    assert!(landed * 2 > kills, "only {landed} of {kills} kills met a running study");
}

#[test]
fn two_processes_share_the_work() {
    let alone = project(STUDY);
    study(&alone, &[]).done();
    let shared = project(STUDY);
    let children: Vec<Child> = (0..2).map(|_| shared.start(&["study", "two.toml", "--jobs", "1"])).collect();
    for child in children {
        Outcome::at_end(child).done();
    }
    assert_eq!(results(&shared), results(&alone));
    let events = events(&shared);
    assert_eq!(events.len(), 4);
    for (key, events) in events {
        assert_eq!(events, ["started", "finished"], "{key}");
    }
}

#[test]
fn a_signal_stops_the_study_with_its_runs() {
    let project = project(&STUDY.replace("steps = 12", "steps = 1000000"));
    let child = project.start(&["study", "two.toml"]);
    wait_until("a run", || events(&project).values().any(|events| !events.is_empty()));
    signal("-TERM", &child.id().to_string());
    let Outcome { code, stderr, .. } = Outcome::at_end(child);
    assert_eq!(code, Some(130), "{stderr}");
    assert!(stderr.contains("the same command goes on where this one stopped"), "{stderr}");
    for key in store(&project).keys().unwrap() {
        assert!(store(&project).try_lock(&key).unwrap().is_some(), "{key} is still being worked on");
        assert_eq!(events(&project)[&key], ["started", "stopped"], "{key}");
    }
}
