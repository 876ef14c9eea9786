//! The gradient of fused stick-breaking.

use super::flex;
use crate::autodiff::{JointGradient, tensor_of, values};
use burn_flex::FlexTensor;

/// What the gradient needs.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    /// `[batch, heads, queries, keys]`, contiguous.
    pub(super) logits: FlexTensor,
    /// The same shape.
    pub(super) weights: FlexTensor,
    /// `[batch, heads, queries, 1]`.
    pub(super) rest: FlexTensor,
}

impl JointGradient<1, 2> for Saved {
    fn gradients(self, [weights, rest]: [Option<FlexTensor>; 2], _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let shape = self.logits.layout().shape().dims::<4>();
        let kept = [&self.logits, &self.weights, &self.rest].map(values);
        let weights = weights.as_ref().map(values);
        let rest = rest.as_ref().map(values);
        let gradient =
            flex::backward(kept.each_ref().map(|x| &**x), weights.as_deref(), rest.as_deref(), shape[3]);
        [Some(tensor_of(gradient, shape))]
    }
}
