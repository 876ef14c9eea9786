//! Small models in this process, and what they make of tokens.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses a part")]

use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_core::random::Stream;
use longwave_model::{Gpt, ModelConfig, Pass};
use longwave_position::extension::Example;
use longwave_position::extensions::examples;
use longwave_position::{ExtensionConfig, Init, Lengths, PositionConfig, Reading};
use longwave_train::parameters;

/// A value in TOML.
pub fn value(text: &str) -> toml::Value {
    format!("value = {text}").parse::<toml::Table>().unwrap().remove("value").unwrap()
}

/// The `[position]` of a value in TOML.
pub fn position(text: &str) -> PositionConfig {
    PositionConfig::from_value(&value(text), "position").unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The extension of a value in TOML.
pub fn extension(text: &str) -> ExtensionConfig {
    ExtensionConfig::from_value(&value(text), "extend").unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A fresh model of these lines of `[model]`, for a vocabulary and a training length.
pub fn gpt(
    keys: &str,
    position: &PositionConfig,
    [vocabulary, length]: [usize; 2],
    seed: u64,
    device: &Device,
) -> Gpt {
    let config: ModelConfig = longwave_core::config::read(&keys.parse().unwrap(), "model").unwrap();
    Gpt::new(&config.resolve(vocabulary, length).unwrap(), position, &Init::new(seed, device)).unwrap()
}

/// Every example of every extension, for as many bands as a model has.
pub fn extensions(model: &Gpt, lengths: Lengths) -> Vec<(ExtensionConfig, Example)> {
    let frequencies = model.position.encodings().iter().find_map(|encoding| encoding.frequencies());
    examples(frequencies.map_or(1, |frequencies| frequencies.inv_freq.len()), lengths).unwrap()
}

/// The model, with noise on every parameter: some begin at 0 or 1, and would be without effect.
pub fn noisy(fresh: Gpt, seed: u64, size: f64) -> Gpt {
    parameters::replace(fresh, |index, old| {
        let mut stream = Stream::new(seed, "noise", index as u64);
        let noise: Vec<f32> = (0..old.dims()[0]).map(|_| (size * stream.normal()) as f32).collect();
        let shape = [noise.len()];
        old + Tensor::from_data(TensorData::new(noise, shape), &Device::flex())
    })
}

/// Tokens `[rows, length]` on the CPU.
pub fn tokens(rows: usize, ids: Vec<i32>) -> Tensor<2, Int> {
    let length = ids.len() / rows;
    Tensor::from_data(TensorData::new(ids, [rows, length]), &Device::flex())
}

/// What a model makes of tokens where their reading lays them.
pub fn hidden(model: &Gpt, reading: &Reading, tokens: Tensor<2, Int>) -> Tensor<3> {
    let positions = reading.layout().positions(tokens.dims()[1]);
    model.hidden(&Pass { tokens, positions: &positions, reading, dropout: None })
}

/// The largest magnitude.
pub fn largest<const D: usize>(tensor: Tensor<D>) -> f32 {
    tensor.abs().max().into_scalar()
}

/// The largest difference.
pub fn distance<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> f32 {
    largest(a - b)
}
