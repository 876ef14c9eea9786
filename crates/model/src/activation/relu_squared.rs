//! `relu_squared`: `max(0, x)^2` (So et al. 2021, Primer, arXiv:2109.08668; `relu2` in transformers).

use super::Activate;
use burn::tensor::{DType, Tensor, activation::relu};

/// See the module.
pub(super) struct ReluSquared;

impl Activate for ReluSquared {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let precision = x.dtype();
        let positive = relu(if precision == DType::F32 { x } else { x.cast(DType::F32) });
        let squared = positive.clone() * positive;
        if precision == DType::F32 { squared } else { squared.cast(precision) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn values_and_gradients_are_those_of_the_formula() {
        let device = Device::flex().autodiff();
        let x = Tensor::<3>::from_floats([[[-2.0, -0.5, 0.0, 0.5, 3.0]]], &device).require_grad();
        let y = ReluSquared.forward(x.clone());
        assert_eq!(y.to_data().try_to_vec::<f32>().unwrap(), [0.0, 0.0, 0.0, 0.25, 9.0]);
        let gradient = x.grad(&y.sum().backward()).unwrap();
        assert_eq!(gradient.into_data().try_to_vec::<f32>().unwrap(), [0.0, 0.0, 0.0, 1.0, 6.0]);
    }
}
