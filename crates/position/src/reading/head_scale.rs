//! Factors on the logits of each head that a stage of training finds.

use crate::init::Init;
use crate::parameter::ParameterSpec;
use crate::per_layer::at_layer;
use burn::module::{Module, Param};
use burn::tensor::Tensor;

/// `HeadScale` (arXiv:2404.12224): the logits of head h are multiplied by `c_h`, one number for each head and layer. The
/// authors train the factors alone, on longer texts, and keep them at 1 or above. Their models add nothing to the
/// logits; where an encoding does, its bias is multiplied too, so that `1/c_h` is the temperature of the head.
#[derive(Module, Debug)]
pub struct HeadScale {
    /// `[layers, heads]`.
    pub scale: Param<Tensor<2>>,
}

/// Training never leaves a factor below it.
pub const LEAST_HEAD_SCALE: f64 = 1.0;

impl HeadScale {
    pub(crate) fn new(layers: usize, heads: usize, start: f64, init: &Init) -> Self {
        Self { scale: init.constant([layers, heads], start) }
    }

    pub(crate) fn parameters() -> Vec<ParameterSpec> {
        vec![ParameterSpec::undecayed("scale", &["layers", "heads"]).bounded(LEAST_HEAD_SCALE, f64::INFINITY)]
    }

    /// The factors of a layer, `[heads]`.
    pub(crate) fn factors(&self, row: usize) -> Tensor<1> {
        at_layer(&self.scale, row)
    }
}
