//! `AdamW` over a model's parameters.
//!
//! The update of one parameter is a fused kernel ([`longwave_kernels::adamw()`]); what is kept here are the
//! two moments, in the order of [`parameters`], so that a checkpoint stores them by name and bit for bit.
//! Matrices decay, vectors (gains, biases, scales) do not (Loshchilov and Hutter 2019, arXiv:1711.05101).

use crate::config::TrainConfig;
use crate::parameters::{self, Parameter};
use burn::tensor::{Device, Tensor};
use longwave_kernels::{AdamW, adamw, total};
use longwave_model::Gpt;

/// The moments of every parameter.
#[derive(Clone, Debug)]
pub struct Optimizer {
    /// First moments, flat, in the order of [`parameters::list`].
    pub first: Vec<Tensor<1>>,
    /// Second moments.
    pub second: Vec<Tensor<1>>,
}

/// The size of a gradient and what clipping made of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clip {
    /// Euclidean norm of the whole gradient.
    pub norm: f64,
    /// The factor that brings it to the limit; 1 below it.
    pub factor: f64,
}

impl Clip {
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
        Self { first: zeros(), second: zeros() }
    }

    /// One update; `step` counts from 0.
    pub fn update(
        &mut self,
        model: Gpt,
        gradients: Vec<Tensor<1>>,
        config: &TrainConfig,
        learning_rate: f64,
        step: u64,
        clip: Clip,
    ) -> Gpt {
        let decays: Vec<bool> = parameters::list(&model).iter().map(|p| p.shape.len() >= 2).collect();
        let mut gradients = gradients.into_iter();
        parameters::replace(model, |index, value| {
            let Some(gradient) = gradients.next() else { return value };
            let options = AdamW {
                learning_rate,
                beta1: config.beta1,
                beta2: config.beta2,
                eps: config.eps,
                weight_decay: if decays[index] { config.weight_decay } else { 0.0 },
                step: step + 1,
                gradient_scale: clip.factor,
            };
            let first = std::mem::replace(&mut self.first[index], gradient.clone());
            let second = std::mem::replace(&mut self.second[index], gradient.clone());
            let (value, first, second) = adamw(value, gradient, first, second, &options);
            self.first[index] = first;
            self.second[index] = second;
            value
        })
    }
}

/// The gradient's norm, and the factor that clips it to `limit` (0: no limit).
pub fn clip(gradients: &[Tensor<1>], limit: f64) -> Clip {
    let squares = gradients.iter().map(|gradient| total(gradient.clone().square()));
    // One number is read back, not one per parameter.
    let squares: Vec<Tensor<1>> = squares.collect();
    let square: f64 = Tensor::cat(squares, 0)
        .into_data_as::<f32>()
        .try_to_vec::<f32>()
        .map_or(f64::NAN, |squares| squares.into_iter().map(f64::from).sum());
    let norm = square.sqrt();
    let factor = if limit > 0.0 && norm > limit { limit / norm } else { 1.0 };
    Clip { norm, factor }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clips_to_the_limit() {
        let device = Device::flex();
        let gradients = [Tensor::<1>::from_floats([3.0], &device), Tensor::from_floats([0.0, 4.0], &device)];
        let clipped = clip(&gradients, 1.0);
        assert!((clipped.norm - 5.0).abs() < 1e-6 && (clipped.factor - 0.2).abs() < 1e-6);
        assert!((clip(&gradients, 0.0).factor - 1.0).abs() < 1e-12);
        assert!((clip(&gradients, 6.0).factor - 1.0).abs() < 1e-12);
        // The same gradient times 1024.
        let scaled = gradients.map(|gradient| gradient.mul_scalar(1024.0));
        assert_eq!(
            clip(&scaled, 1024.0).unscaled(1024.0),
            Clip { factor: clipped.factor / 1024.0, ..clipped }
        );
    }
}
