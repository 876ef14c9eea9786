//! What an encoding says of each of its parameters: the axes, and how training treats it; and the walk over the parameters of
//! any module.
//!
//! - **Weight decay** pulls a parameter towards zero. That is a mild prior for a matrix or a vector of features drawn
//!   around zero, and wrong for a number whose value means something: a slope, a gate's bias, a threshold, an angle,
//!   a table that starts at ones. Published practice decides where there is some (Loshchilov and Hutter 2019,
//!   arXiv:1711.05101, decays everything; GPT-2 and its successors leave out biases and gains; Swin,
//!   arXiv:2111.09883, leaves out tables and networks of biases). The axis `layers` only stacks what every layer has
//!   of its own, so a stacked bias stays a bias.
//! - **Bounds** are kept by projection: after each update of the optimizer a number outside is set to the nearest
//!   bound. A clamp in the forward pass alone would give such a number no gradient, and it would never come back.
//! - **The unit** is what a step of the optimizer counts in. A frequency, a slope over positions or the matrix of a
//!   recursion acts L times over at position L: a step that suits other parameters turns the last position by half a
//!   circle, and the gradient, L times as large, decides the clipping of the whole model. Measured in units of `1 / L`
//!   (the parameter is `unit` times what the optimizer sees) it learns like the others.
//!
//! Every encoding lists all of its parameters ([`Position::parameters`](crate::Position::parameters)); building a model
//! fails where one is missing.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor};
use longwave_core::{Error, Result};
use std::borrow::Cow;
use std::fmt;

/// One parameter of an encoding.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterSpec {
    /// Path of fields and indices below the encoding, such as `table` or `w.0`.
    pub name: Cow<'static, str>,
    /// What each axis counts, such as `["layers", "heads"]`; a size by its name in [`Dimensions`](crate::Dimensions)
    /// where it is one of these.
    pub axes: &'static [&'static str],
    /// Whether weight decay applies.
    pub decays: bool,
    /// The least and the largest value that training allows.
    pub bounds: Option<[f64; 2]>,
    /// The unit that training measures it in; 1 for most.
    pub unit: f64,
}

impl ParameterSpec {
    /// A parameter that weight decay pulls towards zero: features and linear maps, drawn around zero.
    pub fn decayed(name: impl Into<Cow<'static, str>>, axes: &'static [&'static str]) -> Self {
        Self { name: name.into(), axes, decays: true, bounds: None, unit: 1.0 }
    }

    /// A parameter without weight decay: biases, gains, and whatever starts at a value that means something.
    pub fn undecayed(name: impl Into<Cow<'static, str>>, axes: &'static [&'static str]) -> Self {
        Self { name: name.into(), axes, decays: false, bounds: None, unit: 1.0 }
    }

    /// The same, kept within `[least, most]` by training; either may be infinite.
    #[must_use]
    pub fn bounded(self, least: f64, most: f64) -> Self {
        Self { bounds: Some([least, most]), ..self }
    }

    /// The same, measured in another unit by training.
    #[must_use]
    pub fn in_units_of(self, unit: f64) -> Self {
        Self { unit, ..self }
    }

    /// The same below a field of another encoding.
    #[must_use]
    pub(crate) fn below(self, field: &str) -> Self {
        Self { name: format!("{field}.{}", self.name).into(), ..self }
    }
}

impl fmt::Display for ParameterSpec {
    /// Name and axes, such as `p [layers, heads]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.name, self.axes.join(", "))
    }
}

/// The axis that stacks what every layer has of its own; hooks read one slice of it
/// ([`at_layer`](crate::per_layer::at_layer)).
pub const LAYERS: &str = "layers";

/// Compares what an encoding lists with the parameters that it has.
pub fn check_listed(kind: &str, specs: &[ParameterSpec], encoding: &impl Module) -> Result<()> {
    let shapes = shapes(encoding);
    let fits = |(spec, (name, shape)): (&ParameterSpec, &(String, Vec<usize>))| {
        spec.name == *name && spec.axes.len() == shape.len()
    };
    if specs.len() == shapes.len() && specs.iter().zip(&shapes).all(fits) {
        return Ok(());
    }
    let specs: Vec<String> = specs.iter().map(ParameterSpec::to_string).collect();
    Err(Error::failed(format!("`{kind}` lists the parameters {specs:?}, and has {shapes:?}"))
        .hint("`Position::parameters` must name each field and its axes, in their order"))
}

/// Name and shape of every parameter of an encoding, in the order of its fields.
pub fn shapes(encoding: &impl Module) -> Vec<(String, Vec<usize>)> {
    let named = |(path, shape): (Vec<String>, Vec<usize>)| {
        // The variant of an enum stands in the path, and is no part of the name.
        let fields = path.into_iter().filter(|part| !part.starts_with(char::is_uppercase));
        (fields.collect::<Vec<_>>().join("."), shape)
    };
    paths(encoding).into_iter().map(named).collect()
}

/// Path and shape of every parameter of any module, in the order of its fields. The functions below keep this order.
pub fn paths(module: &impl Module) -> Vec<(Vec<String>, Vec<usize>)> {
    struct Lister {
        path: Vec<String>,
        listed: Vec<(Vec<String>, Vec<usize>)>,
    }
    impl ModuleVisitor for Lister {
        fn enter_module(&mut self, name: &str, _container_type: &str) {
            self.path.push(name.to_owned());
        }
        fn exit_module(&mut self, _name: &str, _container_type: &str) {
            self.path.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            // A model that is only counted has shapes and no memory.
            self.listed.push((self.path.clone(), param.lazy_shape().to_vec()));
        }
    }
    let mut lister = Lister { path: Vec::new(), listed: Vec::new() };
    module.visit(&mut lister);
    lister.listed
}

/// The values of all parameters, each flattened to `[numbers]`.
pub fn values(module: &impl Module) -> Vec<Tensor<1>> {
    struct Values(Vec<Tensor<1>>);
    impl ModuleVisitor for Values {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.push(flat(param.val().inner()));
        }
    }
    let mut visitor = Values(Vec::new());
    module.visit(&mut visitor);
    visitor.0
}

/// Takes the gradients of all parameters, each flattened; `None` for one that the loss does not reach.
pub fn gradients(module: &impl Module, gradients: &mut Gradients) -> Vec<Option<Tensor<1>>> {
    struct Taker<'a>(&'a mut Gradients, Vec<Option<Tensor<1>>>);
    impl ModuleVisitor for Taker<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.1.push(param.val().grad_remove(self.0).map(flat));
        }
    }
    let mut visitor = Taker(gradients, Vec::new());
    module.visit(&mut visitor);
    visitor.1
}

/// The module with every parameter replaced: `next(index, old)` gives the new flat values.
pub fn replaced<M: Module>(module: M, next: impl FnMut(usize, Tensor<1>) -> Tensor<1>) -> M {
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
    module.map(&mut Replacer { next, index: 0 })
}

fn flat<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    let numbers = x.shape().num_elements();
    x.reshape([numbers])
}
