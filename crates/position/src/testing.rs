//! What the tests of encodings share.

use crate::encodings::{Encoding, EncodingConfig};
use crate::prelude::*;
use crate::reading::LogN;
use crate::{ExtensionConfig, PositionConfig};
use longwave_kernels::Attention;

pub(crate) use crate::laws::inputs::{Inputs, attend, dimensions, random};

/// A value as a config has it behind a key.
pub(crate) fn value(text: &str) -> toml::Value {
    format!("value = {text}").parse::<toml::Table>().unwrap().remove("value").unwrap()
}

/// How a fresh model of these sizes reads positions, by the value of `position`.
pub(crate) fn reading(position: &str, sizes: &Dimensions, log_n: LogN) -> Result<Reading> {
    let config = PositionConfig::from_value(&value(position), "position")?;
    config.build("position", sizes, &Init::new(0, &Device::flex()), log_n)
}

/// The extension of a value of `extend`.
pub(crate) fn extension(text: &str) -> Result<ExtensionConfig> {
    ExtensionConfig::from_value(&value(text), "extend")
}

/// The encoding of a `[position]` table, given as TOML.
pub(crate) fn build(text: &str, device: &Device) -> Encoding {
    let table: toml::Table = text.parse().unwrap();
    let config = EncodingConfig::from_value(&toml::Value::Table(table), "position").unwrap();
    config.validate("position", &dimensions()).unwrap_or_else(|error| panic!("{error}"));
    config.build(&dimensions(), &Init::new(0, device))
}

/// The error message of a `[position]` table that is rejected.
pub(crate) fn message_of(text: &str) -> String {
    let table: toml::Table = text.parse().unwrap();
    EncodingConfig::from_value(&toml::Value::Table(table), "position")
        .and_then(|config| config.validate("position", &dimensions()))
        .unwrap_err()
        .to_string()
}

/// The bias of the layer at the positions, all of them queries: `[heads, length, length]`, row-major.
pub(crate) fn bias(encoding: &dyn Position, positions: &Positions) -> Vec<f32> {
    let device = Device::flex();
    let length = positions.length();
    let tokens = Tensor::<2, Int>::zeros([1, length], &device);
    let input = random("x", [1, length, dimensions().width], &device);
    let rows = Rows::new(1, &tokens, positions);
    let block = QueryBlock { rows, queries: &(0..length), input: &input };
    let bias = encoding.bias(block);
    let options = Attention { bias, ..Attention::causal(4) };
    options.bias_block(length, length, &device).unwrap().into_data().try_to_vec().unwrap()
}
