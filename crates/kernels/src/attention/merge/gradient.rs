//! The gradient of the merge.

use super::flex::{Parts, log_sums_gradients, outputs_gradients};
use crate::autodiff::{JointGradient, View};
use burn_flex::FlexTensor;

/// What the gradient needs, of both parts.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    pub(super) outputs: [FlexTensor; 2],
    pub(super) log_sums: [FlexTensor; 2],
}

impl JointGradient<4, 2> for Saved {
    fn gradients(self, [output, log_sums]: [Option<FlexTensor>; 2], _: [bool; 4]) -> [Option<FlexTensor>; 4] {
        let parts = Parts::new(self.outputs.each_ref(), self.log_sums.each_ref());
        let output = View::new(&output.unwrap_or_else(|| parts.zeros()));
        let [a, b] = outputs_gradients(&parts, &output);
        let [a_sums, b_sums] = log_sums_gradients(&parts, &output, log_sums.as_ref());
        [a, b, a_sums, b_sums].map(Some)
    }
}
