//! A model's parameters as a flat list, in a fixed order, by name.

use burn::tensor::{Gradients, Tensor};
use longwave_core::{Error, Result};
use longwave_model::Gpt;
use longwave_model::complex_weights::PackedMap;
use longwave_position::parameter::{self, paths};

pub use longwave_position::parameter::{replaced as replace, values};

/// A parameter's place in the model, and how training treats it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Path of fields and indices, such as `blocks.0.attention.qkv`.
    pub name: String,
    pub shape: Vec<usize>,
    /// Whether weight decay applies: to matrices of the model, and to what an encoding says of its own parameters
    /// ([`ParameterSpec`](longwave_position::ParameterSpec)).
    pub decays: bool,
    /// The least and the largest value; an update is projected onto them.
    pub bounds: Option<[f64; 2]>,
    /// The unit that the optimizer measures it in.
    pub unit: f64,
    /// The linear maps of a block that it holds side by side.
    pub maps: Option<Vec<PackedMap>>,
}

/// Names and shapes of all parameters, in the order every function here uses.
///
/// # Panics
/// Never: a model is built only where its encodings list their parameters.
pub fn list(model: &Gpt) -> Vec<Parameter> {
    let mut specs = model.position.parameters().expect("checked when the model was built").into_iter();
    let parameter = |(path, shape): (Vec<String>, Vec<usize>)| {
        let of_encoding = path.first().is_some_and(|field| field == "position");
        let spec = if of_encoding { specs.next() } else { None };
        let (decays, bounds, unit) =
            spec.map_or((shape.len() >= 2, None, 1.0), |spec| (spec.decays, spec.bounds, spec.unit));
        Parameter { name: path.join("."), shape, decays, bounds, unit, maps: None }
    };
    let mut listed: Vec<Parameter> = paths(model).into_iter().map(parameter).collect();
    for (layer, block) in model.blocks.iter().enumerate() {
        for (path, maps) in block.linear_maps() {
            let name = format!("blocks.{layer}.{path}");
            if let Some(parameter) = listed.iter_mut().find(|parameter| parameter.name == name) {
                parameter.maps = Some(maps);
            }
        }
    }
    listed
}

/// Takes the gradients of all parameters, each flattened; zeros for one the loss does not reach.
pub fn gradients(model: &Gpt, gradients: &mut Gradients) -> Vec<Tensor<1>> {
    let taken = parameter::gradients(model, gradients).into_iter().zip(values(model));
    taken.map(|(gradient, value)| gradient.unwrap_or_else(|| value.zeros_like())).collect()
}

/// The numbers of a tensor on the host; waits for the device. `what` says in the error what they are.
pub fn numbers<const D: usize>(what: &str, tensor: Tensor<D>) -> Result<Vec<f32>> {
    let read = tensor.into_data_as::<f32>().try_to_vec::<f32>();
    read.map_err(|error| Error::failed(format!("cannot read {what} back: {error:?}")))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use burn::tensor::Device;
    use longwave_model::ModelConfig;
    use longwave_model::config::NamedSize;
    use longwave_position::{Init, PositionConfig};

    pub(crate) fn model(device: &Device) -> Gpt {
        model_with("kind = \"learned\"", device)
    }

    /// A small model with the encoding of a `[position]` table.
    pub(crate) fn model_with(position: &str, device: &Device) -> Gpt {
        let config = ModelConfig { size: NamedSize::Nano, ..ModelConfig::default() };
        let table: toml::Table = position.parse().unwrap();
        let position = PositionConfig::from_value(&toml::Value::Table(table), "position").unwrap();
        Gpt::new(&config.resolve(11, 8).unwrap(), &position, &Init::new(0, device)).unwrap()
    }

    #[test]
    fn names_are_paths_and_unique() {
        let parameters = list(&model(&Device::flex()));
        let names: Vec<&str> = parameters.iter().map(|p| p.name.as_str()).collect();
        assert!(names.contains(&"blocks.1.attention.qkv"), "{names:?}");
        assert!(
            names.iter().any(|name| name.starts_with("position.") && name.ends_with("table")),
            "{names:?}"
        );
        let mut unique = names.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), names.len());
        assert_eq!(values(&model(&Device::flex())).len(), names.len());
    }

    #[test]
    fn replaces_in_the_listed_order() {
        let model = model(&Device::flex().autodiff());
        let count = list(&model).len();
        let model = replace(model, |index, old| old.zeros_like() + index as f64);
        for (index, value) in values(&model).into_iter().enumerate() {
            assert!((value.max().into_scalar::<f32>() - index as f32).abs() < 1e-6);
        }
        assert_eq!(values(&model).len(), count);
    }
}
