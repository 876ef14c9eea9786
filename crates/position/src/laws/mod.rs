//! The laws of encodings: what must hold of every encoding, its [`Capabilities`](crate::encoding::Capabilities) and its
//! parameters. A test applies each law to every encoding of the list with its default keys and all variants, so a new
//! encoding is tested from its first line; `longwave selfcheck` applies them to those that a program registers. `wrong` has
//! deliberately wrong encodings: each law must reject one.

mod capabilities;
pub(crate) mod inputs;
mod parameters;
mod positions;
#[cfg(test)]
mod wrong;

use crate::encoding::Dimensions;
use crate::encodings::{Encoding, EncodingConfig};
use crate::init::Init;
use crate::parameter;
use burn::module::Module;
use burn::tensor::{Device, Gradients, Tensor};
use inputs::dimensions;

/// Builds an encoding for some sizes on a device.
type Build<'a> = &'a dyn Fn(&Dimensions, &Device) -> Encoding;

/// The error says what does not hold.
pub type Outcome = Result<(), String>;

/// What must hold of every encoding.
#[derive(Clone, Copy, Debug)]
pub struct Law {
    /// The law in words.
    pub name: &'static str,
    check: fn(Build<'_>) -> Outcome,
}

impl Law {
    /// Checks it for the encoding of a `[position]` table, in a small model. It may panic where a hook does.
    pub fn check(&self, table: &toml::Value) -> Outcome {
        let message_of = |error: longwave_core::Error| error.to_string();
        let config = EncodingConfig::from_value(table, "position").map_err(message_of)?;
        config.validate("position", &dimensions()).map_err(message_of)?;
        (self.check)(&|sizes, device| config.build(sizes, &Init::new(0, device)))
    }
}

/// Every law. A new one needs a wrong encoding in `wrong.rs`.
pub const LAWS: &[Law] = &[
    Law { name: "parameters are listed", check: parameters::are_listed },
    Law { name: "parameters start where training leaves them", check: parameters::start_within_bounds },
    Law { name: "gradients reach every parameter", check: parameters::have_gradients },
    Law {
        name: "a layer uses its own slice of a stacked parameter",
        check: parameters::are_stacked_by_layer,
    },
    Law { name: "attention is causal", check: positions::attention_is_causal },
    Law { name: "positions are read as declared", check: positions::are_read_as_declared },
    Law {
        name: "places between whole positions are read as declared",
        check: positions::between_are_read_as_declared,
    },
    Law { name: "interpolation divides positions", check: positions::interpolation_divides },
    Law { name: "pieces give what the whole text gives", check: positions::pieces_agree },
    Law { name: "positions start about as large as tokens", check: positions::start_as_large_as_tokens },
    Law { name: "biases and scores are declared", check: capabilities::of_scores },
    Law { name: "the use of q and k is declared", check: capabilities::of_heads },
    Law { name: "maps described by distance are the maps", check: capabilities::of_described_maps },
    Law { name: "the use of inputs is declared", check: capabilities::of_inputs },
];

#[cfg(test)]
fn check_law(law: &Law, build: Build<'_>) -> Outcome {
    (law.check)(build).map_err(|error| format!("{}: {error}", law.name))
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(what()) }
}

/// The largest difference of two tensors; infinite where their shapes differ.
fn apart<const D: usize>(a: &Tensor<D>, b: &Tensor<D>) -> f32 {
    if a.dims() != b.dims() {
        return f32::INFINITY;
    }
    (a.clone() - b.clone()).abs().max().into_scalar()
}

fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// The values of every parameter.
pub(crate) fn values(module: &impl Module) -> Vec<Vec<f32>> {
    parameter::values(module).into_iter().map(numbers).collect()
}

/// The gradient of every parameter, where it has one.
fn gradients_of(module: &impl Module, gradients: &mut Gradients) -> Vec<Option<Vec<f32>>> {
    parameter::gradients(module, gradients).into_iter().map(|gradient| gradient.map(numbers)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encodings::every;

    #[test]
    fn every_encoding_obeys_every_law() {
        let mut broken = Vec::new();
        for text in every() {
            let table = text.parse::<toml::Table>().unwrap().into();
            for law in LAWS {
                let error = law.check(&table).err();
                broken.extend(
                    error.map(|error| format!("{}: {}: {error}", text.replace('\n', ", "), law.name)),
                );
            }
        }
        assert!(broken.is_empty(), "{}", broken.join("\n"));
    }
}
