//! `dyt` (dynamic tanh): `tanh(a x) * gain + bias` in the place of a normalisation, a one learned number for each place
//! (Zhu et al. 2025, arXiv:2503.10622, equation 4). a begins at 0.5. No row is measured, so `norm_eps` has no meaning.

use super::{Learned, Normalize};
use burn::tensor::Tensor;

/// Where a begins: the paper's default for all but large language models.
const ALPHA: f64 = 0.5;

/// See the module.
pub(super) struct Dyt;

impl Normalize for Dyt {
    fn first_factor(&self) -> Option<f64> {
        Some(ALPHA)
    }

    fn complex(&self) -> Result<(), &'static str> {
        Err("it takes the tanh of real and imaginary halves apart, which is no complex map")
    }

    fn forward(&self, x: Tensor<3>, Learned { gain, bias, factor, .. }: Learned) -> Tensor<3> {
        let x = match factor {
            Some(factor) => x * factor.reshape([1, 1, 1]),
            None => x,
        };
        let y = x.tanh() * gain.reshape([1, 1, -1]);
        match bias {
            Some(bias) => y + bias.reshape([1, 1, -1]),
            None => y,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn values_are_those_of_the_formula_and_far_numbers_saturate() {
        let device = Device::flex();
        let one = |number: f32| Some(Tensor::<1>::from_floats([number], &device));
        let with = Learned {
            gain: Tensor::from_floats([2.0, -1.0, 1.0], &device),
            bias: Some(Tensor::from_floats([0.0, 0.5, 1.0], &device)),
            factor: one(0.5),
            eps: 1e-5,
        };
        let x = Tensor::<3>::from_floats([[[1.0, -2.0, 1e4]]], &device);
        let found = Dyt.forward(x, with).into_data().try_to_vec::<f32>().unwrap();
        let expected = [2.0 * 0.5f64.tanh(), 1.0f64.tanh() + 0.5, 2.0];
        for (found, expected) in found.iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-6, "{found} {expected}");
        }
    }
}
