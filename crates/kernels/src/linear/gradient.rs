//! The gradient of linear maps.

use super::flex::{self, Weights};
use crate::autodiff::{Gradient, compact, tensor_of, values};
use burn_flex::FlexTensor;

/// What the gradient needs.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    /// `[batch, length, in]`.
    pub(super) x: FlexTensor,
    pub(super) weights: Weights,
}

/// x receives `g Wᵀ`, the weights `xᵀ g`, and what the product was added to, if there is any, `g` itself.
impl<const N: usize> Gradient<N> for Saved {
    fn gradients(self, output: FlexTensor, wanted: [bool; N]) -> [Option<FlexTensor>; N] {
        let output = compact(output);
        let gradient = values(&output);
        let [batch, length, inputs] = self.x.layout().shape().dims();
        let rows = batch * length;
        std::array::from_fn(|input| {
            wanted[input].then(|| match input {
                0 => tensor_of(flex::input_gradient(&gradient, rows, &self.weights), [batch, length, inputs]),
                1 => flex::weight_gradient(&values(&self.x), [rows, inputs], &gradient, &self.weights),
                _ => output.clone(),
            })
        })
    }
}
