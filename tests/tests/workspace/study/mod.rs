//! Studies: killed at any moment, run twice at once, with failing runs, shared and launched elsewhere,
//! they end with the same numbers and do nothing twice.
//!
//! `LONGWAVE_KILLS=20 cargo test --package longwave-tests --test workspace study::killed` kills more often than the
//! few times of a usual test run.

mod best;
mod checks;
mod comparable;
mod correlations;
mod decided;
mod failures;
mod killed;
mod outputs;
mod report;
#[cfg(unix)]
mod slurm;
mod stored;
mod verdicts;

use crate::common::{Outcome, Project};
use longwave_study::Store;
use longwave_study::plan::Content;
use longwave_study::store::JournalLine;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

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

fn results(project: &Project) -> Vec<Vec<u8>> {
    RESULTS.iter().map(|name| project.read(name)).collect()
}

fn store(project: &Project) -> Store {
    Store::new(&project.path("runs/store"))
}

/// The events of every run's journal.
fn events(project: &Project) -> BTreeMap<String, Vec<String>> {
    let store = store(project);
    let of = |key: &String| store.journal_lines(key).unwrap().into_iter().map(|entry| entry.event).collect();
    store.keys().unwrap().iter().map(|key| (key.clone(), of(key))).collect()
}

fn journal(project: &Project) -> Vec<JournalLine> {
    let store = store(project);
    store.keys().unwrap().iter().flat_map(|key| store.journal_lines(key).unwrap()).collect()
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

#[test]
fn again_nothing_is_done_and_a_changed_evaluation_does_no_more() {
    let project = project(STUDY);
    let first = study(&project, &[]).done();
    let (before, files) = (results(&project), finished(&project));
    let again = study(&project, &[]).done();
    assert_eq!((results(&project), finished(&project)), (before, files.clone()));
    assert_eq!(again.stdout, first.stdout);
    assert!(again.stderr.contains("4 finished, 0 failed, 0 to be done"), "{}", again.stderr);
    // Another study with another evaluation of the same runs.
    let other = STUDY
        .replace("\"two\"", "\"other\"")
        .replace("extend = [\"linear\", \"ntk\"]", "extend = [\"yarn\"]");
    project.write("two.toml", &other);
    study(&project, &[]).done();
    assert_eq!(store(&project).keys().unwrap().len(), 4);
    let now = finished(&project);
    assert_eq!(
        now.len(),
        files.len() + 4,
        "two runs have rows of a second evaluation, and the number of their lines"
    );
    assert!(files.iter().all(|(path, time)| now[path] == *time), "a checkpoint was written again");
    let csv = project.text("runs/studies/other/results.csv");
    assert!(csv.contains(",yarn,") && !csv.contains(",ntk,"), "{csv}");
    assert_eq!(csv.lines().next().unwrap().split(',').next(), Some("position"));
    assert!(project.exists("runs/studies/two/report/report.html"));
}

/// Another study that has the run may leave this one's work open: it reads the run in its own way.
#[test]
fn a_launchers_task_waits_for_the_run_that_another_process_has() {
    let project = project(STUDY);
    study(&project, &["--launcher", "command", "--template", "true {command}"]).done();
    let mut tasks = std::fs::read_dir(project.path("runs/studies/two/tasks")).unwrap();
    let path = tasks.next().unwrap().unwrap().path();
    let key = path.file_name().unwrap().to_str().unwrap()[..16].to_owned();
    let store = store(&project);
    let held = store.try_lock(&key).unwrap().unwrap();
    let mut task = project.start(&["task", path.to_str().unwrap()]);
    let mut said = BufReader::new(task.stderr.take().unwrap()).lines();
    let waits =
        said.by_ref().map_while(Result::ok).any(|line| line.contains("another process is working on"));
    assert!(waits && task.try_wait().unwrap().is_none() && !store.is_measured(&key));
    drop(held);
    said.for_each(drop);
    assert!(task.wait().unwrap().success());
    assert!(store.is_measured(&key), "it did the work");
}

/// What it trained would be filed as a run on the text that was planned.
#[test]
fn a_task_whose_text_changed_after_the_plan_is_refused() {
    let other = "\n[[evaluate]]\nlengths = [32]\ncorpus = \"other.txt\"\n";
    let project = project(&format!("{STUDY}{other}").replace("seeds = 2", "seeds = 1"));
    project.write("other.txt", &project.text("corpus/test/0.txt"));
    study(&project, &["--launcher", "command", "--template", "true {command}"]).done();
    let mut tasks = std::fs::read_dir(project.path("runs/studies/two/tasks")).unwrap();
    let path = tasks.next().unwrap().unwrap().path();
    let key = path.file_name().unwrap().to_str().unwrap()[..16].to_owned();
    for (name, told) in [
        (
            "corpus/train/new.txt",
            "the text of `data.corpus = \"corpus\"` changed after the study was planned",
        ),
        ("other.txt", "a text or a file that `evaluate` names changed after the study was planned"),
    ] {
        let before = project.exists(name).then(|| project.text(name));
        project.write(name, &format!("{} and more", project.text("corpus/test/0.txt")));
        project.run(&["task", path.to_str().unwrap()]).refuses(1, &[told, "hint: run the study again"]);
        assert!(!store(&project).is_measured(&key), "{name}");
        match before {
            Some(text) => project.write(name, &text),
            None => std::fs::remove_file(project.path(name)).unwrap(),
        }
    }
    project.ok(&["task", path.to_str().unwrap()]);
    assert!(store(&project).is_measured(&key), "the text is back");
}

#[test]
fn a_launchers_command_gives_the_same_numbers() {
    let local = project(STUDY);
    study(&local, &[]).done();
    let launched = project(STUDY);
    let template = ["--launcher", "command", "--template", "echo {key} >> handed; {command}", "--wait"];
    study(&launched, &template).done();
    assert_eq!(results(&launched), results(&local));
    assert_eq!(launched.text("handed").lines().count(), 4);
    study(&launched, &["--launcher", "command"]).refuses(2, &[]);
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
    let outcome = study(&project, &["--dry-run"]).done();
    assert!(
        outcome.stdout.contains("10000 runs, 10000 different, 10000 to be done (10000 trainings to do)"),
        "{}",
        outcome.stderr
    );
    assert_eq!(outcome.stdout.lines().filter(|line| line.contains("  open ")).count(), 10_000);
    assert!(outcome.stdout.contains("of one run after the other, "), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("at a time"), "{}", outcome.stderr);
    assert!(!project.exists("runs"));
}

#[test]
fn a_list_of_runs_counts_the_steps_of_all_stages() {
    let project = Project::new();
    let stage = "\n[[stage]]\nlength = \"L\"\nsteps = 4\n\n[[evaluate]]";
    project.write("small.toml", &project.text("small.toml").replacen("\n[[evaluate]]", stage, 1));
    project.write("two.toml", "name = \"two\"\nbase = \"small.toml\"\nseeds = 1");
    study(&project, &[]).done();
    let key = store(&project).keys().unwrap().remove(0);
    let listed = project.ok(&["runs"]).stdout;
    let line = listed.lines().find(|line| line.starts_with(&key)).unwrap();
    assert_eq!(line.split_whitespace().nth(3), Some("10"), "6 and 4 steps: {listed}");
}

#[test]
fn seeds_without_a_file_and_what_the_store_tells() {
    let project = Project::new();
    let outcome = project.ok(&["train", "--config", "small.toml", "--seeds", "2", "--device", "cpu"]);
    assert!(outcome.stdout.contains("±"), "{}", outcome.stdout);
    let keys = Store::new(&project.path("runs/store")).keys().unwrap();
    assert_eq!(keys.len(), 2);
    // What a file manager leaves among the studies is none of them.
    project.write("runs/studies/.DS_Store", "");
    let listed = project.ok(&["runs"]).stdout;
    assert!(keys.iter().all(|key| listed.contains(key)) && listed.contains("small-seeds"), "{listed}");
    let compared = project.ok(&["compare", &keys[0][..8], &format!("runs/store/{}", keys[1])]).stdout;
    // Three extensions and the baseline at two lengths, under two lines of heading.
    assert_eq!(compared.lines().filter(|line| line.contains(" to ")).count(), 8, "{compared}");
    let first = &project.ok(&["compare", &keys[0], &keys[1], "--json"]).rows::<serde_json::Value>()[0];
    assert_eq!((&first["documents"], &first["seeds"]), (&3.into(), &1.into()));
    let kept = project.ok(&["runs", "prune", "--yes"]);
    assert!(kept.stderr.contains("every run belongs to a study"), "{}", kept.stderr);
    // A study whose folder is elsewhere keeps its runs as well.
    std::fs::remove_dir_all(project.path("runs/studies/small-seeds")).unwrap();
    project.write("two.toml", "name = \"two\"\nbase = \"small.toml\"\nseeds = 2");
    study(&project, &["--out", "elsewhere"]).done();
    let kept = project.ok(&["runs", "prune", "--yes"]);
    assert!(kept.stderr.contains("every run belongs to a study"), "{}", kept.stderr);
    assert!(project.ok(&["runs"]).stdout.contains("elsewhere"));
    std::fs::remove_dir_all(project.path("elsewhere")).unwrap();
    assert!(project.ok(&["runs", "prune"]).stderr.contains("nothing is removed"));
    // It may have moved, or lie on a disk that is not there now.
    let refused = project.run(&["runs", "prune", "--yes"]).refused(1);
    assert!(refused.contains("elsewhere` ran in this store and is not there any more"), "{refused}");
    let is_record = |word: &&str| Path::new(word).extension().is_some_and(|extension| extension == "path");
    let record = refused.split('`').find(is_record).unwrap();
    std::fs::remove_file(project.path(record)).unwrap();
    assert!(project.ok(&["runs", "prune", "--yes"]).stdout.contains("removed"));
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
        let plan = longwave_study::Plan::new(&study, "cpu", &mut |content| match content {
            Content::Data(data) => Ok(data.corpus.clone()),
            Content::Corpus(_, name) | Content::KeyTokens(name) => Ok(name.to_owned()),
        });
        for run in &plan.runs {
            assert!(run.job.is_ok(), "{}: {}", run.title(), run.job.as_ref().unwrap_err());
        }
        study.claims.iter().for_each(|claim| longwave_study::judge::check(claim, &plan).unwrap());
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
