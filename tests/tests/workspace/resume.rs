//! Runs repeat bit for bit, and so does a run that was stopped anywhere.

use crate::common::trainer::{metrics, train_until};
use crate::common::{self, LAST, Project, RUN, same};
#[cfg(unix)]
use crate::common::{signal, wait_until};
use longwave_train::Outcome;
use std::fs;
use std::path::PathBuf;

#[test]
fn two_runs_of_one_seed_are_the_same_and_another_seed_differs() {
    let project = Project::new();
    project.train(&["--out", "a"]);
    project.train(&["--out", "b"]);
    project.train(&["--out", "c", "--set", "seed=1"]);
    assert!(same(&project.path("a").join(LAST), &project.path("b").join(LAST)));
    assert_eq!(project.read("a/results.jsonl"), project.read("b/results.jsonl"));
    assert!(!same(&project.path("a").join(LAST), &project.path("c").join(LAST)));
}

#[test]
fn resume_without_a_run_begins_one_and_says_so() {
    let project = Project::new();
    let said = "`a` holds no run yet, so one begins";
    assert!(project.train(&["--out", "a", "--resume"]).stderr.contains(said));
    assert!(!project.train(&["--out", "a", "--resume"]).stderr.contains(said));
}

/// A row without its checksum, as somebody leaves it who changes it on purpose.
fn unsealed(line: &str) -> String {
    format!("{}}}", &line[..line.rfind(",\"checksum\"").unwrap()])
}

fn last(project: &Project, folder: &str) -> PathBuf {
    project.path(folder).join(LAST)
}

/// Training on numbers with the places of their digits.
const ON_NUMBERS: &[&str] = &[
    "data={ task = { kind = \"binary_addition\" } }",
    "position.kind=abacus",
    "position.max_offset=50",
    "train.validate_every=6",
    "train.validation_tokens=256",
    "evaluate=[]",
];

/// What is stopped twice, by what it is about.
const RUNS: &[(&str, &[&str])] = &[
    ("the config as it is", &[]),
    ("an encoding that draws offsets", ON_NUMBERS),
    (
        "dropout, a shuffled order and a learned table",
        &["model.dropout=0.1", "train.sampling=shuffled", "position.kind=learned", "evaluate=[]"],
    ),
    (
        "positions with gaps",
        &[
            "position={ kind = \"learned\", table_size = 64 }",
            "train.positions={ kind = \"pose\", max_position = 64 }",
            "evaluate=[]",
        ],
    ),
    (
        "drawn positions",
        &[
            "position={ kind = \"alibi\" }",
            "train.positions={ kind = \"randpos\", max_position = 64 }",
            "evaluate=[]",
        ],
    ),
    ("f16", &["train.precision=f16", "evaluate=[]"]),
    ("bf16", &["train.precision=bf16", "evaluate=[]"]),
    (
        // Lanes of two windows: each third step begins them again.
        "a memory",
        &[
            "position={ kind = \"transformer_xl\", memory = 40 }",
            "train.sampling=sequential",
            "train.batch_tokens=8192",
            "evaluate=[]",
        ],
    ),
    (
        "complex maps and a mixed stack",
        &[
            "position={ kind = \"mixed\", layers = [{ kind = \"complex_order\", complex = true }, { encodings = \
             [\"learned\", \"kerple\"], window = 9, log_n = true }] }",
            "evaluate=[]",
        ],
    ),
    (
        "muon through a stage",
        &[
            "train.optimizer={ kind = \"muon\", momentum = 0.9 }",
            "model.feed_forward=swiglu",
            "model.kv_heads=1",
            "train.steps=3",
            "stage=[{ length = 64, steps = 3, optimizer = \"keep\" }]",
            "evaluate=[]",
        ],
    ),
    ("no norms and a squared relu", &["model.norm=dyt", "model.feed_forward=relu_squared", "evaluate=[]"]),
    ("a task", &["data={ task = { kind = \"reverse_string\" } }", "evaluate=[]"]),
    (
        "a memory through a stage",
        &[
            "position={ kind = \"transformer_xl\", memory = 40 }",
            "train.sampling=sequential",
            "train.steps=2",
            "stage=[{ length = 64, steps = 3 }]",
            "evaluate=[]",
        ],
    ),
    (
        "a stage with positions of its own",
        &[
            "train.steps=2",
            "stage=[{ length = 32, steps = 3, extend = \"linear\", positions = { kind = \"pose\" } }]",
            "evaluate=[]",
        ],
    ),
];

/// Two passes make a step: an odd count stops between the parts of a batch.
fn stopped_twice((name, changes): &(&str, &[&str])) {
    let project = Project::new();
    assert_eq!(train_until(&project, "whole", usize::MAX, changes), Outcome::Done, "{name}");
    for (first, second) in [(1, 4), (3, 2), (5, 5)] {
        let folder = format!("stopped-{first}-{second}");
        assert_eq!(train_until(&project, &folder, first, changes), Outcome::Interrupted, "{name}");
        assert_eq!(train_until(&project, &folder, second, changes), Outcome::Interrupted, "{name}");
        assert_eq!(train_until(&project, &folder, usize::MAX, changes), Outcome::Done, "{name}");
        assert!(same(&last(&project, "whole"), &last(&project, &folder)), "{name}: {first} then {second}");
        assert_eq!(steps(&project, &folder), steps(&project, "whole"), "{name}");
    }
}

/// The steps and losses of `metrics.jsonl`, without the seconds.
pub(super) fn steps(project: &Project, folder: &str) -> Vec<(u64, f64)> {
    metrics(project, folder).into_iter().map(|metric| (metric.step, metric.loss)).collect()
}

#[test]
fn runs_stopped_anywhere_and_twice_end_with_the_same_bits() {
    RUNS.iter().step_by(2).for_each(stopped_twice);
}

/// Another half, for another thread.
#[test]
fn so_do_the_others() {
    RUNS.iter().skip(1).step_by(2).for_each(stopped_twice);
}

#[test]
fn an_offset_that_an_encoding_draws_reaches_training() {
    let project = Project::new();
    for (folder, more) in [("without", &["position.max_offset=0"][..]), ("with", &[])] {
        let changes = [ON_NUMBERS, more].concat();
        assert_eq!(train_until(&project, folder, usize::MAX, &changes), Outcome::Done);
    }
    // The same weights and batches: the places of digits alone differ.
    let [without, with] = ["without", "with"].map(|folder| steps(&project, folder));
    assert_ne!(without[0].1.to_bits(), with[0].1.to_bits());
    assert!((without[0].1 - with[0].1).abs() < 0.1, "{} {}", without[0].1, with[0].1);
}

#[test]
fn a_memory_that_is_lost_shows() {
    let project = Project::new();
    let changes = ["position={ kind = \"transformer_xl\", memory = 40 }", "train.sampling=sequential"];
    assert_eq!(train_until(&project, "run", 7, &changes), Outcome::Interrupted);
    let checkpoint = last(&project, "run");
    let stored = longwave_train::Checkpoint::load(&checkpoint).unwrap();
    let (fresh, device) = (vec![longwave_model::SegmentMemory::new(40); 2], burn::tensor::Device::flex());
    let memories = stored.memories(fresh.clone(), &device).unwrap();
    assert_eq!((memories[1].layers().len(), memories[1].tokens()), (2, 40));
    fs::copy(project.path("run/checkpoints/best.safetensors"), &checkpoint).unwrap();
    let best = longwave_train::Checkpoint::load(&checkpoint).unwrap();
    assert!(best.memories(fresh, &device).unwrap_err().message().contains("memory.0.0"));
}

#[test]
fn rows_that_do_not_continue_cannot_carry_a_memory() {
    let project = Project::new();
    let arguments = ["train", "--config", "small.toml", "--set", "position={ kind = \"xlnet\", memory = 8 }"];
    project.refuses(2, &arguments, &["hint: set `train.sampling = \"sequential\"`"]);
}

/// The rows of a finished evaluation, each marked as measured elsewhere, must all be believed.
#[test]
fn an_evaluation_again_measures_nothing_also_with_lists_a_search_and_other_protocols() {
    let project = Project::new();
    project.train(&["--set", "evaluate=[]"]);
    let extend = "direct,linear,dual_chunk";
    let arguments = [
        "--set",
        "windows_per_document=1",
        "--extend",
        extend,
        "--extend",
        "{ kind = \"rerope\", window = [\"L/4\", \"L/2\"] }",
        "--extend",
        "{ kind = \"yarn\", beta = [16, 32], log_n = [true, false] }",
        "--extend",
        "{ kind = \"longrope\", search = { budget = 10, population = 4, parents = 2 } }",
    ];
    let eval = |protocol: &str| {
        let first = ["eval", RUN, "--json", "--lengths", "32,64", "--protocol", protocol];
        project.ok(&[&first[..], &arguments].concat())
    };
    let protocols = ["fixed_target", "non_overlapping", "sliding", "by_position"];
    for protocol in protocols {
        eval(protocol);
    }
    let path = format!("{RUN}/results.jsonl");
    let rows = project.text(&path);
    let kept =
        rows.lines().map(|line| unsealed(line).replace("\"device\":\"CPU\"", "\"device\":\"kept\"") + "\n");
    project.write(&path, &kept.collect::<String>());
    let kept = project.read(&path);
    for protocol in protocols {
        let again = eval(protocol);
        let mut lines = 0;
        for line in again.stdout.lines() {
            assert!(line.contains("\"device\":\"kept\""), "measured again: {line}");
            lines += 1;
        }
        // On validation 2 x 2 and 4 x 2 and the search; on test 6 x 2 and the baseline.
        assert_eq!(lines, 13 + 12 + 2, "{protocol}");
        assert!(again.stderr.contains("chosen    rerope: window = "), "{}", again.stderr);
    }
    assert_eq!(project.read(&path), kept);
    // One row gone is one row measured.
    let text = String::from_utf8(kept).unwrap();
    let (index, gone) = text
        .lines()
        .enumerate()
        .find(|(_, line)| line.contains("\"extend\":\"rerope\"") && line.contains("\"split\":\"test\""))
        .unwrap();
    let others: Vec<&str> = text.lines().filter(|line| *line != gone).collect();
    project.write(&path, &(others.join("\n") + "\n"));
    eval("fixed_target");
    let now = project.text(&path);
    assert_eq!(now.lines().filter(|line| line.contains("\"device\":\"CPU\"")).count(), 1);
    assert_eq!(now.lines().count(), text.lines().count(), "row {index}");
}

#[cfg(unix)]
#[test]
fn sigterm_writes_a_checkpoint_and_exits_130() {
    let project = Project::new();
    let arguments =
        ["train", "--config", "small.toml", "--set", "train.steps=100000", "--set", "train.validate_every=5"];
    let child = project.start(&arguments);
    let checkpoint = project.path(RUN).join(LAST);
    wait_until("a checkpoint", || checkpoint.exists());
    signal("-TERM", &child.id().to_string());
    let common::Outcome { code, stderr, .. } = common::Outcome::at_end(child);
    assert_eq!(code, Some(130), "{stderr}");
    assert!(stderr.contains("hint: the same command with `--resume` goes on from there"), "{stderr}");
    let step = longwave_train::Checkpoint::load(&checkpoint).unwrap().meta.step;
    assert!(step >= 5);
    assert!(stderr.contains(&format!("trained   to step {step} of 100,000 in 0:")), "{stderr}");
    // What is read of it says that it is no end.
    for id in ["last", "best"] {
        let outcome = project.ok(&["eval", RUN, "--lengths", "32", "--extend", "direct", "--checkpoint", id]);
        let warning =
            format!("it has come to step {step} of 100000; `longwave train` with `--resume` goes on");
        assert!(outcome.stderr.contains(&warning), "{}", outcome.stderr);
    }
}

#[test]
fn a_run_that_was_killed_before_its_config_is_taken_over() {
    let project = Project::new();
    let parts =
        ["runs/small-0/.config.toml.999999.part", "runs/small-0/checkpoints/.last.safetensors.999999.part"];
    let leave = || {
        for part in parts {
            project.write(part, "half");
        }
    };
    leave();
    project.write("runs/small-0/notes.txt", "mine");
    project.refuses(2, &["train", "small.toml", "--device", "cpu"], &["is not empty and holds no run"]);
    fs::remove_file(project.path("runs/small-0/notes.txt")).unwrap();
    project.refuses(2, &["train", "small.toml", "--device", "cpu"], &["is not empty and holds no run"]);
    // Checkpoints are written after the config, into the folder that is locked before it.
    fs::remove_file(project.path(parts[1])).unwrap();
    assert!(project.exists("runs/small-0/checkpoints"));
    project.train(&["--resume"]);
    assert!(!project.exists(parts[0]));
    // What was left beside later is removed by whoever goes on.
    leave();
    project.train(&["--resume"]);
    assert!(parts.iter().all(|part| !project.exists(part)));
}
