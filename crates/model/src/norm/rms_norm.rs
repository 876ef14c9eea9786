//! `rms_norm`: `x / sqrt(mean(x^2) + eps) * gain` (Zhang and Sennrich 2019, arXiv:1910.07467).

use super::{Learned, Normalize};
use burn::tensor::Tensor;
use longwave_kernels::{rms_norm, rms_norm_residual};

/// See the module.
pub(super) struct RmsNorm;

impl Normalize for RmsNorm {
    fn has_bias(&self) -> bool {
        false
    }

    fn forward(&self, x: Tensor<3>, with: Learned) -> Tensor<3> {
        rms_norm(x, with.gain, with.eps)
    }

    fn forward_residual(&self, x: Tensor<3>, with: Learned) -> [Tensor<3>; 2] {
        rms_norm_residual(x, with.gain, with.eps)
    }
}
