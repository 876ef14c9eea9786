//! Studies: killed at any moment, run twice at once, with failing runs, shared and launched elsewhere,
//! they end with the same numbers and do nothing twice.
//!
//! `LONGWAVE_KILLS=20 cargo test --package longwave-tests --test workspace study::killed` kills more often than the
//! few times of a usual test run.

mod outputs;

use crate::common;
use crate::common::{Outcome, PROGRAM, Project};
use longwave_study::Store;
use longwave_study::store::Entry;
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// Two encodings, two seeds, three readings, a claim.
const STUDY: &str = r#"
name = "two"
base = "small.toml"
seeds = 2
threads = 1

[set]
train = { steps = 12, checkpoint_every = 2 }

[[axis]]
key = "position"
values = ["rope", "alibi"]

[[evaluate]]
lengths = [32, 64]
windows_per_document = 2

[[evaluate]]
lengths = [32, 64]
extend = ["linear", "ntk"]
windows_per_document = 2
only = { position = "rope" }

[[claim]]
says = "rope = alibi at 64"
tolerance = 100.0
"#;

/// The study's files that must not depend on how it was run.
const RESULTS: [&str; 2] = ["runs/studies/two/results.csv", "runs/studies/two/study.md"];

fn project(study: &str) -> Project {
    let project = Project::new();
    project.write("two.toml", study);
    project
}

fn study(project: &Project, more: &[&str]) -> Outcome {
    project.run(&[&["study", "two.toml"], more].concat())
}

fn done(outcome: Outcome) -> Outcome {
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    outcome
}

fn results(project: &Project) -> Vec<Vec<u8>> {
    RESULTS.iter().map(|name| project.read(name)).collect()
}

fn store(project: &Project) -> Store {
    Store::new(&project.path("runs/store"))
}

/// The events of every run's journal.
fn events(project: &Project) -> BTreeMap<String, Vec<String>> {
    let store = store(project);
    let of = |key: &String| store.entries(key).unwrap().into_iter().map(|entry| entry.event).collect();
    store.keys().unwrap().iter().map(|key| (key.clone(), of(key))).collect()
}

/// All lines of all journals.
fn journal(project: &Project) -> Vec<Entry> {
    let store = store(project);
    store.keys().unwrap().iter().flat_map(|key| store.entries(key).unwrap()).collect()
}

/// Rows and last checkpoints of the runs that are finished, with the times they were written.
fn finished(project: &Project) -> BTreeMap<PathBuf, SystemTime> {
    let mut files = BTreeMap::new();
    let store = store(project);
    for key in store.keys().unwrap() {
        let entries = std::fs::read_dir(store.run(&key)).unwrap().map(|entry| entry.unwrap().path());
        let rows: Vec<PathBuf> =
            entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("rows-")).collect();
        if !rows.is_empty() {
            files.extend(rows.into_iter().map(|path| (path.clone(), written(&path))));
            let last = store.run(&key).join("checkpoints/last.safetensors");
            files.insert(last.clone(), written(&last));
        }
    }
    files
}

fn written(path: &Path) -> SystemTime {
    std::fs::metadata(path).unwrap().modified().unwrap()
}

/// How far the study's runs are: lines of metrics and rows that they have written.
fn progress(project: &Project) -> usize {
    let store = store(project);
    let lines = |path: PathBuf| std::fs::read_to_string(path).map_or(0, |text| text.lines().count());
    let of = |key: &String| ["metrics.jsonl", "results.jsonl"].map(|name| lines(store.run(key).join(name)));
    store.keys().unwrap_or_default().iter().flat_map(of).sum()
}

/// Starts the study as the head of a process group of its own.
fn start(project: &Project) -> Child {
    Command::new(PROGRAM)
        .args(["study", "two.toml"])
        .current_dir(project.path(""))
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap()
}

fn signal(name: &str, process: &str) {
    Command::new("kill").args([name, "--", process]).stderr(Stdio::null()).status().unwrap();
}

#[test]
fn a_study_killed_again_and_again_ends_with_the_same_bytes() {
    let kills: u32 = std::env::var("LONGWAVE_KILLS").map_or(4, |count| count.parse().unwrap());
    let undisturbed = project(STUDY);
    done(study(&undisturbed, &[]));
    let whole = progress(&undisturbed) as f64;
    let disturbed = project(STUDY);
    let mut seen = BTreeMap::new();
    let mut state = 7u64;
    let mut landed = 0;
    for kill in 0..kills {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Somewhere in its own part of the study, so that all of it meets kills and the last one is not too late.
        let share = (f64::from(kill) + (state >> 11) as f64 / (1u64 << 53) as f64) / f64::from(kills);
        let mut child = start(&disturbed);
        while (progress(&disturbed) as f64) < share * whole && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
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
        for (path, time) in finished(&disturbed) {
            let first = *seen.entry(path.clone()).or_insert(time);
            assert_eq!(first, time, "{} was computed twice", path.display());
        }
    }
    done(study(&disturbed, &[]));
    assert!(landed * 2 > kills, "only {landed} of {kills} kills met a running study");
    assert_eq!(results(&disturbed), results(&undisturbed));
    for (path, time) in &seen {
        assert_eq!(written(path), *time, "{} was computed twice", path.display());
    }
    for (key, events) in events(&disturbed) {
        let end = events.iter().position(|event| event == "finished").unwrap_or(events.len());
        assert!(events.len() <= end + 1, "{key} was begun again after its end: {events:?}");
    }
    for key in store(&disturbed).keys().unwrap() {
        let [a, b] =
            [&disturbed, &undisturbed].map(|it| store(it).run(&key).join("checkpoints/last.safetensors"));
        assert!(common::same(&a, &b), "{key}");
    }
}

#[test]
fn two_processes_share_the_work() {
    let alone = project(STUDY);
    done(study(&alone, &[]));
    let shared = project(STUDY);
    let children: Vec<Child> = (0..2).map(|_| shared.start(&["study", "two.toml", "--jobs", "1"])).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(results(&shared), results(&alone));
    let events = events(&shared);
    assert_eq!(events.len(), 4);
    for (key, events) in events {
        assert_eq!(events, ["started", "finished"], "{key}");
    }
}

#[test]
fn again_nothing_is_done_and_a_changed_evaluation_does_no_more() {
    let project = project(STUDY);
    let first = done(study(&project, &[]));
    let (before, files) = (results(&project), finished(&project));
    let again = done(study(&project, &[]));
    assert_eq!((results(&project), finished(&project)), (before, files.clone()));
    assert_eq!(again.stdout, first.stdout);
    assert!(again.stderr.contains("4 finished, 0 failed, 0 to be done"), "{}", again.stderr);
    // Another study with another evaluation of the same runs.
    let other = STUDY
        .replace("\"two\"", "\"other\"")
        .replace("extend = [\"linear\", \"ntk\"]", "extend = [\"yarn\"]");
    project.write("two.toml", &other);
    done(study(&project, &[]));
    assert_eq!(store(&project).keys().unwrap().len(), 4);
    let now = finished(&project);
    assert_eq!(now.len(), files.len() + 2, "two runs have rows of a second evaluation");
    assert!(files.iter().all(|(path, time)| now[path] == *time), "a checkpoint was written again");
    let csv = String::from_utf8(project.read("runs/studies/other/results.csv")).unwrap();
    assert!(csv.contains(",yarn,") && !csv.contains(",ntk,"), "{csv}");
    assert_eq!(csv.lines().next().unwrap().split(',').next(), Some("position"));
    assert!(project.exists("runs/studies/two/report/report.html"));
}

#[test]
fn failing_runs_stop_no_other_and_are_told() {
    let points = r#"
        { label = "good" },
        { label = "nan", train = { learning_rate = 1e30 } },
        { label = "broken", train = { steps = -1 } },
        { label = "killed", train = { steps = 1000000 } },
        { label = "huge", model = { width = 1048576 } },
    "#;
    let axis = format!("[[axis]]\npoints = [{points}]\n");
    let project = project(
        &STUDY
            .replace("[[axis]]\nkey = \"position\"\nvalues = [\"rope\", \"alibi\"]\n", &axis)
            .replace("only = { position = \"rope\" }", "")
            .replace("seeds = 2", "seeds = 1")
            .replace("says = \"rope = alibi at 64\"", "says = \"good, ntk = nan, ntk at 64\""),
    );
    let child = project.start(&["study", "two.toml"]);
    // As the kernel does when memory runs out.
    let begin = Instant::now();
    'killed: loop {
        assert!(begin.elapsed() < Duration::from_mins(2), "the long run does not begin");
        std::thread::sleep(Duration::from_millis(20));
        let store = store(&project);
        for key in store.keys().unwrap() {
            let Ok(config) = std::fs::read_to_string(store.run(&key).join("config.toml")) else { continue };
            if let (true, Some(entry)) =
                (config.contains("steps = 1000000"), store.entries(&key).unwrap().pop())
            {
                signal("-KILL", &entry.process.to_string());
                break 'killed;
            }
        }
    }
    let output = child.wait_with_output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    for told in [
        "failed    nan, seed 0: step ",
        "failed    broken, seed 0: `train.steps = -1` is not allowed",
        "failed    killed, seed 0: its process ended by signal 9: killed, perhaps for want of memory",
        "failed    huge, seed 0: `model.width = 1048576` is not allowed: the model's weights alone take about ",
        "error: 4 of 5 runs failed",
        "hint: `--retry` tries them again",
    ] {
        assert!(stderr.contains(told), "no `{told}` in {stderr}");
    }
    assert!(stdout.contains("| good | ntk |") && !stdout.contains("| nan |"), "{stdout}");
    assert!(stdout.contains("not measured") && stdout.contains("**undecided**"), "{stdout}");
    // Without `--retry` nothing is tried again.
    let before = events(&project);
    assert_eq!(study(&project, &[]).code, Some(1));
    assert_eq!(events(&project), before);
}

#[test]
fn retry_tries_what_failed_again() {
    let text = STUDY
        .replace("steps = 12", "learning_rate = 1e30")
        .replace("[[claim]]", "[[claim]]\nover = \"seeds\"");
    let project = project(
        &text
            .replace("seeds = 2", "seeds = 1")
            .replace("[\"rope\", \"alibi\"]", "[\"rope\"]")
            .replace("alibi", "rope, ntk"),
    );
    let starts = || events(&project).into_values().flatten().filter(|event| event == "started").count();
    assert_eq!((study(&project, &[]).code, starts()), (Some(1), 1));
    assert_eq!((study(&project, &["--retry"]).code, starts()), (Some(1), 2));
}

#[test]
fn a_signal_stops_the_study_with_its_runs() {
    let project = project(&STUDY.replace("steps = 12", "steps = 1000000"));
    let child = project.start(&["study", "two.toml"]);
    let begin = Instant::now();
    while !events(&project).values().any(|events| !events.is_empty()) {
        assert!(begin.elapsed() < Duration::from_mins(2), "no run begins");
        std::thread::sleep(Duration::from_millis(20));
    }
    signal("-TERM", &child.id().to_string());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("the same command goes on where this one stopped"), "{stderr}");
    for key in store(&project).keys().unwrap() {
        assert!(store(&project).try_lock(&key).unwrap().is_some(), "{key} is still being worked on");
        assert_eq!(events(&project)[&key], ["started", "stopped"], "{key}");
    }
}

#[test]
fn a_launchers_command_gives_the_same_numbers() {
    let local = project(STUDY);
    done(study(&local, &[]));
    let launched = project(STUDY);
    let template = ["--launcher", "command", "--template", "echo {key} >> handed; {command}", "--wait"];
    done(study(&launched, &template));
    assert_eq!(results(&launched), results(&local));
    assert_eq!(String::from_utf8(launched.read("handed")).unwrap().lines().count(), 4);
    let none = study(&launched, &["--launcher", "command"]);
    assert_eq!(none.code, Some(2), "a template is needed");
}

#[test]
fn a_plan_of_ten_thousand_runs_is_shown_and_nothing_written() {
    let rates: Vec<String> = (1..=100).map(|rate| format!("{rate}e-5")).collect();
    let project = project(
        &STUDY
            .replace("seeds = 2", "seeds = 50")
            .replace(
                "[[axis]]",
                &format!(
                    "[[axis]]\nkey = \"train.learning_rate\"\nvalues = [{}]\n[[axis]]",
                    rates.join(", ")
                ),
            )
            .replace("rope = alibi at 64", "0.00001, rope = 0.00001, alibi at 64"),
    );
    let outcome = study(&project, &["--dry-run"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("10000 runs, 10000 different, 10000 to be done"), "{}", outcome.stderr);
    assert_eq!(outcome.stdout.lines().filter(|line| line.contains("  open ")).count(), 10_000);
    assert!(outcome.stdout.contains("at a time"), "{}", outcome.stderr);
    assert!(!project.exists("runs"));
}

#[test]
fn seeds_without_a_file_and_what_the_store_tells() {
    let project = Project::new();
    let outcome = done(project.run(&["train", "--config", "small.toml", "--seeds", "2", "--device", "cpu"]));
    assert!(outcome.stdout.contains("±"), "{}", outcome.stdout);
    let keys = Store::new(&project.path("runs/store")).keys().unwrap();
    assert_eq!(keys.len(), 2);
    let listed = done(project.run(&["runs"])).stdout;
    assert!(keys.iter().all(|key| listed.contains(key)) && listed.contains("small-seeds"), "{listed}");
    let compared = done(project.run(&["compare", &keys[0][..8], &format!("runs/store/{}", keys[1])])).stdout;
    // Three extensions and the baseline at two lengths, under two lines of heading.
    assert_eq!(compared.lines().filter(|line| line.contains(" to ")).count(), 8, "{compared}");
    let json = done(project.run(&["compare", &keys[0], &keys[1], "--json"])).stdout;
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!((&first["documents"], &first["seeds"]), (&3.into(), &1.into()));
    let kept = done(project.run(&["runs", "prune", "--yes"]));
    assert!(kept.stderr.contains("every run belongs to a study"), "{}", kept.stderr);
    // A study whose folder is elsewhere keeps its runs as well.
    std::fs::remove_file(project.path("runs/studies/small-seeds/plan.json")).unwrap();
    project.write("two.toml", "name = \"two\"\nbase = \"small.toml\"\nseeds = 2");
    done(study(&project, &["--out", "elsewhere"]));
    let kept = done(project.run(&["runs", "prune", "--yes"]));
    assert!(kept.stderr.contains("every run belongs to a study"), "{}", kept.stderr);
    assert!(done(project.run(&["runs"])).stdout.contains("elsewhere"));
    std::fs::remove_dir_all(project.path("elsewhere")).unwrap();
    assert!(done(project.run(&["runs", "prune"])).stderr.contains("nothing is removed"));
    assert!(done(project.run(&["runs", "prune", "--yes"])).stdout.contains("removed"));
    assert!(Store::new(&project.path("runs/store")).keys().unwrap().is_empty());
}

#[test]
fn every_study_that_ships_can_be_planned() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = 0;
    for entry in std::fs::read_dir(root.join("experiments")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let find = |base: &Path| Ok(root.join("configs").join(base));
        let study = longwave_study::Study::load(&path, &find).unwrap_or_else(|error| panic!("{error}"));
        let plan = longwave_study::Plan::new(&study, "cpu", &mut |data| Ok(data.corpus.clone()));
        for run in &plan.runs {
            assert!(run.job.is_ok(), "{}: {}", run.title(), run.job.as_ref().unwrap_err());
        }
        study.claims.iter().for_each(|claim| claim.check(&plan).unwrap());
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with("# ") && text.contains("# Command "),
            "{} says how to run it",
            path.display()
        );
        found += 1;
    }
    assert!(found >= 1);
}
