//! `gelu`: `x Phi(x)` with the normal distribution's Phi (Hendrycks and Gimpel 2016, arXiv:1606.08415).

use super::Activate;
use burn::tensor::Tensor;

/// See the module.
pub(super) struct Gelu;

impl Activate for Gelu {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        longwave_kernels::gelu(x)
    }
}
