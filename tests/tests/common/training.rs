//! Training of a tiny model with any encoding, and what must hold of it, on any device.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses a part")]

use super::models;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use longwave_core::random::Stream;
use longwave_kernels::sums_of_squares;
use longwave_model::Gpt;
use longwave_model::upload;
use longwave_position::{PositionConfig, Reading};
use longwave_train::optimizer::{clipping, in_units};
use longwave_train::optimizer_state::Optimizer;
use longwave_train::{TrainConfig, parameters};

pub use longwave_position::encodings::every;

/// L in tokens.
pub const LENGTH: usize = 16;
/// Four times L.
pub const LONGER: usize = 4 * LENGTH;
const BATCH: usize = 16;
pub const VOCABULARY: usize = 12;
const STEPS: u64 = 64;

/// The seed of the text that nothing is trained on.
const UNSEEN: u64 = 1000;

/// How well slopes must agree with differences, of themselves.
const SLOPE: f64 = 0.02;
/// How far rounding moves a mean loss of 256 tokens in f32, as a rule: it decides the step.
const ROUNDING: f64 = 2e-8;
/// How far it moves one at most where two steps agree, or where there is only the longest (seen: 2.4e-8; with a single short
/// step, 9e-8).
const WORST_ROUNDING: f64 = 4e-8;
/// What rounding may make of a slope, of itself.
const NOISE: f64 = 0.03;
/// The longest step: past it, kinks of small networks bend a slope.
const FURTHEST: f64 = 4e-3;
/// Slopes on either side that differ by more are those of a kink.
const KINK: f64 = 0.1;

/// Parameters that add the same number to all logits of a head: a softmax does not see them, so their slope is 0.
const UNSEEN_BY_SOFTMAX: [&str; 3] = ["Cpb.b_out", "Fire.b2", "Dape.b2"];

/// The `[position]` of a table in TOML.
pub fn position(text: &str) -> PositionConfig {
    let table: toml::Table = text.parse().unwrap();
    PositionConfig::from_value(&toml::Value::Table(table), "position")
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A fresh model of two layers, 16 channels and two heads.
pub fn model(text: &str, device: &Device) -> Gpt {
    let keys = "layers = 2\nwidth = 16\nheads = 2";
    models::gpt(keys, &position(text), [VOCABULARY, LENGTH], 7, device)
}

/// The loss of each token `[batch, length]` of texts that repeat four tokens over and over: what comes next
/// stood four places back.
pub fn losses(model: &Gpt, reading: &Reading, seed: u64, length: usize, device: &Device) -> Tensor<2> {
    let (inputs, targets) = texts(seed, length);
    let hidden = models::hidden(model, reading, upload(&inputs, [BATCH, length], device));
    model.nll_of(hidden, upload(&targets, [BATCH, length], device), 0..length)
}

/// Inputs and targets, row after row.
fn texts(seed: u64, length: usize) -> (Vec<u32>, Vec<u32>) {
    let mut stream = Stream::new(seed, "test text", 0);
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    for _ in 0..BATCH {
        // Small numbers more often than large ones.
        let mut token = || (stream.bits() % VOCABULARY as u64).min(stream.bits() % VOCABULARY as u64) as u32;
        let cycle = [token(), token(), token(), token()];
        inputs.extend((0..length).map(|t| cycle[t % 4]));
        targets.extend((0..length).map(|t| cycle[(t + 1) % 4]));
    }
    (inputs, targets)
}

fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data_as::<f32>().try_to_vec::<f32>().unwrap().into_iter().map(f64::from).collect()
}

fn mean(tensor: Tensor<2>) -> f64 {
    let values = numbers(tensor);
    values.iter().sum::<f64>() / values.len() as f64
}

/// A model after some steps.
pub struct Trained {
    /// The config.
    pub text: String,
    /// With gradients.
    pub model: Gpt,
    /// The device without gradients.
    device: Device,
}

/// Trains a few dozen steps; the loss on a text that was not trained on must fall.
pub fn train(text: &str, device: &Device) -> Trained {
    let tracked = device.clone().autodiff();
    let config = TrainConfig { length: LENGTH, steps: STEPS, learning_rate: 1e-2, ..TrainConfig::default() };
    let mut model = model(text, &tracked);
    let unseen = |model: &Gpt| {
        let model = model.valid();
        mean(losses(&model, &model.position, UNSEEN, LENGTH, device))
    };
    let before = unseen(&model);
    let mut optimizer = Optimizer::new(&config, &parameters::list(&model), device);
    for step in 0..STEPS {
        let loss = losses(&model, &model.position, step, LENGTH, &tracked).mean();
        let gradient = in_units(&model, parameters::gradients(&model, &mut loss.backward()));
        let scale = clipping(sums_of_squares(&gradient), config.clip);
        model = optimizer.update(model, gradient, &config, config.learning_rate, scale);
    }
    let after = unseen(&model);
    assert!(after < before - 0.05, "{text}: the loss goes from {before:.4} to {after:.4}");
    Trained { text: text.to_owned(), model, device: device.clone() }
}

impl Trained {
    fn kind(&self) -> &'static str {
        self.model.position.encodings()[0].kind()
    }

    /// Without the encoding, the same weights give other logits: it is used.
    pub fn assert_it_matters(&self) {
        let none = model("kind = 'none'", &self.device).position;
        let model = self.model.valid();
        let logits = |reading: &Reading| {
            let (inputs, _) = texts(UNSEEN, LENGTH);
            let tokens = upload(&inputs, [BATCH, LENGTH], &self.device);
            numbers(model.logits(models::hidden(&model, reading, tokens)))
        };
        let (with, without) = (logits(&model.position), logits(&none));
        let moved = with.iter().zip(&without).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        if self.kind() == "none" {
            assert!(moved == 0.0, "there is nothing to unplug");
        } else {
            assert!(moved > 1e-3, "{}: unplugging it moves the logits by {moved:.1e} only", self.text);
        }
    }

    /// Each parameter of the encoding has a gradient, and it is the slope of the loss: along the gradient itself,
    /// and along the channel with the largest slope in each quarter of the parameter (a layer each, or more).
    pub fn assert_gradients_are_slopes(&self) {
        let tracked = self.device.clone().autodiff();
        let model = parameters::replace(self.model.clone(), {
            let names = parameters::list(&self.model);
            move |index, old| match names[index].name.rsplit_once("0.").map_or("", |(_, name)| name) {
                // PoPE's phases are clamped at 0, and training leaves some there.
                "Pope.delta" => old - 0.5,
                // The slopes of ALiBi's second head, where these begin, are too small to be told from rounding.
                "Bam.alpha" => old + 2.0,
                "GrapeA.omega" => old + 3.0,
                // Gates that begin open hardly move.
                "Wall.b_g" | "Wall.b_s" => old - 6.0,
                _ => old,
            }
        });
        let loss = losses(&model, &model.position, UNSEEN, LENGTH, &tracked).mean();
        let gradients = parameters::gradients(&model, &mut loss.backward());
        let plain = model.valid();
        let ours = parameters::list(&plain).into_iter().enumerate();
        for (index, parameter) in ours.filter(|(_, parameter)| parameter.name.starts_with("position.")) {
            let gradient = numbers(gradients[index].clone());
            let name = format!("{}: {}", self.text, parameter.name);
            assert!(gradient.iter().all(|slope| slope.is_finite()), "{name}: {gradient:?}");
            let norm = gradient.iter().map(|slope| slope * slope).sum::<f64>().sqrt();
            assert!(norm > 0.0, "{name} has no gradient");
            let along: Vec<f64> = gradient.iter().map(|slope| slope / norm).collect();
            let told = self.assert_slope(
                (&plain, index),
                &along,
                norm,
                false,
                &format!("{name} along its gradient"),
            );
            let seen = !UNSEEN_BY_SOFTMAX.iter().any(|unseen| parameter.name.ends_with(unseen));
            assert_eq!(told, seen, "{name}: a slope of {norm:.1e}");
            for quarter in quarters(&gradient) {
                let mut direction = vec![0.0; gradient.len()];
                direction[quarter] = 1.0;
                self.assert_slope(
                    (&plain, index),
                    &direction,
                    gradient[quarter],
                    true,
                    &format!("{name}[{quarter}]"),
                );
            }
        }
    }

    /// Compares a slope of the loss with its difference; whether it was large enough to tell from rounding. Where
    /// the loss may have a kink (a small network's unit that turns on), and rises by another slope on either side,
    /// it has no slope to compare with.
    fn assert_slope(
        &self,
        (plain, index): (&Gpt, usize),
        direction: &[f64],
        slope: f64,
        may_kink: bool,
        what: &str,
    ) -> bool {
        let direction: Vec<f32> = direction.iter().map(|&share| share as f32).collect();
        let direction = Tensor::<1>::from_floats(direction.as_slice(), &self.device);
        let at = |step: f64| {
            let moved = parameters::replace(plain.clone(), |which, old| {
                if which == index { old + direction.clone().mul_scalar(step) } else { old }
            });
            mean(losses(&moved, &moved.position, UNSEEN, LENGTH, &self.device))
        };
        // As near as rounding allows: the further, the more bends and kinks lie within the step.
        let near = 2.0 * ROUNDING / (NOISE * slope.abs());
        let first = near.clamp(1e-4, FURTHEST);
        let steps = std::iter::successors(Some(first), |h| Some(4.0 * h)).take_while(|h| *h <= FURTHEST);
        let differences: Vec<[f64; 3]> = steps.map(|h| [h, at(-h), at(h)]).collect();
        let slope_of = |[h, below, above]: [f64; 3]| (above - below) / (2.0 * h);
        // Rounding falls with the step, bends and kinks grow: where two steps agree best, there is least of both.
        let apart = |pair: &&[[f64; 3]]| (slope_of(pair[0]) - slope_of(pair[1])).abs();
        let best = differences.windows(2).min_by(|a, b| apart(a).total_cmp(&apart(b)));
        let [h, below, above] = best.map_or(differences[0], |pair| pair[0]);
        let found = slope_of([h, below, above]);
        let rounding = 2.0 * WORST_ROUNDING / h;
        let agrees = |found: f64| (found - slope).abs() <= SLOPE * slope.abs() + rounding;
        let mut right = agrees(found);
        if may_kink {
            let here = at(0.0);
            let [before, after] = [(here - below) / h, (above - here) / h];
            if (after - before).abs() > KINK * before.abs().max(after.abs()) + 2.0 * rounding {
                return false;
            }
            // A small kink on one side leaves the other as it is.
            right |= agrees(before) || agrees(after);
        }
        assert!(right, "{what}: the slope is {found:.3e}, the gradient says {slope:.3e} (step {h:.1e})");
        near <= FURTHEST
    }

    /// Four times the training length is read, or refused with a word on what would help.
    pub fn assert_longer_texts_are_read_or_refused(&self) -> bool {
        let model = self.model.valid();
        match model.position.check(&model.position.layout().positions(LONGER)) {
            Ok(()) => {
                let losses = numbers(losses(&model, &model.position, UNSEEN, LONGER, &self.device));
                assert_eq!(losses.len(), BATCH * LONGER);
                assert!(losses.iter().all(|loss| loss.is_finite()), "{}: {losses:?}", self.text);
                true
            }
            Err(error) => {
                assert!(error.message().contains(&format!("`{}`", self.kind())), "{}: {error}", self.text);
                assert!(error.hint_text().is_some(), "{}: {error}", self.text);
                false
            }
        }
    }
}

/// The place of the largest number in each quarter of a list.
fn quarters(numbers: &[f64]) -> Vec<usize> {
    let size = numbers.len().div_ceil(4);
    let largest = |first: usize| {
        let quarter = first..(first + size).min(numbers.len());
        quarter.reduce(|a, b| if numbers[b].abs() > numbers[a].abs() { b } else { a })
    };
    (0..numbers.len()).step_by(size).filter_map(largest).collect()
}
