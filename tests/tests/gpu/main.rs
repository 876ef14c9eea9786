//! What the CPU computes, the GPU computes too.
//!
//! Any adapter serves, one in software too (`mesa-vulkan-drivers` brings llvmpipe). Without one these
//! tests say what they leave out and pass; with `LONGWAVE_REQUIRE_GPU=1` they fail.

#![cfg(feature = "gpu")]
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../common/mod.rs"]
mod common;
mod launches;
mod program;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use common::training;
use longwave_core::random::Stream;
use longwave_kernels::{Attention, DeviceChoice, attention, device, sums_of_squares};
use longwave_model::config::NamedSize;
use longwave_model::upload;
use longwave_model::{Gpt, ModelConfig, Pass};
use longwave_position::{ExtensionConfig, Init, Lengths, PositionConfig, Positions};
use longwave_train::optimizer::clipping;
use longwave_train::optimizer_state::Optimizer;
use longwave_train::parameters::Parameter;
use longwave_train::{TrainConfig, parameters};
use std::env;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Losses, relative to the largest: the same sums of f32 in another order (llvmpipe: 4e-6).
const LOSS: f64 = 2e-5;

/// Gradients, relative to the largest of their parameter (llvmpipe: 8e-7).
const GRADIENT: f64 = 1e-5;

/// The same for every encoding: some apply a network to its own output at each position, and carry their rounding
/// errors along (llvmpipe: 1.1e-5).
const GRADIENT_OF_ANY: f64 = 3e-5;

/// Where weights have moved to, relative to how far. `AdamW` divides each gradient by its own size, so
/// those that are nearly zero move by their rounding error (llvmpipe: 4e-5).
const MOVED: f64 = 1e-3;

/// A weight moves for certain if its gradient is at least so large, relative to the largest of its parameter.
const CERTAIN: f64 = 1e-3;

/// A parameter whose gradient is smaller, relative to the largest of all, has none but rounding errors (a softmax
/// does not see what it adds to all logits).
const SILENT: f64 = 1e-6;

const TRAIN: usize = 16;
const LENGTH: usize = 48;
const VOCABULARY: usize = 256;
const STEPS: u64 = 3;

/// Whether the long form is asked for: a driver in software compiles kernels for many minutes.
fn is_long() -> bool {
    env::var_os("LONGWAVE_GPU").is_some_and(|which| which == "all")
}

/// The best adapter; `None`, having said so, where there is none and none is required.
fn adapter(left_out: &str) -> Option<Device> {
    // Written past the capture of the test's output: a test that passes shows nothing of it.
    let tell = |line: &str| std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
    match device::open(DeviceChoice::Gpu(None)) {
        Ok(opened) => {
            tell(&format!("{left_out}: on {}", opened.name));
            Some(opened.device)
        }
        Err(error) => {
            let required = env::var_os("LONGWAVE_REQUIRE_GPU").is_some_and(|value| value == "1");
            assert!(!required, "LONGWAVE_REQUIRE_GPU=1: {error}");
            tell(&format!("left out: {left_out} ({})", error.message()));
            None
        }
    }
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data_as::<f32>().try_to_vec().unwrap()
}

fn lists(tensors: Vec<Tensor<1>>) -> Vec<Vec<f32>> {
    tensors.into_iter().map(values).collect()
}

/// Token ids `[batch, length + 1]`, the same everywhere.
fn tokens(seed: u64, batch: usize, length: usize) -> Vec<Vec<u32>> {
    let mut stream = Stream::new(seed, "test tokens", 0);
    (0..batch).map(|_| (0..=length).map(|_| stream.bits() as u32 % VOCABULARY as u32).collect()).collect()
}

fn nll(model: &Gpt, extension: Option<&str>, seed: u64, length: usize, device: &Device) -> Tensor<2> {
    let (hidden, targets) = hidden(model, extension, seed, length, device);
    model.nll_of(hidden, targets, 0..length)
}

/// What a model makes of drawn tokens, and those that follow them.
fn hidden(
    model: &Gpt,
    extension: Option<&str>,
    seed: u64,
    length: usize,
    device: &Device,
) -> (Tensor<3>, Tensor<2, Int>) {
    let batch = 2;
    let rows = tokens(seed, batch, length);
    let flat =
        |shift: usize| rows.iter().flat_map(|row| row[shift..shift + length].to_vec()).collect::<Vec<_>>();
    let reading = extension.map_or_else(
        || model.position.clone(),
        |kind| {
            let extension = ExtensionConfig::from_value(&kind.into(), "extend").unwrap();
            extension.apply(&model.position, Lengths { train: TRAIN, length }).unwrap()
        },
    );
    let positions = Positions::range(0..length);
    let pass = Pass {
        tokens: upload(&flat(0), [batch, length], device),
        positions: &positions,
        reading: &reading,
        dropout: None,
    };
    (model.hidden(&pass), upload(&flat(1), [batch, length], device))
}

fn model(encoding: &str, device: &Device) -> Gpt {
    let config = ModelConfig { size: NamedSize::Nano, ..ModelConfig::default() };
    let position = PositionConfig::from_value(&encoding.into(), "position").unwrap();
    Gpt::new(&config.resolve(VOCABULARY, TRAIN).unwrap(), &position, &Init::new(7, device)).unwrap()
}

/// What a device makes of a few steps of training and of longer texts.
struct Trace {
    initial: Vec<Vec<f32>>,
    losses: Vec<Vec<f32>>,
    gradients: Vec<Vec<Vec<f32>>>,
    trained: Vec<Vec<f32>>,
    longer: Vec<Vec<f32>>,
}

/// What training on the losses of `nll(model, step)` makes of a model with gradients.
fn trace(
    mut model: Gpt,
    nll: impl Fn(&Gpt, u64) -> Tensor<2>,
    longer: impl Fn(&Gpt) -> Vec<Tensor<2>>,
    device: &Device,
) -> Trace {
    let config = TrainConfig { length: TRAIN, steps: STEPS, ..TrainConfig::default() };
    let initial = lists(parameters::values(&model));
    let mut optimizer = Optimizer::new(&config, &parameters::list(&model), device);
    let (mut losses, mut gradients) = (Vec::new(), Vec::new());
    for step in 0..STEPS {
        let nll = nll(&model, step);
        losses.push(values(nll.clone()));
        let gradient = parameters::gradients(&model, &mut nll.mean().backward());
        gradients.push(lists(gradient.clone()));
        let scale = clipping(sums_of_squares(&gradient), config.clip);
        model = optimizer.update(model, gradient, &config, config.learning_rate, scale);
    }
    let trained = lists(parameters::values(&model));
    let longer = longer(&model.valid()).into_iter().map(values).collect();
    Trace { initial, losses, gradients, trained, longer }
}

/// The largest difference, relative to the largest expected value.
fn difference(actual: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(actual.len(), expected.len());
    assert!(actual.iter().chain(expected).all(|value| value.is_finite()));
    let apart: Vec<f32> = actual.iter().zip(expected).map(|(a, e)| a - e).collect();
    largest(&apart) / largest(expected)
}

/// The largest magnitude.
fn largest(values: &[f32]) -> f64 {
    values.iter().fold(0.0, |largest, value| f64::from(value.abs()).max(largest))
}

/// How far two ends lie apart, relative to how far the expected one lies from the start.
fn apart(actual: &[f32], expected: &[f32], start: &[f32]) -> f64 {
    let distance =
        |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt();
    distance(actual, expected) / distance(expected, start)
}

/// Those of the weights whose gradient stands out from rounding errors: `AdamW` moves others as far, and either way.
fn certain(weights: &[Vec<f32>], gradients: &[Vec<f32>]) -> Vec<f32> {
    let of_parameter = |(weights, gradients): (&Vec<f32>, &Vec<f32>)| {
        let least = CERTAIN * largest(gradients);
        let pairs = weights.clone().into_iter().zip(gradients.clone());
        pairs.filter(move |(_, gradient)| f64::from(gradient.abs()) >= least).map(|(weight, _)| weight)
    };
    weights.iter().zip(gradients).flat_map(of_parameter).collect()
}

#[track_caller]
fn hold(what: &str, measured: f64, limit: f64) {
    assert!(measured <= limit, "{what}: {measured:.1e} apart, at most {limit:.0e} allowed");
}

fn agrees(encoding: &str, extensions: &[&str]) {
    let Some(gpu) = adapter(&format!("training and reading with `{encoding}`")) else { return };
    let [gpu, cpu] = [gpu, Device::flex()].map(|device| {
        let tracked = device.clone().autodiff();
        let step = |model: &Gpt, step| nll(model, None, step, TRAIN, &tracked);
        let longer =
            |model: &Gpt| extensions.iter().map(|kind| nll(model, Some(kind), 99, LENGTH, &device)).collect();
        trace(model(encoding, &tracked), step, longer, &device)
    });
    assert_eq!(cpu.longer.len(), extensions.len());
    let names = parameters::list(&model(encoding, &Device::flex()));
    hold_traces(encoding, &names, &gpu, &cpu, GRADIENT);
    for (index, parameter) in names.iter().enumerate() {
        let moved = apart(&gpu.trained[index], &cpu.trained[index], &cpu.initial[index]);
        hold(&format!("{encoding}: {} after {STEPS} steps", parameter.name), moved, MOVED);
    }
}

fn hold_traces(what: &str, parameters: &[Parameter], gpu: &Trace, cpu: &Trace, gradient: f64) {
    // Weights are drawn on the host.
    assert_eq!(gpu.initial, cpu.initial, "{what}");
    for (step, (actual, expected)) in gpu.losses.iter().zip(&cpu.losses).enumerate() {
        hold(&format!("{what}: losses of step {step}"), difference(actual, expected), LOSS);
    }
    // Later gradients are those of other weights.
    let (actual, expected) = (&gpu.gradients[0], &cpu.gradients[0]);
    let silent = SILENT * largest(&expected.concat());
    for (index, parameter) in parameters.iter().enumerate() {
        let name = format!("{what}: gradient of {}", parameter.name);
        if largest(&expected[index]) <= silent {
            assert!(largest(&actual[index]) <= silent, "{name}: {:?}", actual[index]);
            continue;
        }
        hold(&name, difference(&actual[index], &expected[index]), gradient);
    }
    let [gpu_certain, cpu_certain, initial] =
        [&gpu.trained, &cpu.trained, &cpu.initial].map(|weights| certain(weights, expected));
    let moved = apart(&gpu_certain, &cpu_certain, &initial);
    hold(&format!("{what}: weights after {STEPS} steps"), moved, MOVED);
    assert_eq!(gpu.longer.len(), cpu.longer.len(), "{what}");
    for (index, (actual, expected)) in gpu.longer.iter().zip(&cpu.longer).enumerate() {
        hold(&format!("{what}: losses {index} of a longer text"), difference(actual, expected), LOSS);
    }
}

#[test]
fn no_encoding_agrees() {
    agrees("none", &["direct"]);
}

#[test]
fn a_learned_table_agrees() {
    agrees("learned", &["linear"]);
}

#[test]
fn sinusoids_agree() {
    agrees("sinusoidal", &["direct", "linear", "ntk"]);
}

#[test]
fn rotations_agree() {
    agrees("rope", &["direct", "linear", "ntk", "rerope", "leaky_rerope", "self_extend"]);
}

/// Variants of encodings that `encodings.rs` trains to the end on the CPU take the same first steps here: every fourth, or each
/// in the long form. Encodings with their default keys are held by the checks before a training, in `program.rs`.
#[test]
fn variants_train_as_on_the_cpu() {
    let Some(gpu) = adapter("training variants of encodings") else { return };
    // All are tried: one that fails says nothing of the others.
    let fails = |text: &String| catch_unwind(AssertUnwindSafe(|| trains_as_on_the_cpu(text, &gpu))).is_err();
    let every = if is_long() { 1 } else { 4 };
    // Default keys are a line alone.
    let variants = training::every().into_iter().filter(|text| text.contains('\n')).step_by(every);
    let failed: Vec<String> = variants.filter(fails).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

fn trains_as_on_the_cpu(text: &str, gpu: &Device) {
    let [gpu, cpu] = [gpu.clone(), Device::flex()].map(|device| {
        let tracked = device.clone().autodiff();
        let losses = |model: &Gpt, seed, length, device: &Device| {
            training::losses(model, &model.position, seed, length, device)
        };
        let step = |model: &Gpt, step| losses(model, step, training::LENGTH, &tracked);
        let longer = |model: &Gpt| match model.position.check(&Positions::range(0..training::LONGER)) {
            Ok(()) => vec![losses(model, 99, training::LONGER, &device)],
            Err(_) => vec![],
        };
        trace(training::model(text, &tracked), step, longer, &device)
    });
    let names = parameters::list(&training::model(text, &Device::flex()));
    hold_traces(text, &names, &gpu, &cpu, GRADIENT_OF_ANY);
}

/// More logits than plain operations compute at once, in the kernel and, with rows too wide for it, in several
/// blocks of queries.
#[test]
fn long_attention_agrees() {
    let Some(gpu) = adapter("long attention") else { return };
    for width in [4, 130] {
        let shape = [1, 32, 768, width];
        let run = |device: &Device| {
            let part = |seed: u64| {
                let mut stream = Stream::new(seed, "test values", 0);
                let values: Vec<f32> = (0..shape.iter().product()).map(|_| stream.normal() as f32).collect();
                Tensor::<4>::from_data(TensorData::new(values, shape), device)
            };
            let options = Attention { scale: 1.0 / width as f64, ..Attention::causal(width) };
            values(attention(part(0), part(1), part(2), &options))
        };
        hold(&format!("attention of width {width}"), difference(&run(&gpu), &run(&Device::flex())), 1e-5);
    }
}
