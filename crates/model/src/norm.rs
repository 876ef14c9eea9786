//! The normalisation before attention, feed-forward and head.

use crate::complex_weights::WeightKind;
use crate::config::{NormKind, Resolved};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use longwave_kernels::{layer_norm, layer_norm_residual, rms_norm, rms_norm_residual};
use longwave_position::Init;

/// `RMSNorm` or `LayerNorm` over the channels of `[batch, length, width]`.
#[derive(Module, Debug)]
pub struct Norm {
    /// `[width]`, initially 1; half of it where the maps are complex.
    pub gain: Param<Tensor<1>>,
    /// `[width]`, initially 0; absent for `RMSNorm`.
    pub bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    eps: f64,
    #[module(skip)]
    weight_kind: WeightKind,
}

impl Norm {
    /// A fresh normalisation.
    pub fn new(resolved: &Resolved, weight_kind: WeightKind, init: &Init) -> Self {
        let (config, width) = (&resolved.config, resolved.dimensions.width);
        let bias = (config.norm == NormKind::LayerNorm).then(|| init.constant([width], 0.0));
        Self {
            gain: init.constant([weight_kind.stored_rows(width)], 1.0),
            bias,
            eps: config.norm_eps,
            weight_kind,
        }
    }

    /// Normalises `[batch, length, width]`.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let gain = self.weight_kind.gain(self.gain.val());
        match &self.bias {
            None => rms_norm(x, gain, self.eps),
            Some(bias) => layer_norm(x, gain, Some(bias.val()), self.eps),
        }
    }

    /// The same of the residual stream `[batch, length, width]`, and the stream to go on from: so its gradient and that of
    /// the branch are added in one pass.
    pub fn forward_residual(&self, x: Tensor<3>) -> [Tensor<3>; 2] {
        let gain = self.weight_kind.gain(self.gain.val());
        match &self.bias {
            None => rms_norm_residual(x, gain, self.eps),
            Some(bias) => layer_norm_residual(x, gain, Some(bias.val()), self.eps),
        }
    }
}
