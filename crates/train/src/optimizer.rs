//! `AdamW` over a model's parameters.
//!
//! The update of one parameter is a fused kernel ([`longwave_kernels::adamw()`]); what is kept here are the
//! two moments, in the order of [`parameters`], so that a checkpoint stores them by name and bit for bit.
//! Matrices decay, vectors (gains, biases, scales) do not (Loshchilov and Hutter 2019, arXiv:1711.05101).

use crate::config::TrainConfig;
use crate::parameters::{self, Parameter};
use burn::tensor::{Device, Tensor};
use longwave_kernels::{AdamW, adamw, sum_of_squares};
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
        Self { first: zeros(), second: zeros() }
    }

    /// One update; `step` counts from 0, and `gradient_scale` is multiplied into the gradients first.
    pub fn update(
        &mut self,
        model: Gpt,
        gradients: Vec<Tensor<1>>,
        config: &TrainConfig,
        learning_rate: f64,
        step: u64,
        gradient_scale: f64,
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
                gradient_scale,
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

/// The sums of squares of gradients, `[gradients]`, where they lie.
pub fn squares(gradients: &[Tensor<1>]) -> Tensor<1> {
    Tensor::cat(gradients.iter().map(|gradient| sum_of_squares(gradient.clone())).collect(), 0)
}

/// Brings gradients to a norm of at most `limit` (0: no limit) where they lie: nothing is read back. `squares` are
/// theirs.
pub fn clipped(gradients: Vec<Tensor<1>>, squares: Tensor<1>, limit: f64) -> Vec<Tensor<1>> {
    if limit <= 0.0 {
        return gradients;
    }
    // Without any gradient the quotient is infinite, and the factor 1.
    let factor = squares.sum().sqrt().recip().mul_scalar(limit).clamp_max(1.0);
    gradients.into_iter().map(|gradient| gradient * factor.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clips_to_the_limit() {
        let clip = Clip::new(&[9.0, 16.0], 1.0);
        assert!((clip.norm - 5.0).abs() < 1e-12 && (clip.factor - 0.2).abs() < 1e-12);
        assert!((Clip::new(&[9.0, 16.0], 0.0).factor - 1.0).abs() < 1e-12);
        assert!((Clip::new(&[9.0, 16.0], 6.0).factor - 1.0).abs() < 1e-12);
        // The same gradient times 1024.
        let scaled = Clip::new(&[9.0 * 1024.0 * 1024.0, 16.0 * 1024.0 * 1024.0], 1024.0).unscaled(1024.0);
        assert_eq!(scaled, Clip { factor: clip.factor / 1024.0, ..clip });
    }

    #[test]
    fn clips_where_the_gradients_lie_as_on_the_host() {
        let device = Device::flex();
        let gradients = [Tensor::<1>::from_floats([3.0], &device), Tensor::from_floats([0.0, 4.0], &device)];
        let list = |tensors: Vec<Tensor<1>>| -> Vec<f32> {
            tensors.into_iter().flat_map(|tensor| tensor.into_data().try_to_vec::<f32>().unwrap()).collect()
        };
        assert_eq!(list(vec![squares(&gradients)]), [9.0, 16.0]);
        let whole = [3.0, 0.0, 4.0];
        for (times, limit, expected) in
            [(1.0, 1.0, [0.6, 0.0, 0.8]), (1.0, 6.0, whole), (1.0, 0.0, whole), (0.0, 1.0, [0.0; 3])]
        {
            let gradients = gradients.clone().map(|gradient| gradient.mul_scalar(times)).to_vec();
            let squares = squares(&gradients);
            let clipped = list(clipped(gradients, squares, limit));
            assert!(clipped.iter().zip(expected).all(|(a, e)| (a - e).abs() < 1e-6), "{clipped:?}");
        }
    }
}
