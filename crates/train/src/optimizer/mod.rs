//! `AdamW` over a model's parameters.
//!
//! The update of one parameter is a fused kernel ([`longwave_kernels::adamw()`]); what is kept here are the
//! two moments, in the order of [`parameters`], so that a checkpoint stores them by name and bit for bit.
//! Weight decay (Loshchilov and Hutter 2019, arXiv:1711.05101) applies to the model's matrices and not to its vectors
//! (gains, biases, scales); of its parameters an encoding says itself which decay, and within which bounds each stays
//! ([`longwave_position::parameter`]). An update that leaves the bounds is projected back onto them.

use crate::config::TrainConfig;
use crate::parameters::{self, Parameter};
use crate::stage::TrainedPart;
use burn::tensor::{Device, Tensor};
use longwave_kernels::{AdamW, AdamWState, adamw_all, clip_factor};
use longwave_model::Gpt;

/// The moments of every parameter.
#[derive(Clone, Debug)]
pub struct Optimizer {
    /// First moments, flat, in the order of [`parameters::list`].
    pub first: Vec<Tensor<1>>,
    /// Second moments.
    pub second: Vec<Tensor<1>>,
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
    /// A number.
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
    /// Zero moments.
    pub fn new(parameters: &[Parameter], device: &Device) -> Self {
        let zeros = || {
            parameters.iter().map(|p| Tensor::zeros([p.shape.iter().product::<usize>()], device)).collect()
        };
        Self { first: zeros(), second: zeros(), trained: TrainedPart::All }
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
        let (gradient_scale, clip) = match scale {
            GradientScale::Known(factor) => (factor, None),
            GradientScale::OnDevice(factor) => (1.0, Some(*factor)),
        };
        // Values that nothing else holds are written where they lie. Meanwhile the gradients take their places.
        let mut values = Vec::with_capacity(gradients.len());
        let model = parameters::replace(model, |index, value| match gradients.get(index) {
            None => value,
            Some(gradient) => {
                values.push(Some(value));
                gradient.clone()
            }
        });
        let (mut given, mut places) = (Vec::new(), Vec::new());
        for (index, gradient) in gradients.into_iter().enumerate() {
            let parameter = &listed[index];
            if !self.trained.includes(&parameter.name) {
                continue;
            }
            let options = AdamW {
                learning_rate: learning_rate * parameter.unit,
                beta1: config.beta1,
                beta2: config.beta2,
                eps: config.eps,
                // The decay is a share of the parameter, whatever the unit.
                weight_decay: if parameter.decays { config.weight_decay / parameter.unit } else { 0.0 },
                step: step + 1,
                gradient_scale,
            };
            let Some(value) = values[index].take() else { continue };
            let m = std::mem::replace(&mut self.first[index], gradient.clone());
            let v = std::mem::replace(&mut self.second[index], gradient.clone());
            given.push((AdamWState { parameter: value, m, v }, gradient, options));
            places.push(index);
        }
        for (index, AdamWState { parameter, m, v }) in places.into_iter().zip(adamw_all(given, clip)) {
            self.first[index] = m;
            self.second[index] = v;
            values[index] = Some(match listed[index].bounds {
                Some(bounds) => projected(parameter, bounds),
                None => parameter,
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
