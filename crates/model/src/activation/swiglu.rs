//! `swiglu`: `SiLU(gate) * up`, `SiLU(z) = z / (1 + exp(-z))` (Shazeer 2020, arXiv:2002.05202).

use super::Activate;
use burn::tensor::Tensor;

/// See the module.
pub(super) struct Swiglu;

impl Activate for Swiglu {
    fn is_gated(&self) -> bool {
        true
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        longwave_kernels::swiglu(x)
    }
}
