//! `layer_norm`: `(x - mean(x)) / sqrt(var(x) + eps) * gain + bias` (Ba et al. 2016, arXiv:1607.06450).

use super::{Learned, Normalize};
use burn::tensor::Tensor;
use longwave_kernels::{layer_norm, layer_norm_residual};

/// See the module.
pub(super) struct LayerNorm;

impl Normalize for LayerNorm {
    fn complex(&self) -> Result<(), &'static str> {
        Err("it subtracts one mean from real and imaginary halves, which is no complex map")
    }

    fn forward(&self, x: Tensor<3>, with: Learned) -> Tensor<3> {
        layer_norm(x, with.gain, with.bias, with.eps)
    }

    fn forward_residual(&self, x: Tensor<3>, with: Learned) -> [Tensor<3>; 2] {
        layer_norm_residual(x, with.gain, with.bias, with.eps)
    }
}
