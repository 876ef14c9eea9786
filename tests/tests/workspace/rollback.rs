//! `train.on_non_finite = "rollback"`: a batch that spoils a step is left out, and all else stays as it was.

use crate::common::trainer::{Metric, metrics};
use crate::common::{LAST, Project, RUN, same, set};
use burn::tensor::Device;
use longwave_data::Dataset;
use longwave_experiment::Config;
use longwave_train::Checkpoint;
use longwave_train::batch::TrainBatch;

/// The program with the encoding `nan`.
pub(super) const PROGRAM: &str = env!("CARGO_BIN_EXE_longwave-wrong");

const ROLLBACK: &str = "train.on_non_finite=rollback";

/// An assignment of the encoding that makes NaN of the last parts of these batches, in block 1.
pub(super) fn spoiled(project: &Project, batches: &[u64]) -> String {
    format!("position={}", spoiling(project, &[], batches))
}

/// That encoding, for the batches of a config with these changes.
fn spoiling(project: &Project, changes: &[&str], batches: &[u64]) -> String {
    let changes: Vec<String> = changes.iter().map(|&change| change.to_owned()).collect();
    let mut config = Config::load(&project.path("small.toml"), &changes).unwrap();
    let data = &mut config.run.data;
    data.corpus = project.path(&data.corpus).to_string_lossy().into_owned();
    data.cache = project.path(".cache").to_string_lossy().into_owned();
    let dataset = Dataset::open(&config.run.data, &mut |_| {}).unwrap();
    let sum = |number: &u64| {
        let batch = TrainBatch::of_step(&config.run, 0, &dataset, *number).unwrap();
        let part = config.run.train.accumulation - 1;
        let tokens = batch.micro_batch(&config.run.train, part, &Device::flex()).inputs;
        let tokens = tokens.into_data_as::<i32>().try_to_vec::<i32>().unwrap();
        tokens.into_iter().map(i64::from).sum::<i64>()
    };
    let sums: Vec<i64> = batches.iter().map(sum).collect();
    format!("{{ kind = \"nan\", sums = {sums:?} }}")
}

fn with<'a>(folder: &'a str, changes: &[&'a str]) -> Vec<&'a str> {
    let arguments = ["train", "small.toml", "--device", "cpu", "--out", folder, "--resume"];
    [&arguments[..], &set(&[&["evaluate=[]"], changes].concat())].concat()
}

fn left_out(metrics: &[Metric]) -> Vec<(u64, u64)> {
    let some = metrics.iter().filter(|metric| metric.skipped_batches > 0);
    some.map(|metric| (metric.step, metric.skipped_batches)).collect()
}

/// The bits of a checkpoint's weights by name.
fn weights(project: &Project, folder: &str, name: &str) -> Vec<(String, Vec<u32>)> {
    let checkpoint = Checkpoint::load(&project.path(folder).join("checkpoints").join(name)).unwrap();
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
    checkpoint.parameters().into_iter().map(|(name, values)| (name.to_owned(), bits(values))).collect()
}

fn skipped_batches(project: &Project, folder: &str) -> Vec<u64> {
    Checkpoint::load(&project.path(folder).join(LAST)).unwrap().meta.skipped_batches
}

#[test]
fn a_batch_that_spoils_a_step_is_left_out_and_told() {
    let project = Project::with_program(PROGRAM);
    let spoiled = spoiled(&project, &[4]);
    let changes = [spoiled.as_str(), "train.checkpoint_every=3", ROLLBACK];
    let outcome = project.ok(&with(RUN, &changes));
    for said in [
        "step 5: loss NaN, gradient norm NaN at learning rate ",
        ": what the encoding `nan` makes of the input of `blocks.1` became non-finite first (4096 of 4096 numbers); ",
        "; the last good checkpoint is `",
        "checkpoints/last.safetensors` (step 3); training goes on from step 3 and leaves the batch out",
        "1 batch was left out, whose loss or gradient was not finite",
        "trained   to step 6 of 6",
    ] {
        assert!(outcome.stderr.contains(said), "{said}: {}", outcome.stderr);
    }
    let found = metrics(&project, RUN);
    assert_eq!(found.iter().map(|metric| metric.step).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    assert!(found.iter().all(|metric| metric.loss.is_finite() && metric.gradient_norm > 0.0));
    assert_eq!((left_out(&found), skipped_batches(&project, RUN)), (vec![(5, 1)], vec![4]));
    assert!(project.exists("runs/small-0/metrics.lines.json"));
    if cfg!(target_os = "linux") {
        assert!(found.iter().all(|metric| metric.resident_mib.is_some_and(|mib| mib > 1.0)), "{found:?}");
    }

    project.ok(&with("again", &changes));
    assert!(same(&project.path(RUN).join(LAST), &project.path("again").join(LAST)));
}

#[test]
fn without_the_key_the_run_ends_and_goes_on_with_it() {
    let project = Project::with_program(PROGRAM);
    // More than may be left out after one checkpoint.
    let spoiled = spoiled(&project, &[0, 1, 3, 6]);
    let changes = [spoiled.as_str(), "train.checkpoint_every=2"];
    let rollback = [&changes[..], &[ROLLBACK]].concat();
    project.ok(&with("whole", &rollback));
    assert_eq!(left_out(&metrics(&project, "whole")), [(1, 2), (2, 1), (4, 1)]);

    let evaluated = [&changes[..], &["evaluate.extend=direct"]].concat();
    let arguments = ["train", "small.toml", "--device", "cpu", "--out", RUN];
    project.run(&[&arguments[..], &set(&evaluated)].concat()).refuses(
        1,
        &["; there is no checkpoint yet\n", "`train.on_non_finite = \"rollback\"` leaves such a batch out\n"],
    );
    assert!(!project.exists("runs/small-0/results.jsonl"), "a table of a broken model");
    project.ok(&with(RUN, &rollback));
    assert!(same(&project.path("whole").join(LAST), &project.path(RUN).join(LAST)));
    assert_eq!(skipped_batches(&project, RUN), [0, 1, 3, 6]);
    // Without it, what is left out stays so.
    let longer = [&changes[..], &["stage=[{ length = 32, steps = 3 }]"]].concat();
    project.ok(&with(RUN, &longer));
    assert_eq!(skipped_batches(&project, RUN), [0, 1, 3, 6]);
}

/// Going back within the process gives the same bits as ending it and resuming, so the stream of the dropout goes back too. (An
/// encoding with a segment memory stands alone, without the one that spoils a batch here; its memory is a part of the
/// checkpoint, from which going back builds the trainer.)
#[test]
fn dropout_goes_back_too() {
    let project = Project::with_program(PROGRAM);
    let keys = ["model.dropout=0.1"];
    let nan = spoiling(&project, &keys, &[3]);
    let position = format!("position={nan}");
    let changes = [&[position.as_str(), "train.checkpoint_every=2"], &keys[..]].concat();
    let rollback = [&changes[..], &[ROLLBACK]].concat();
    project.ok(&with("whole", &rollback));
    assert_eq!(left_out(&metrics(&project, "whole")), [(4, 1)]);

    project.run(&with(RUN, &changes)).refuses(1, &[]);
    project.ok(&with(RUN, &rollback));
    assert!(same(&project.path("whole").join(LAST), &project.path(RUN).join(LAST)));

    let unspoiled = position.replace(&nan, "{ kind = \"nan\", sums = [-1] }");
    let changes = [&[unspoiled.as_str(), "train.checkpoint_every=2"], &keys[..]].concat();
    project.ok(&with("unspoiled", &changes));
    assert_ne!(
        weights(&project, "whole", "last.safetensors"),
        weights(&project, "unspoiled", "last.safetensors")
    );
}

#[test]
fn stages_and_kept_steps_are_those_of_a_run_that_was_stopped_in_between() {
    let project = Project::with_program(PROGRAM);
    let spoiled = spoiled(&project, &[5, 7]);
    let stage =
        "stage=[{ length = 32, steps = 4, validate_every = 2, keep_checkpoints = 1, optimizer = \"keep\" }]";
    let changes = [spoiled.as_str(), stage, "train.keep_checkpoints=1", ROLLBACK];
    let whole = project.ok(&with("whole", &changes));
    // Batch 5 is that of the last step of `[train]`, and 7 that of the first step of the stage.
    assert_eq!(left_out(&metrics(&project, "whole")), [(6, 1), (7, 1)]);
    assert!(whole.stderr.contains("(step 6); training goes on from step 6"), "{}", whole.stderr);
    // A run of the first stage alone goes on to the second.
    let first = [spoiled.as_str(), "train.keep_checkpoints=1", ROLLBACK];
    project.ok(&with(RUN, &first));
    project.ok(&with(RUN, &changes));
    let weights = |folder: &str, name: &str| weights(&project, folder, name);
    for step in (1..10).map(|step| format!("step-{step}.safetensors")) {
        // The first run had an end at step 6, which is no kept step.
        if step != "step-6.safetensors" {
            assert_eq!(weights("whole", &step), weights(RUN, &step), "{step}");
        }
    }
    assert_eq!(weights("whole", "last.safetensors"), weights(RUN, "last.safetensors"));
}
