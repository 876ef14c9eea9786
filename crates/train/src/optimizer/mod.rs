//! What moves a model's parameters: the optimizers, one file each. Adding one is one new file and one line here.
//!
//! An optimizer says which numbers it keeps of a parameter, by name, and how it moves parameters by their gradients
//! ([`Update`]). What it keeps is stored by those names in a checkpoint, bit for bit, in the order of [`parameters`].
//! Weight decay (Loshchilov and Hutter 2019, arXiv:1711.05101) applies to the model's matrices and not to its vectors
//! (gains, biases, scales); of its parameters an encoding says itself which decay, and within which bounds each stays
//! ([`longwave_position::parameter`]). An update that leaves the bounds is projected back onto them.

use crate::config::TrainConfig;
use crate::parameters::{self, Parameter};
use crate::stage::TrainedPart;
use burn::tensor::{Device, Tensor};
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
    fn update(&self, moved: Vec<Moved<'_>>, step: &Step<'_>) -> Vec<(Tensor<1>, Vec<Tensor<1>>)>;
}

/// A parameter to be moved; all tensors are flat.
#[derive(Debug)]
pub struct Moved<'a> {
    /// What it is.
    pub parameter: &'a Parameter,
    pub value: Tensor<1>,
    /// Its gradient, in the unit of the parameter.
    pub gradient: Tensor<1>,
    /// What is kept of it, in the order of [`Update::state`].
    pub state: Vec<Tensor<1>>,
}

/// One update.
#[derive(Clone, Debug)]
pub struct Step<'a> {
    /// The keys of the stage.
    pub config: &'a TrainConfig,
    /// The learning rate of the step.
    pub learning_rate: f64,
    /// The same as a share of `train.learning_rate`, for optimizers with a rate of their own.
    pub share: f64,
    /// Updates made with this state, this one included.
    pub number: u64,
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
            /// Reads a kind, or a table with a `kind` and the keys of that optimizer; `key` is its place in the file.
            pub fn from_value(value: &Value, key: &str) -> Result<Self> {
                let (kind, rest) = kind_and_rest(value, key)?;
                let config = match kind.as_str() {
                    $(stringify!($module) => Self::$Name(read(&rest, key)?),)*
                    _ => return Err(unknown_kind(&format!("{key}.kind"), &kind, [$(stringify!($module)),*])),
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

/// What is kept of one parameter, by name.
pub type State = Vec<(&'static str, Tensor<1>)>;

/// The optimizer of a run, with what it keeps.
#[derive(Clone, Debug)]
pub struct Optimizer {
    config: OptimizerConfig,
    /// `train.learning_rate`, of which the rate of a step is a share.
    peak: f64,
    /// What is kept of every parameter, in the order of [`parameters::list`].
    pub state: Vec<State>,
    /// What it updates.
    pub trained: TrainedPart,
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

impl Optimizer {
    /// That of a run with this `[train]`, with nothing kept yet.
    pub fn new(first: &TrainConfig, parameters: &[Parameter], device: &Device) -> Self {
        let zeros = |parameter: &Parameter, _: &str| {
            Ok(Tensor::zeros([parameter.shape.iter().product::<usize>()], device))
        };
        Self::with(first, parameters, zeros).unwrap_or_else(|_: std::convert::Infallible| unreachable!())
    }

    /// The same, with what `kept` gives for a parameter and the name of what is kept of it.
    pub fn with<E>(
        first: &TrainConfig,
        parameters: &[Parameter],
        mut kept: impl FnMut(&Parameter, &str) -> std::result::Result<Tensor<1>, E>,
    ) -> std::result::Result<Self, E> {
        let config = first.optimizer.clone().unwrap_or_default();
        let mut state = Vec::with_capacity(parameters.len());
        for parameter in parameters {
            let names = config.state(parameter).iter();
            state.push(
                names
                    .map(|&name| Ok((name, kept(parameter, name)?)))
                    .collect::<std::result::Result<_, E>>()?,
            );
        }
        Ok(Self { config, peak: first.learning_rate, state, trained: TrainedPart::All })
    }

    /// The same, which updates these parameters alone.
    #[must_use]
    pub fn of(self, trained: &TrainedPart) -> Self {
        Self { trained: trained.clone(), ..self }
    }

    /// One update by gradients [in the units of the parameters](in_units); `step` counts from 0, and `scale` is multiplied
    /// into the gradients first. What it does not train stays as it is.
    pub fn update(
        &mut self,
        model: Gpt,
        gradients: Vec<Tensor<1>>,
        config: &TrainConfig,
        learning_rate: f64,
        step: u64,
        scale: GradientScale,
    ) -> Gpt {
        let listed = parameters::list(&model);
        // Values that nothing else holds are written where they lie. Meanwhile the gradients take their places.
        let mut values = Vec::with_capacity(gradients.len());
        let model = parameters::replace(model, |index, value| match gradients.get(index) {
            None => value,
            Some(gradient) => {
                values.push(Some(value));
                gradient.clone()
            }
        });
        let (mut moved, mut places) = (Vec::new(), Vec::new());
        for (index, gradient) in gradients.into_iter().enumerate() {
            let parameter = &listed[index];
            if !self.trained.includes(&parameter.name) {
                continue;
            }
            let Some(value) = values[index].take() else { continue };
            let state = self.state[index].drain(..).map(|(_, kept)| kept).collect();
            moved.push(Moved { parameter, value, gradient, state });
            places.push(index);
        }
        let share = learning_rate / self.peak;
        let step = Step { config, learning_rate, share, number: step + 1, scale };
        for (index, (value, kept)) in places.into_iter().zip(self.config.update(moved, &step)) {
            let names = self.config.state(&listed[index]);
            self.state[index] = names.iter().copied().zip(kept).collect();
            values[index] = Some(match listed[index].bounds {
                Some(bounds) => projected(value, bounds),
                None => value,
            });
        }
        parameters::replace(model, |index, old| values.get_mut(index).and_then(Option::take).unwrap_or(old))
    }
}

/// The nearest values within `[least, most]`; either may be infinite.
fn projected(value: Tensor<1>, [least, most]: [f64; 2]) -> Tensor<1> {
    let value = if least.is_finite() { value.clamp_min(least) } else { value };
    if most.is_finite() { value.clamp_max(most) } else { value }
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

/// The gradients of what is trained, and zeros in the place of the others, so that these neither count for clipping nor end
/// a step that overflows.
pub fn of_trained(model: &Gpt, trained: &TrainedPart, gradients: Vec<Tensor<1>>) -> Vec<Tensor<1>> {
    if *trained == TrainedPart::All {
        return gradients;
    }
    let listed = parameters::list(model);
    let kept = |(gradient, parameter): (Tensor<1>, &Parameter)| {
        if trained.includes(&parameter.name) { gradient } else { gradient.zeros_like() }
    };
    gradients.into_iter().zip(&listed).map(kept).collect()
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
