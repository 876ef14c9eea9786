//! Positional encodings and context extensions: what the project exists for.
//!
//! - [`encoding`]: the first seam. The hooks where an encoding may act, its capabilities and its configuration. One file
//!   each in [`encodings`].
//! - [`extension`]: the second seam. How a trained model is read at another length. One file each
//!   in [`extensions`].
//! - [`stack`]: `[position]`, which encodings each layer reads: one, several, or a mixed stack.
//! - [`reading`]: the encoding of every layer, with masks and scales: what the model is given.
//! - [`formula`]: formulas that a config gives as text.
//! - [`frequency`]: frequency tables in f64, and the rotation tables made from them.
//! - [`positions`]: positions are data, also fractional or drawn at random; [`sampling`]: those of a training
//!   step; [`layout`]: those of a text that is read.
//! - [`tokens`]: lengths in a config, in tokens or as multiples of the training length.
//! - [`distance`]: biases that are a function of the distance.
//! - [`table`]: rows of a table, also between them.
//! - [`registry`]: encodings and extensions that another crate defines.
//! - [`summary`]: tables of an encoding's own numbers; [`tagged`]: configurations that are chosen by `kind`.
//! - [`laws`]: what must hold of every encoding.
//! - [`parameter`]: what an encoding says of its parameters (axes, weight decay, bounds); [`init`]: parameters drawn
//!   on the host; [`per_layer`]: those every layer has of its own.
//!
//! What `YaRN` does to `RoPE` at four times its training length: the fastest band keeps its frequency, the slowest turns a
//! quarter as fast.
//!
//! ```
//! use burn::tensor::Device;
//! use longwave_position::reading::LogN;
//! use longwave_position::{Dimensions, ExtensionConfig, Init, Lengths, PositionConfig};
//!
//! # fn main() -> longwave_core::Result<()> {
//! let sizes =
//!     Dimensions { layers: 1, width: 64, heads: 1, kv_heads: 1, head_dim: 64, train_length: 128, vocab_size: 512 };
//! let rope = PositionConfig::from_value(&"rope".into(), "position")?;
//! let reading = rope.build("position", &sizes, &Init::new(0, &Device::flex()), LogN::Off)?;
//! let yarn = ExtensionConfig::from_value(&"yarn".into(), "extend")?;
//! let longer = yarn.apply(&reading, Lengths { train: 128, length: 512 })?;
//!
//! let before = reading.encodings()[0].frequencies().unwrap();
//! let after = longer.encodings()[0].frequencies().unwrap();
//! assert_eq!(after.inv_freq[0], before.inv_freq[0]);
//! assert!((after.inv_freq[31] - before.inv_freq[31] / 4.0).abs() < 1e-12);
//! # Ok(())
//! # }
//! ```

// A test fails by a panic, and holds numbers that are exact.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests may panic and be exact"))]

#[macro_use]
mod keys;

pub mod auto;
pub mod convolution;
pub mod distance;
pub mod encoding;
pub mod encodings;
pub mod extension;
pub mod extensions;
pub mod extent;
pub mod formula;
pub mod frequency;
pub mod init;
pub mod laws;
pub mod layout;
pub mod parameter;
pub mod per_layer;
pub mod positions;
pub mod prelude;
pub mod reading;
pub mod registry;
mod running_sum;
pub mod sampling;
pub mod stack;
pub mod summary;
pub mod table;
pub mod tagged;
#[cfg(test)]
mod testing;
pub mod tokens;
pub mod upload;

pub use encoding::{Dimensions, Position};
pub use encodings::{Encoding, EncodingConfig};
pub use extension::{Extend, Lengths};
pub use extensions::ExtensionConfig;
pub use init::Init;
pub use parameter::ParameterSpec;
pub use positions::Positions;
pub use reading::Reading;
pub use sampling::TrainingPositions;
pub use stack::PositionConfig;
pub use tokens::Tokens;
/// For [`keys_with`].
#[doc(hidden)]
pub use {schemars, serde};
