//! The feed-forward half of a block.

use crate::complex_weights::{Groups, PackedMap, WeightKind};
use crate::config::FeedForwardKind;
use crate::resolved::Resolved;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use longwave_kernels::Precision;
use longwave_position::Init;

/// Two matrices with an activation between them, no biases.
#[derive(Module, Debug)]
pub struct FeedForward {
    /// `[width, inner]`, or `[width, 2 inner]` = gate and up side by side for `SwiGLU`; half of the rows where the maps
    /// are complex, here and below.
    pub input: Param<Tensor<2>>,
    /// `[inner, width]`.
    pub output: Param<Tensor<2>>,
    #[module(skip)]
    kind: FeedForwardKind,
    #[module(skip)]
    weight_kind: WeightKind,
    #[module(skip)]
    pub(crate) precision: Precision,
}

impl FeedForward {
    /// Fresh weights, N(0, 0.02).
    pub fn new(resolved: &Resolved, weight_kind: WeightKind, name: &str, init: &Init) -> Self {
        let (width, inner) = (resolved.dimensions.width, resolved.feed_forward_width);
        let kind = resolved.config.feed_forward;
        let columns = if kind.is_gated() { 2 * inner } else { inner };
        Self {
            input: init.normal(&format!("{name}.input"), [weight_kind.stored_rows(width), columns], 0.02),
            output: init.normal(&format!("{name}.output"), [weight_kind.stored_rows(inner), width], 0.02),
            kind,
            weight_kind,
            precision: Precision::F32,
        }
    }

    /// The maps in the first matrix: gate and up for `SwiGLU`.
    pub(crate) fn packed_maps(&self) -> Vec<PackedMap> {
        let count = if self.kind.is_gated() { 2 } else { 1 };
        let outputs = self.input.dims()[1] / count;
        vec![PackedMap { outputs, groups: 1, weight_kind: self.weight_kind }; count]
    }

    /// The first matrix, `[width, inner]` or `[width, 2 inner]`; where it is complex, gate and up are a group each.
    pub fn input_matrix(&self) -> Tensor<2> {
        let outputs = if self.kind.is_gated() { 2 } else { 1 };
        self.weight_kind.matrix(self.input.val(), Groups { inputs: 1, outputs })
    }

    /// The second matrix, `[inner, width]`.
    pub fn output_matrix(&self) -> Tensor<2> {
        self.weight_kind.matrix(self.output.val(), Groups { inputs: 1, outputs: 1 })
    }

    /// `[batch, length, width]` -> the same, added to `onto` if it is given.
    pub fn forward(&self, x: Tensor<3>, onto: Option<Tensor<3>>) -> Tensor<3> {
        let inner = self.precision.linear(x, self.input_matrix()); // [batch, length, inner or 2 inner]
        let inner = self.kind.forward(inner); // [batch, length, inner]
        self.precision.into_stream(inner, self.output_matrix(), onto)
    }
}
