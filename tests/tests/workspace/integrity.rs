//! What was damaged on the disk is noticed and named, and training goes on from what is whole.

use crate::common::{Project, RUN, rows_files, same};
use longwave_core::random::Stream;
use longwave_train::checkpoint::Checkpoint;
use std::fs;

const LAST: &str = "runs/small-0/checkpoints/last.safetensors";
const PREVIOUS: &str = "runs/small-0/checkpoints/previous.safetensors";
const RESULTS: &str = "runs/small-0/results.jsonl";
const EVAL: [&str; 4] = ["eval", RUN, "--device", "cpu"];

/// A run of six steps with a checkpoint after every second.
fn trained() -> Project {
    let project = Project::new();
    project.train(&["--set", "train.checkpoint_every=2"]);
    project
}

fn resume(project: &Project) -> String {
    project.train(&["--set", "train.checkpoint_every=2", "--resume"]).stderr
}

fn flip(project: &Project, name: &str, place: usize, bit: u32) {
    let mut bytes = project.read(name);
    bytes[place] ^= 1 << bit;
    fs::write(project.path(name), bytes).unwrap();
}

#[test]
fn training_goes_on_from_the_newest_checkpoint_that_is_whole() {
    let project = trained();
    fs::copy(project.path(LAST), project.path("whole")).unwrap();
    flip(&project, LAST, project.read(LAST).len() - 9, 6);
    let (code, message) = (1, "last.safetensors` is damaged: the content of `");
    let said = project.refused(code, &EVAL);
    assert!(said.contains(message) && said.contains("hint: `longwave train` with `--resume`"), "{said}");
    let previous = project.run(&[&EVAL[..], &["--checkpoint", "previous"]].concat());
    assert!(previous.code == Some(0) && previous.stderr.contains(message), "{}", previous.stderr);
    let said = resume(&project);
    assert!(said.contains(message) && said.contains("it is left out"), "{said}");
    assert!(said.contains("resuming after step 4"), "{said}");
    assert!(same(&project.path(LAST), &project.path("whole")));
    // The good one was not replaced by the damaged one.
    assert_eq!(Checkpoint::load(&project.path(PREVIOUS)).unwrap().meta.step, 4);
    for name in [LAST, PREVIOUS] {
        flip(&project, name, project.read(name).len() - 9, 6);
    }
    let arguments =
        ["train", "small.toml", "--device", "cpu", "--set", "train.checkpoint_every=2", "--resume"];
    project.refuses(1, &arguments, &["remove the folder `runs/small-0/checkpoints`"]);
    fs::remove_dir_all(project.path("runs/small-0/checkpoints")).unwrap();
    resume(&project);
    assert!(same(&project.path(LAST), &project.path("whole")));
}

#[test]
fn a_row_that_was_altered_is_named_by_its_line() {
    let project = trained();
    let whole = project.text(RESULTS);
    let second = whole.find('\n').unwrap() + 1;
    let line = whole[second..].find('\n').unwrap();
    let mut stream = Stream::new(2, "flips", 0);
    for _ in 0..8 {
        // Of the last bits only: the file stays text.
        flip(&project, RESULTS, second + stream.below(line as u64 - 1) as usize, 0);
        project.refuses(1, &["report", RUN], &["results.jsonl` line 2 is no", "hint: take that line out"]);
        project.write(RESULTS, &whole);
    }
    project.write(RESULTS, &whole[..second + line / 2]);
    project.refuses(1, &["report", RUN], &["line 2 is no"]);
}

#[test]
fn metrics_that_lack_steps_of_the_checkpoint_are_named() {
    let project = trained();
    let metrics = format!("{RUN}/metrics.jsonl");
    let whole = project.text(&metrics);
    let arguments =
        ["train", "small.toml", "--device", "cpu", "--set", "train.checkpoint_every=2", "--resume"];
    // Half of the training is still to be done.
    fs::copy(project.path(PREVIOUS), project.path(LAST)).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let inside_line_2 = lines[0].len() + 1 + lines[1].len() / 2;
    for (text, said) in [
        (lines[..2].join("\n") + "\n", "metrics.jsonl` lacks the metrics of the steps from 3 to 4"),
        (
            [lines[0], lines[2], lines[3]].join("\n"),
            "metrics.jsonl` lacks the metrics of the steps from 2 to 2",
        ),
        (whole[..inside_line_2].to_owned(), "metrics.jsonl` line 2 is no step's metrics"),
        (
            whole.replacen("\"loss\":", "\"lass\":", 1),
            "metrics.jsonl` line 1 is no step's metrics: it was cut or altered",
        ),
    ] {
        project.write(&metrics, &text);
        project.refuses(1, &arguments, &[said, "\n\nhint: bring a copy of the file back, or remove it"]);
        assert_eq!(project.text(&metrics), text, "nothing is thrown away");
    }
    // What a kill cuts is past the checkpoint, and a line without a checksum is believed.
    let unsealed = format!("{}}}", &lines[0][..lines[0].rfind(",\"checksum\"").unwrap()]);
    let believed = whole.replacen(lines[0], &unsealed, 1);
    project.write(&metrics, &believed[..believed.len() - 9]);
    resume(&project);
    let again = project.text(&metrics);
    assert_eq!((again.lines().next(), again.lines().count()), (Some(&*unsealed), 6));
    fs::remove_file(project.path(&metrics)).unwrap();
    fs::copy(project.path(PREVIOUS), project.path(LAST)).unwrap();
    resume(&project);
    assert_eq!(project.text(&metrics).lines().count(), 2);
}

/// A file without its last lines.
fn cut(project: &Project, name: &str, lines: usize) {
    let whole = project.text(name);
    let kept = whole.lines().count() - lines;
    project.write(name, &(whole.lines().take(kept).collect::<Vec<_>>().join("\n") + "\n"));
}

#[test]
fn rows_that_were_cut_off_at_the_end_are_named_and_measured_again() {
    let project = trained();
    let whole = project.read(RESULTS);
    cut(&project, RESULTS, 2);
    for arguments in [&["report", RUN][..], &["compare", RUN, RUN]] {
        project.refuses(
            1,
            arguments,
            &[
                "results.jsonl` has 6 of the 8 lines that it had when it was finished",
                "hint: `longwave eval runs/small-0`",
            ],
        );
    }
    let again = project.ok(&EVAL);
    assert!(again.stderr.contains("has 6 of the 8 lines"), "{}", again.stderr);
    assert_eq!(project.read(RESULTS), whole);
    // Whoever takes rows out on purpose takes the count out too.
    cut(&project, RESULTS, 2);
    fs::remove_file(project.path("runs/small-0/results.lines.json")).unwrap();
    project.ok(&["report", RUN]);
}

#[test]
fn metrics_that_were_cut_off_at_the_end_are_named() {
    let project = trained();
    let metrics = format!("{RUN}/metrics.jsonl");
    let whole = project.text(&metrics);
    cut(&project, &metrics, 1);
    project.refuses(
        1,
        &["report", RUN],
        &[
            "metrics.jsonl` has 5 of the 6 lines that it had when it was finished",
            "hint: bring a copy of the file back; or remove",
        ],
    );
    project.write(&metrics, &whole);
    project.ok(&["report", RUN]);
    // A run that goes on from an earlier checkpoint has fewer steps for a time, and the file is whole.
    fs::copy(project.path(PREVIOUS), project.path(LAST)).unwrap();
    let arguments =
        ["train", "small.toml", "--device", "cpu", "--set", "train.checkpoint_every=2", "--resume"];
    let ended_at = |operation: usize| {
        let project = project.copied();
        let fault = format!("kill:{operation}:{}", project.path("mark").display());
        let outcome = project.run_with("LONGWAVE_FAULT", &fault, &arguments);
        assert_ne!(outcome.code, Some(0), "it does not come to operation {operation}");
        project
    };
    // Ended between the checkpoints of step 4 and step 6.
    let is_between = |project: &Project| project.text(&metrics).lines().count() == 4;
    let project = (1..100).map(ended_at).find(is_between).unwrap();
    project.ok(&["report", RUN]);
}

#[test]
fn rows_of_a_study_that_were_cut_off_are_named_and_measured_again() {
    let project = Project::new();
    project.write(
        "one.toml",
        "name = \"one\"\nbase = \"small.toml\"\nthreads = 1\n[set]\ntrain.steps = 2\n\n[[evaluate]]\nlengths = [32, 64]\n",
    );
    let study = ["study", "one.toml"];
    project.ok(&study);
    let store = fs::read_dir(project.path("runs/store")).unwrap().map(|entry| entry.unwrap().path());
    let run = store.into_iter().find(|path| path.join("config.toml").exists()).unwrap();
    let rows = rows_files(&run).remove(0);
    let whole = fs::read_to_string(&rows).unwrap();
    fs::write(&rows, whole.lines().next().unwrap().to_owned() + "\n").unwrap();
    project.run(&study).refuses(1, &["has 1 of the 4 lines", "hint: remove `"]);
    fs::remove_file(&rows).unwrap();
    project.ok(&study);
    assert_eq!(fs::read_to_string(&rows).unwrap(), whole);
}

#[test]
fn the_tokenizer_of_a_run_and_of_an_export_is_the_one_of_its_training() {
    let project = trained();
    project.ok(&["export", RUN, "exported"]);
    let damage = |name: &str| project.write(name, &project.text(name).replacen("66", "67", 1));
    damage("exported/tokenizer.json");
    let said = project.refused(1, &["import", "exported", "--out", "back"]);
    assert!(said.contains("exported/tokenizer.json` is not the one that was exported"), "{said}");
    damage(&format!("{RUN}/tokenizer.json"));
    for arguments in [&EVAL[..], &["export", RUN, "again"], &["generate", RUN, "--prompt", "the"]] {
        project.refuses(1, arguments, &["tokenizer.json` has changed since the run was trained"]);
    }
    resume(&project);
    project.ok(&EVAL);
}
