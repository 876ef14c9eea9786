//! The normalisation before attention, feed-forward and head.

use crate::config::NormKind;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use longwave_kernels::{layer_norm, rms_norm};
use longwave_position::Init;

/// Added to the mean square or variance.
pub const EPS: f64 = 1e-5;

/// `RMSNorm` or `LayerNorm` over the channels of `[batch, length, width]`.
#[derive(Module, Debug)]
pub struct Norm {
    /// `[width]`, initially 1.
    pub gain: Param<Tensor<1>>,
    /// `[width]`, initially 0; absent for `RMSNorm`.
    pub bias: Option<Param<Tensor<1>>>,
}

impl Norm {
    /// A fresh normalisation.
    pub fn new(kind: NormKind, width: usize, init: &Init) -> Self {
        let bias = (kind == NormKind::LayerNorm).then(|| init.constant([width], 0.0));
        Self { gain: init.constant([width], 1.0), bias }
    }

    /// Normalises `[batch, length, width]`.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        match &self.bias {
            None => rms_norm(x, self.gain.val(), EPS),
            Some(bias) => layer_norm(x, self.gain.val(), Some(bias.val()), EPS),
        }
    }
}
