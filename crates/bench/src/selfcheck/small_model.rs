//! A small model of two layers, its losses and its gradients.

use super::list;
use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_core::Error;
use longwave_model::resolved::Resolved;
use longwave_model::{Gpt, ModelConfig, Pass};
use longwave_position::{Init, PositionConfig, Positions};
use longwave_train::parameters;
use toml::Value;

const VOCAB: usize = 29;

pub(super) type Make<'a> = &'a dyn Fn(&Device) -> Result<Gpt, String>;

/// What a device makes of a model.
pub(super) struct Differentiated {
    /// `[2 length]`.
    pub(super) losses: Vec<f32>,
    /// Of their mean or sum, for each parameter.
    pub(super) gradients: Vec<Vec<f32>>,
}

/// What the losses are made one number by.
#[derive(Clone, Copy)]
pub(super) enum Total {
    Mean,
    /// Gradients of the size that a loss scale gives them: those of a mean vanish in f16.
    Sum,
}

/// A fresh model with an encoding, 2 heads of 12 channels.
pub(super) fn model(kind: &str, train_length: usize, device: &Device) -> Result<Gpt, String> {
    let message_of = |error: Error| error.to_string();
    let config = ModelConfig { layers: Some(2), width: Some(24), heads: Some(2), ..ModelConfig::default() };
    let resolved: Resolved = config.resolve(VOCAB, train_length).map_err(message_of)?;
    let position =
        PositionConfig::from_value(&Value::String(kind.to_owned()), "position").map_err(message_of)?;
    Gpt::new(&resolved, &position, &Init::new(0, device)).map_err(message_of)
}

/// Token ids `[2, length]`, shifted by one for the targets; `last` takes the place of the last ones.
fn tokens(length: usize, shift: usize, last: usize, device: &Device) -> Tensor<2, Int> {
    let row = |row: usize| {
        (0..length).map(move |column| {
            let place = column + shift;
            (if place == length - 1 { last } else { (place * 7 + row * 11) % VOCAB }) as i32
        })
    };
    let ids: Vec<i32> = (0..2).flat_map(row).collect();
    Tensor::from_data(TensorData::new(ids, [2, length]), device)
}

/// The losses `[2, length]` of a model at positions.
pub(super) fn losses(model: &Gpt, positions: &Positions, last: usize, device: &Device) -> Tensor<2> {
    let length = positions.length();
    let tokens = |shift: usize, last: usize| tokens(length, shift, last, device);
    let pass = Pass { tokens: tokens(0, last), positions, reading: &model.position, dropout: None };
    model.nll(&pass, tokens(1, 3), 0..length)
}

/// Losses and gradients of a model on a device.
pub(super) fn differentiate(
    model: Make<'_>,
    positions: &Positions,
    total: Total,
    device: &Device,
) -> Result<Differentiated, String> {
    let device = device.clone().autodiff();
    let model = model(&device)?;
    let losses = losses(&model, positions, 5, &device);
    let number = match total {
        Total::Mean => losses.clone().mean(),
        Total::Sum => losses.clone().sum(),
    };
    let gradients = parameters::gradients(&model, &mut number.backward());
    Ok(Differentiated { losses: list(losses), gradients: gradients.into_iter().map(list).collect() })
}

/// The names of a model's parameters.
pub(super) fn names(model: Make<'_>) -> Result<Vec<String>, String> {
    Ok(parameters::list(&model(&Device::flex())?).into_iter().map(|parameter| parameter.name).collect())
}
