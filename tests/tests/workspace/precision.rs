//! Training in half precision: its losses beside those of f32, what f16 needs besides, and what is told.

#![allow(clippy::float_cmp, reason = "the same number, not a near one")]

use crate::common;
use crate::common::halves::hold_losses;
use crate::common::trainer::{metrics, train_until};
use crate::common::{Project, same};
use burn::tensor::Device;
use longwave_experiment::Config;
use longwave_kernels::Precision;
use longwave_train::checkpoint::{self, Checkpoint, Meta};
use longwave_train::{LossScale, Outcome, TrainConfig, fresh_model, restore};

#[test]
fn losses_in_f16_are_those_of_f32_within_the_bound() {
    hold_losses(Precision::F16, &Device::flex(), 2);
}

#[test]
fn losses_in_bf16_are_those_of_f32_within_the_bound() {
    hold_losses(Precision::Bf16, &Device::flex(), 2);
}

const HALF: [&str; 3] = ["train.precision=f16", "train.steps=12", "evaluate=[]"];

const LAST: &str = "checkpoints/last.safetensors";

/// Two steps of a run in f16; then its loss scale becomes far too large.
fn with_too_large_a_scale(project: &Project, folder: &str) {
    let device = Device::flex();
    assert_eq!(train_until(project, folder, 4, &HALF), Outcome::Interrupted);
    let path = project.path(folder).join(LAST);
    let saved = Checkpoint::load(&path).unwrap();
    assert_eq!((saved.meta.step, saved.meta.skipped), (2, 0));
    assert_eq!(saved.meta.loss_scale, Some(LossScale { factor: 65_536.0, steady: 2 }));
    let config = Config::load(&project.path("small.toml"), &HALF.map(str::to_owned)).unwrap().run;
    let resolved = config.model.resolve(256, config.train.length).unwrap();
    let model = restore(
        &config,
        fresh_model(&config, &resolved, &device.clone().autodiff()).unwrap(),
        &device,
        &saved,
    )
    .unwrap();
    let optimizer = saved.optimizer(&TrainConfig::default(), &model, &device).unwrap();
    let meta = Meta { loss_scale: Some(LossScale { factor: 2.0_f64.powi(24), steady: 9 }), ..saved.meta };
    checkpoint::save(&path, &model, Some(&optimizer), &[], &meta).unwrap();
}

#[test]
fn steps_that_overflow_are_left_out_and_counted_and_a_stop_changes_nothing() {
    let project = Project::new();
    with_too_large_a_scale(&project, "whole");
    let before = Checkpoint::load(&project.path("whole").join(LAST)).unwrap();
    assert_eq!(train_until(&project, "whole", usize::MAX, &HALF), Outcome::Done);

    let metrics_of = |folder: &str| metrics(&project, folder);
    let whole = metrics_of("whole");
    let skipped = whole.iter().filter(|metric| metric.skipped).count();
    assert!((2..10).contains(&skipped), "{skipped} steps left out");
    for (index, metric) in whole.iter().enumerate().skip(2) {
        // All at the start: each halves the scale, until it fits.
        let left_out = index < 2 + skipped;
        assert_eq!(metric.skipped, left_out, "step {}", metric.step);
        assert_eq!(metric.gradient_norm == 0.0, left_out);
        let factor = 2.0_f64.powi(24 - (index - 2).min(skipped) as i32);
        assert_eq!(metric.loss_scale, Some(factor), "step {}", metric.step);
    }
    let last = Checkpoint::load(&project.path("whole").join(LAST)).unwrap();
    let factor = 2.0_f64.powi(24 - skipped as i32);
    assert_eq!((last.meta.skipped, last.meta.step), (skipped as u64, 12));
    assert_eq!(last.meta.loss_scale, Some(LossScale { factor, steady: 10 - skipped as u64 }));

    // Stopped among the steps that are left out, and after them; two passes make a step.
    with_too_large_a_scale(&project, "stopped");
    assert_eq!(train_until(&project, "stopped", 3, &HALF), Outcome::Interrupted);
    let stopped = Checkpoint::load(&project.path("stopped").join(LAST)).unwrap();
    assert_eq!((stopped.meta.step, stopped.meta.skipped), (3, 1));
    assert_eq!(stopped.parameters(), before.parameters(), "a step that is left out changes no weight");
    assert_eq!(train_until(&project, "stopped", 2 * skipped, &HALF), Outcome::Interrupted);
    assert_eq!(train_until(&project, "stopped", usize::MAX, &HALF), Outcome::Done);
    assert!(same(&project.path("whole").join(LAST), &project.path("stopped").join(LAST)));
    let told = |folder: &str| {
        metrics_of(folder).into_iter().map(|m| (m.step, m.loss, m.loss_scale, m.skipped)).collect::<Vec<_>>()
    };
    assert_eq!(told("whole"), told("stopped"));
}

/// A scale of 1 that still overflows is no scale's fault.
#[test]
fn a_gradient_that_overflows_without_a_scale_is_an_error() {
    let project = Project::new();
    project.write(
        "small.toml",
        &common::CONFIG.replace("steps = 6", "steps = 6\nlearning_rate = 1e9\nclip = 0.0"),
    );
    project
        .run(&["train", "--config", "small.toml", "--set", "train.precision=f16"])
        .refuses(1, &["f16 ends at 65,504"]);
}

#[test]
fn the_precision_is_told() {
    let project = Project::new();
    let outcome = project.train(&["--set", "train.precision=bf16"]);
    assert!(outcome.stderr.contains("6 steps of 8 x 32 tokens, 1,536 tokens in all, linear maps in bf16"));
    let resolved = project.text("runs/small-0/config.toml");
    assert!(resolved.contains("precision = \"bf16\""), "{resolved}");
    let validated = project.run(&["validate", "small.toml", "--set", "train.precision=bf16"]);
    assert!(validated.stdout.contains("precision = \"bf16\""), "{}", validated.stdout);
    let plain = project.run(&["validate", "small.toml", "--set", "train.precision=f32"]);
    assert_eq!(plain.stdout, project.run(&["validate", "small.toml"]).stdout);
}

/// The weights of a run in bf16, put in the place of those of a run in f32, give the same rows there.
#[test]
fn evaluation_is_in_f32() {
    let project = Project::new();
    project.train(&["--out", "half", "--set", "train.precision=bf16", "--set", "evaluate=[]"]);
    project.train(&["--out", "full", "--set", "evaluate=[]"]);
    let device = Device::flex();
    let [half, full] = ["half", "full"].map(|run| Checkpoint::load(&project.path(run).join(LAST)).unwrap());
    assert_ne!(half.parameters(), full.parameters());
    let config = Config::load(&project.path("full/config.toml"), &[]).unwrap().run;
    let resolved = config.model.resolve(256, config.train.length).unwrap();
    let model = restore(
        &config,
        fresh_model(&config, &resolved, &device.clone().autodiff()).unwrap(),
        &device,
        &half,
    )
    .unwrap();
    checkpoint::save(&project.path("full").join(LAST), &model, None, &[], &full.meta).unwrap();
    let losses =
        |run: &str| project.ok(&["eval", run, "--json", "--lengths", "32,64", "--device", "cpu"]).losses();
    assert!(losses("half").len() >= 2);
    assert_eq!(losses("half"), losses("full"));
}
