//! What the tests of encodings share.

use crate::encoding::{QueryBlock, Rows};
use crate::encodings::{Encoding, EncodingConfig};
use crate::init::Init;
use crate::positions::Positions;
use burn::tensor::{Device, Int, Tensor};
use longwave_kernels::Attention;

pub(crate) use crate::laws::inputs::{Inputs, attend, dimensions, random};

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
pub(crate) fn bias(encoding: &dyn crate::encoding::Position, positions: &Positions) -> Vec<f32> {
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
