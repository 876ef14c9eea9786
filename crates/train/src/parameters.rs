//! A model's parameters as a flat list, in a fixed order, by name.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor};
use longwave_core::{Error, Result};
use longwave_model::Gpt;
use longwave_position::ParameterSpec;

/// A parameter's place in the model, and how training treats it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Path of fields and indices, such as `blocks.0.attention.qkv`.
    pub name: String,
    pub shape: Vec<usize>,
    /// Whether weight decay applies: to matrices of the model, and to what an encoding says of its own parameters
    /// ([`ParameterSpec`]).
    pub decays: bool,
    /// The least and the largest value; an update is projected onto them.
    pub bounds: Option<[f64; 2]>,
    /// The unit that the optimizer measures it in.
    pub unit: f64,
    /// Of a linear map of a block, `[inputs, outputs]`: the outputs of each of the maps that it packs side by side.
    pub parts: Option<Vec<usize>>,
}

/// Names and shapes of all parameters, in the order every function here uses.
///
/// # Panics
/// Never: a model is built only where its encodings list their parameters.
pub fn list(model: &Gpt) -> Vec<Parameter> {
    let specs = model.position.parameters().expect("checked when the model was built");
    let mut visitor = Lister { path: Vec::new(), specs: specs.into_iter(), listed: Vec::new() };
    model.visit(&mut visitor);
    let mut listed = visitor.listed;
    for (layer, block) in model.blocks.iter().enumerate() {
        for (map, parts) in block.linear_maps() {
            let name = format!("blocks.{layer}.{map}");
            if let Some(parameter) = listed.iter_mut().find(|parameter| parameter.name == name) {
                parameter.parts = Some(parts);
            }
        }
    }
    listed
}

/// The values of all parameters, each flattened to `[numbers]`.
pub fn values(model: &Gpt) -> Vec<Tensor<1>> {
    struct Values(Vec<Tensor<1>>);
    impl ModuleVisitor for Values {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.push(flat(param.val().inner()));
        }
    }
    let mut visitor = Values(Vec::new());
    model.visit(&mut visitor);
    visitor.0
}

/// Takes the gradients of all parameters, each flattened; zeros for one the loss does not reach.
pub fn gradients(model: &Gpt, gradients: &mut Gradients) -> Vec<Tensor<1>> {
    struct Taker<'a>(&'a mut Gradients, Vec<Tensor<1>>);
    impl ModuleVisitor for Taker<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let value = param.val();
            let gradient = value.grad_remove(self.0).unwrap_or_else(|| value.inner().zeros_like());
            self.1.push(flat(gradient));
        }
    }
    let mut visitor = Taker(gradients, Vec::new());
    model.visit(&mut visitor);
    visitor.1
}

/// The model with every parameter replaced: `next(index, old)` gives the new flat values.
pub fn replace(model: Gpt, next: impl FnMut(usize, Tensor<1>) -> Tensor<1>) -> Gpt {
    struct Replacer<F> {
        next: F,
        index: usize,
    }
    impl<F: FnMut(usize, Tensor<1>) -> Tensor<1>> ModuleMapper for Replacer<F> {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let (id, old, mapper) = param.consume();
            let (tracked, shape) = (old.is_autodiff(), old.shape());
            let new = (self.next)(self.index, flat(old.inner())).reshape(shape);
            self.index += 1;
            let new = if tracked { Tensor::from_inner(new).require_grad() } else { new };
            Param::from_mapped_value(id, new, mapper)
        }
    }
    model.map(&mut Replacer { next, index: 0 })
}

fn flat<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    let numbers = x.shape().num_elements();
    x.reshape([numbers])
}

struct Lister {
    path: Vec<String>,
    /// Of the parameters of the encodings that are still to come.
    specs: std::vec::IntoIter<ParameterSpec>,
    listed: Vec<Parameter>,
}

impl ModuleVisitor for Lister {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let of_encoding = self.path.first().is_some_and(|field| field == "position");
        let spec = if of_encoding { self.specs.next() } else { None };
        let (decays, bounds, unit) =
            spec.map_or((D >= 2, None, 1.0), |spec| (spec.decays, spec.bounds, spec.unit));
        self.listed.push(Parameter {
            name: self.path.join("."),
            shape: param.dims().to_vec(),
            decays,
            bounds,
            unit,
            parts: None,
        });
    }
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
