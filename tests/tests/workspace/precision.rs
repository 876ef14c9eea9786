//! Training in half precision: its losses beside those of f32, what f16 needs besides, and what is told.

#![allow(clippy::float_cmp, reason = "the same number, not a near one")]

use crate::common;
use crate::common::halves::{UNITS, hold_losses};
use crate::common::models;
use crate::common::trainer::{metrics, train_until};
use crate::common::training::{self, LENGTH};
use crate::common::{LAST, Project, same};
use burn::tensor::Device;
use longwave_experiment::Config;
use longwave_kernels::{Precision, sums_of_squares};
use longwave_train::checkpoint::{self, Checkpoint, Meta};
use longwave_train::{LossScale, Outcome, TrainConfig, fresh_model, parameters, restore};

#[test]
fn losses_in_f16_are_those_of_f32_within_the_bound() {
    hold_losses(Precision::F16, &Device::flex(), 2);
}

#[test]
fn losses_in_bf16_are_those_of_f32_within_the_bound() {
    hold_losses(Precision::Bf16, &Device::flex(), 2);
}

/// Steps that updated nothing.
fn left_out(meta: &Meta) -> u64 {
    assert!(meta.updates.iter().all(|updates| *updates == meta.updates[0]), "{:?}", meta.updates);
    meta.step - meta.updates[0]
}

const HALF: [&str; 3] = ["train.precision=f16", "train.steps=12", "evaluate=[]"];

/// Two steps of a run in f16; then its loss scale becomes far too large.
fn with_too_large_a_scale(project: &Project, folder: &str) {
    let device = Device::flex();
    assert_eq!(train_until(project, folder, 4, &HALF), Outcome::Interrupted);
    let path = project.path(folder).join(LAST);
    let saved = Checkpoint::load(&path).unwrap();
    assert_eq!((saved.meta.step, left_out(&saved.meta)), (2, 0));
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
        let overflows = index < 2 + skipped;
        assert_eq!(metric.skipped, overflows, "step {}", metric.step);
        assert_eq!(metric.gradient_norm == 0.0, overflows);
        let factor = 2.0_f64.powi(24 - (index - 2).min(skipped) as i32);
        assert_eq!(metric.loss_scale, Some(factor), "step {}", metric.step);
    }
    let last = Checkpoint::load(&project.path("whole").join(LAST)).unwrap();
    let factor = 2.0_f64.powi(24 - skipped as i32);
    assert_eq!((left_out(&last.meta), last.meta.step), (skipped as u64, 12));
    assert_eq!(last.meta.loss_scale, Some(LossScale { factor, steady: 10 - skipped as u64 }));

    // Stopped among the steps that are left out, and after them; two passes make a step.
    with_too_large_a_scale(&project, "stopped");
    assert_eq!(train_until(&project, "stopped", 3, &HALF), Outcome::Interrupted);
    let stopped = Checkpoint::load(&project.path("stopped").join(LAST)).unwrap();
    assert_eq!((stopped.meta.step, left_out(&stopped.meta)), (3, 1));
    assert_eq!(stopped.parameters(), before.parameters(), "a step that is left out changes no weight");
    assert_eq!(train_until(&project, "stopped", 2 * skipped, &HALF), Outcome::Interrupted);
    assert_eq!(train_until(&project, "stopped", usize::MAX, &HALF), Outcome::Done);
    assert!(same(&project.path("whole").join(LAST), &project.path("stopped").join(LAST)));
    let told = |folder: &str| {
        metrics_of(folder).into_iter().map(|m| (m.step, m.loss, m.loss_scale, m.skipped)).collect::<Vec<_>>()
    };
    assert_eq!(told("whole"), told("stopped"));
}

/// Keys of `[model]` that add an operation around the products, or another kind of product.
const KEYS: [&str; 12] = [
    "qkv_bias = true",
    "attention_gate = 'head'",
    "attention_gate = 'channel'\nattention_gate_bias = true",
    "norm_attention_output = true",
    "canon = ['attention', 'feed_forward']",
    "qk_norm = 'rms'",
    "qk_norm = 'key'",
    "qk_norm = 'cosine'",
    "tied = true",
    "norm = 'dyt'\nfeed_forward = 'swiglu'",
    "attention = 'linear'",
    "attention = { kind = 'stick_breaking', remainder = 'bias' }",
];

/// One loss with its gradients, of every such key and of every encoding. Nothing has grown apart after a step: the error is that of a
/// few products.
#[test]
fn everything_computes_in_half_precision() {
    let device = Device::flex().autodiff();
    let rope = training::position("kind = 'rope'");
    let of_keys = KEYS.map(|keys| {
        let keys = format!("layers = 2\nwidth = 16\nheads = 2\n{keys}");
        (keys.clone(), models::gpt(&keys, &rope, [training::VOCABULARY, LENGTH], 7, &device))
    });
    let of_encodings = training::every().into_iter().map(|text| {
        let model = training::model(&text, &device);
        (text, model)
    });
    for (name, model) in of_keys.into_iter().chain(of_encodings) {
        let losses = |precision| {
            let model = models::noisy(model.clone(), 3, 0.1).with_precision(precision);
            let loss = training::losses(&model, &model.position, 0, LENGTH, &device).mean();
            let gradients = parameters::gradients(&model, &mut loss.backward());
            (loss.into_scalar::<f32>(), sums_of_squares(&gradients).sum().into_scalar::<f32>().sqrt())
        };
        let (full, slope) = losses(Precision::F32);
        for precision in [Precision::F16, Precision::Bf16] {
            let (half, half_slope) = losses(precision);
            let unit = precision.unit_roundoff() as f32;
            assert!(
                (half - full).abs() <= UNITS as f32 * unit * full,
                "{name} in {precision}: {half}, f32 {full}"
            );
            // A gradient has gone through all products twice.
            let apart = (half_slope - slope).abs() / slope / unit;
            assert!(
                apart <= 4.0,
                "{name} in {precision}: a gradient of {half_slope}, f32 {slope}: {apart:.1} units"
            );
        }
    }
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
