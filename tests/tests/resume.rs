//! Runs repeat bit for bit, and so does a run that was stopped anywhere.

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{Project, same};
use longwave_data::Dataset;
use longwave_eval::Config;
use longwave_train::run::Which;
use longwave_train::trainer::open_folder;
use longwave_train::{Outcome, Run, Start, Trainer};
use std::cell::Cell;
use std::path::Path;

const MODEL: &str = "checkpoints/last.safetensors";
const RUN: &str = "runs/small-0";

fn result_bytes(project: &Project, run: &str) -> Vec<u8> {
    project.read(&format!("{run}/results.jsonl"))
}

#[test]
fn two_runs_of_one_seed_are_the_same_and_another_seed_differs() {
    let project = Project::new();
    project.train(&["--out", "a"]);
    project.train(&["--out", "b"]);
    project.train(&["--out", "c", "--set", "seed=1"]);
    assert!(same(&project.path("a").join(MODEL), &project.path("b").join(MODEL)));
    assert_eq!(result_bytes(&project, "a"), result_bytes(&project, "b"));
    assert!(!same(&project.path("a").join(MODEL), &project.path("c").join(MODEL)));
}

/// Trains in `folder` until `stop` has been asked so many times.
fn train_until(project: &Project, folder: &str, asked: usize, changes: &[String]) -> Outcome {
    let mut config = Config::load(&project.path("small.toml"), changes).unwrap();
    let data = &mut config.run.data;
    for part in [&mut data.corpus, &mut data.cache].into_iter().filter(|part| !part.is_empty()) {
        *part = project.path(part).to_string_lossy().into_owned();
    }
    let dataset = Dataset::open(&config.run.data, &mut |_| {}).unwrap();
    let resolved =
        config.run.model.resolve(dataset.tokenizer().vocab_size(), config.run.train.length).unwrap();
    let hash = config.run.hash(dataset.content_hash()).unwrap();
    let (run, start) = Run::prepare(&project.path(folder), config.run.clone(), hash, true).unwrap();
    let from = match &start {
        Start::Resume(checkpoint) => Some(&**checkpoint),
        Start::Fresh | Start::Finished => None,
    };
    open_folder(&run, &config.to_table().unwrap(), &dataset).unwrap();
    let device = burn::tensor::Device::flex();
    let count = Cell::new(0);
    let stop = || {
        count.set(count.get() + 1);
        count.get() > asked
    };
    Trainer::new(&run, &dataset, &resolved, &device, from).unwrap().train(&stop, &mut |_| {}).unwrap()
}

fn last(project: &Project, folder: &str) -> std::path::PathBuf {
    project.path(folder).join(MODEL)
}

/// Two passes make a step: an odd count stops between the parts of a batch.
fn stopped_twice(changes: &[String]) {
    let project = Project::new();
    assert_eq!(train_until(&project, "whole", usize::MAX, changes), Outcome::Done);
    for (first, second) in [(1, 4), (3, 2), (5, 5)] {
        let folder = format!("stopped-{first}-{second}");
        assert_eq!(train_until(&project, &folder, first, changes), Outcome::Interrupted);
        assert_eq!(train_until(&project, &folder, second, changes), Outcome::Interrupted);
        assert_eq!(train_until(&project, &folder, usize::MAX, changes), Outcome::Done);
        assert!(same(&last(&project, "whole"), &last(&project, &folder)), "{first} then {second}");
        assert_eq!(steps(&project, &folder), steps(&project, "whole"));
    }
}

/// The steps and losses of `metrics.jsonl`, without the seconds.
fn steps(project: &Project, folder: &str) -> Vec<(u64, f64)> {
    let text = String::from_utf8(project.read(&format!("{folder}/metrics.jsonl"))).unwrap();
    let lines =
        text.lines().map(|line| serde_json::from_str::<longwave_train::metrics::Metric>(line).unwrap());
    lines.map(|metric| (metric.step, metric.loss)).collect()
}

#[test]
fn a_run_stopped_anywhere_and_twice_ends_with_the_same_bits() {
    stopped_twice(&[]);
}

#[test]
fn so_does_one_with_dropout_a_shuffled_order_and_a_learned_table() {
    let changes = ["model.dropout=0.1", "train.sampling=shuffled", "position.kind=learned", "evaluate=[]"];
    stopped_twice(&changes.map(str::to_owned));
}

#[test]
fn so_does_one_at_drawn_positions() {
    for (position, positions) in [
        ("{ kind = \"learned\", table_size = 64 }", "{ kind = \"pose\", max_position = 64 }"),
        ("{ kind = \"alibi\" }", "{ kind = \"randpos\", max_position = 64 }"),
    ] {
        let changes = [
            format!("position={position}"),
            format!("train.positions={positions}"),
            "evaluate=[]".to_owned(),
        ];
        stopped_twice(&changes);
    }
}

#[test]
fn so_does_one_that_carries_a_memory() {
    // Lanes of two windows: each third step begins them again.
    let changes = [
        "position={ kind = \"transformer_xl\", memory = 40 }",
        "train.sampling=sequential",
        "train.batch_tokens=8192",
        "evaluate=[]",
    ];
    stopped_twice(&changes.map(str::to_owned));
}

#[test]
fn so_do_complex_maps_and_a_mixed_stack() {
    let stack = "position={ kind = \"mixed\", layers = [{ kind = \"complex_order\", complex = true }, { encodings = \
                 [\"learned\", \"kerple\"], window = 9, log_n = true }] }";
    stopped_twice(&[stack, "evaluate=[]"].map(str::to_owned));
}

#[test]
fn so_does_one_that_learns_a_task() {
    let changes = ["data={ task = { kind = \"reverse_string\" } }", "evaluate=[]"];
    stopped_twice(&changes.map(str::to_owned));
}

#[test]
fn a_memory_that_is_lost_shows() {
    let project = Project::new();
    let changes = ["position={ kind = \"transformer_xl\", memory = 40 }", "train.sampling=sequential"];
    let changes = changes.map(str::to_owned);
    assert_eq!(train_until(&project, "run", 7, &changes), Outcome::Interrupted);
    let checkpoint = last(&project, "run");
    let stored = longwave_train::Checkpoint::load(&checkpoint).unwrap();
    let (fresh, device) = (vec![longwave_model::Memory::new(40); 2], burn::tensor::Device::flex());
    let memories = stored.memories(fresh.clone(), &device).unwrap();
    assert_eq!((memories[1].layers().len(), memories[1].tokens()), (2, 40));
    std::fs::copy(project.path("run/checkpoints/best.safetensors"), &checkpoint).unwrap();
    let best = longwave_train::Checkpoint::load(&checkpoint).unwrap();
    assert!(best.memories(fresh, &device).unwrap_err().message().contains("memory.0.0"));
}

#[test]
fn rows_that_do_not_continue_cannot_carry_a_memory() {
    let project = Project::new();
    let arguments = ["train", "--config", "small.toml", "--set", "position={ kind = \"xlnet\", memory = 8 }"];
    let outcome = project.run(&arguments);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("hint: set `train.sampling = \"sequential\"`"), "{}", outcome.stderr);
}

#[test]
fn a_finished_wsd_run_goes_on_as_if_it_had_been_longer() {
    let project = Project::new();
    let changes = |steps: u64| {
        ["train.schedule=wsd", "train.warmup=2", &format!("train.steps={steps}")].map(str::to_owned).to_vec()
    };
    assert_eq!(train_until(&project, "grown", usize::MAX, &changes(6)), Outcome::Done);
    assert_eq!(train_until(&project, "grown", usize::MAX, &changes(10)), Outcome::Done);
    assert_eq!(train_until(&project, "whole", usize::MAX, &changes(10)), Outcome::Done);
    assert!(same(&last(&project, "grown"), &last(&project, "whole")));
    assert!(
        Path::new(&project.path("grown/checkpoints"))
            .join(format!("{}.safetensors", Which::Stable.name()))
            .exists()
    );
}

#[test]
fn a_resumed_evaluation_measures_only_what_is_missing() {
    let project = Project::new();
    project.train(&[]);
    let rows = result_bytes(&project, RUN);
    let text = String::from_utf8(rows.clone()).unwrap();
    let first = text.lines().next().unwrap();
    // A row that says something no measurement would: it must be believed, not made again.
    let kept = first.replacen("\"device\":\"CPU\"", "\"device\":\"kept\"", 1);
    assert_ne!(first, kept);
    project.write(&format!("{RUN}/results.jsonl"), &format!("{kept}\n"));
    project.train(&["--resume"]);
    let again = String::from_utf8(result_bytes(&project, RUN)).unwrap();
    assert_eq!(again.lines().next(), Some(kept.as_str()));
    assert!(again.lines().skip(1).eq(text.lines().skip(1)));
}

#[cfg(unix)]
#[test]
fn sigterm_writes_a_checkpoint_and_exits_130() {
    let project = Project::new();
    let arguments =
        ["train", "--config", "small.toml", "--set", "train.steps=100000", "--set", "train.validate_every=5"];
    let child = project.start(&arguments);
    let checkpoint = project.path(RUN).join(MODEL);
    let start = std::time::Instant::now();
    while !checkpoint.exists() {
        assert!(start.elapsed().as_secs() < 120, "no checkpoint");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let killed =
        std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("hint: the same command with `--resume` goes on from there"), "{stderr}");
    assert!(longwave_train::Checkpoint::load(&checkpoint).unwrap().meta.step >= 5);
}
