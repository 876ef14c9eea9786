//! What the tests of the model share.

use burn::module::Module;
use burn::tensor::Device;
use longwave_position::encoding::Dimensions;
use longwave_position::parameter::replaced;
use longwave_position::reading::LogN;
use longwave_position::{ExtensionConfig, Init, Lengths, PositionConfig, Reading};

/// A value as a config has it behind a key.
pub(crate) fn value(text: &str) -> toml::Value {
    format!("value = {text}").parse::<toml::Table>().unwrap().remove("value").unwrap()
}

pub(crate) fn position(text: &str) -> PositionConfig {
    PositionConfig::from_value(&value(text), "position").unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// How a fresh model of these sizes reads positions.
pub(crate) fn reading(encoding: &str, sizes: &Dimensions, log_n: LogN, device: &Device) -> Reading {
    position(encoding).build("position", sizes, &Init::new(0, device), log_n).unwrap()
}

pub(crate) fn extended(trained: &Reading, extension: &str, lengths: Lengths) -> Reading {
    ExtensionConfig::from_value(&value(extension), "extend")
        .and_then(|extension| extension.apply(trained, lengths))
        .unwrap_or_else(|error| panic!("{}, {extension}: {error}", trained.name()))
}

/// The same with noise on every parameter: fresh maps are so small that all keys are nearly alike, and vectors that start at 0 do
/// nothing.
pub(crate) fn with_noise<M: Module>(module: M, seed: u64, deviation: f64) -> M {
    let init = Init::new(seed, &Device::flex());
    replaced(module, |index, old| {
        let noise = init.normal(&format!("noise {}", index + 1), old.dims(), deviation).val();
        old + noise
    })
}
