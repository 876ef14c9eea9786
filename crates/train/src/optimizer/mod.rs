//! What moves a model's parameters: the optimizers, one file each. Adding one is one new file and one line here.
//!
//! An optimizer says which numbers it keeps of a parameter, by name, and how it moves parameters by their gradients
//! ([`Update`]). What it keeps is stored by those names in a checkpoint, bit for bit, in the order of [`parameters`].
//! Weight decay (Loshchilov and Hutter 2019, arXiv:1711.05101) applies to the model's matrices and not to its vectors
//! (gains, biases, scales); of its parameters an encoding says itself which decay, and within which bounds each stays
//! ([`longwave_position::parameter`]). `optimizer_state.rs` keeps what a run's optimizer keeps, and projects an update that leaves the bounds back onto them.

use crate::parameters::{self, Parameter};
use burn::tensor::Tensor;
use longwave_core::Result;
use longwave_core::config::{kind_and_rest, read, unknown_kind};
use longwave_kernels::clip_factor;
use longwave_model::Gpt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Deref;
use toml::Value;

pub trait Update {
    /// Checks the values of its keys, which stand at `section`.
    fn validate(&self, section: &str) -> Result<()>;

    /// What it keeps of a parameter, by name: as many numbers as the parameter has, all 0 at the beginning.
    fn state(&self, parameter: &Parameter) -> &'static [&'static str];

    /// Moves parameters; gives their values and what is kept, in the order in which they came.
    fn update(&self, moved: Vec<Moved<'_>>, step: &Step) -> Vec<(Tensor<1>, Vec<Tensor<1>>)>;
}

/// A parameter to be moved; all tensors are flat.
#[derive(Debug)]
pub struct Moved<'a> {
    pub parameter: &'a Parameter,
    pub value: Tensor<1>,
    /// Its gradient, in the unit of the parameter.
    pub gradient: Tensor<1>,
    /// What is kept of it, in the order of [`Update::state`].
    pub state: Vec<Tensor<1>>,
    /// Updates made with this state, this one included.
    pub number: u64,
}

/// One update.
#[derive(Clone, Debug)]
pub struct Step {
    /// The decay rates of the means of gradients and of their squares: `train.beta1` and `train.beta2` of the stage.
    pub betas: [f64; 2],
    /// Added to what is divided by: `train.eps`.
    pub eps: f64,
    pub weight_decay: f64,
    pub learning_rate: f64,
    /// The same as a share of `train.learning_rate`, for optimizers with a rate of their own.
    pub share: f64,
    /// Multiplied into the gradients first.
    pub scale: GradientScale,
}

macro_rules! optimizers {
    ($($(#[$about:meta])* $Name:ident in $module:ident,)*) => {
        $(mod $module;)*

        /// `train.optimizer`: what moves the parameters, chosen by `kind`.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        pub enum OptimizerConfig {
            $($(#[$about])* $Name($module::$Name),)*
        }

        impl OptimizerConfig {
            /// The names of all kinds.
            pub const KINDS: &'static [&'static str] = &[$(stringify!($module)),*];

            /// Reads a kind, or a table with a `kind` and the keys of that optimizer; `key` is its place in the file.
            pub fn from_value(value: &Value, key: &str) -> Result<Self> {
                let (kind, rest) = kind_and_rest(value, key)?;
                let config = match kind.as_str() {
                    $(stringify!($module) => Self::$Name(read(&rest, key)?),)*
                    _ => return Err(unknown_kind(&format!("{key}.kind"), &kind, Self::KINDS.iter().copied())),
                };
                config.validate(key).map(|()| config)
            }
        }

        impl Deref for OptimizerConfig {
            type Target = dyn Update;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Self::$Name(optimizer) => optimizer,)*
                }
            }
        }
    };
}

optimizers! {
    /// `AdamW` for every parameter, by `beta1`, `beta2`, `eps` and `weight_decay` of `[train]` (arXiv:1711.05101).
    Adamw in adamw,
    /// Muon for the matrices of the blocks: an orthogonal matrix near the momentum of the gradients; `AdamW` for embeddings, head,
    /// gains, biases and encodings (Jordan 2024, kellerjordan.github.io/posts/muon).
    Muon in muon,
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        Self::Adamw(adamw::Adamw {})
    }
}

/// The size of a gradient and what clipping made of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clip {
    /// Euclidean norm of the whole gradient.
    pub norm: f64,
    /// The factor that brings it to the limit; 1 below it.
    pub factor: f64,
}

/// What gradients are multiplied by before an update.
#[derive(Clone, Debug)]
pub enum GradientScale {
    Known(f64),
    /// A number that only the device knows, `[1]`.
    OnDevice(Box<Tensor<1>>),
}

impl Clip {
    /// The norm from the sums of squares of all gradients, and the factor that brings it to `limit` (0: no limit).
    pub fn new(squares: &[f32], limit: f64) -> Self {
        let norm = squares.iter().copied().map(f64::from).sum::<f64>().sqrt();
        let factor = if limit > 0.0 && norm > limit { limit / norm } else { 1.0 };
        Self { norm, factor }
    }

    /// The norm of the gradient itself, and the factor for the gradient at hand, where that is `factor` times as large.
    #[must_use]
    pub fn unscaled(self, factor: f64) -> Self {
        Self { norm: self.norm / factor, factor: self.factor / factor }
    }
}

/// Gradients of a model's parameters, each in the unit that the optimizer measures its parameter in: the gradient with
/// respect to `parameter / unit`.
pub fn in_units(model: &Gpt, gradients: Vec<Tensor<1>>) -> Vec<Tensor<1>> {
    let listed = parameters::list(model);
    let measured = |(gradient, parameter): (Tensor<1>, &Parameter)| {
        let is_one = parameter.unit.to_bits() == 1.0f64.to_bits();
        if is_one { gradient } else { gradient.mul_scalar(parameter.unit) }
    };
    gradients.into_iter().zip(&listed).map(measured).collect()
}

/// What brings gradients to a norm of at most `limit` (0: no limit) where they lie: nothing is read back. The sum of
/// `squares` is that of their squares.
pub fn clipping(squares: Tensor<1>, limit: f64) -> GradientScale {
    if limit <= 0.0 {
        GradientScale::Known(1.0)
    } else {
        GradientScale::OnDevice(Box::new(clip_factor(squares, limit)))
    }
}

#[cfg(test)]
mod tests;
