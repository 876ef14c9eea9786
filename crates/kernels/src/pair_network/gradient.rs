//! The gradient of the fused network of pairs.

use super::{Shape, flex};
use crate::autodiff::{Gradient, tensor_of, values};
use burn_flex::FlexTensor;

/// What the gradient needs.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    /// Scores, biases, and the weights in their order.
    pub(super) inputs: [FlexTensor; 6],
    pub(super) shape: Shape,
}

impl Saved {
    /// The numbers of the inputs.
    pub(super) fn numbers(&self) -> flex::Numbers<'_> {
        let [scores, bias, w1, b1, w2, b2] = self.inputs.each_ref().map(values);
        flex::Numbers { scores, bias, w1, b1, w2, b2 }
    }
}

impl Gradient<6> for Saved {
    fn gradients(self, output: FlexTensor, _: [bool; 6]) -> [Option<FlexTensor>; 6] {
        let Shape { batch, bias_batch, heads, queries, keys, hidden, .. } = self.shape;
        let flex::Gradients { scores, bias, weights: [w1, b1, w2, b2] } =
            flex::backward(&self.numbers(), &values(&output), self.shape);
        [
            tensor_of(scores, [batch, heads, queries, keys]),
            tensor_of(bias, [bias_batch, heads, queries, keys]),
            tensor_of(w1, [2 * heads, hidden]),
            tensor_of(b1, [hidden]),
            tensor_of(w2, [hidden, heads]),
            tensor_of(b2, [heads]),
        ]
        .map(Some)
    }
}
