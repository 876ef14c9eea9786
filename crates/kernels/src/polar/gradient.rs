//! The gradient of channels as vectors in the plane.

use super::flex;
use crate::autodiff::{Gradient, View, tensor_of, values};
use burn_flex::FlexTensor;

/// What the gradient needs.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    /// x, cos and sin.
    pub(super) inputs: [FlexTensor; 3],
    /// Of x.
    pub(super) shape: [usize; 4],
    /// Of cos and sin.
    pub(super) table: [usize; 4],
}

impl Saved {
    /// What is computed from the numbers of the inputs.
    pub(super) fn with_numbers<T>(&self, compute: impl FnOnce(flex::Numbers<'_>) -> T) -> T {
        let [x, cos, sin] = &self.inputs;
        let (cos, sin) = (values(cos), values(sin));
        compute(flex::Numbers { x: View::new(x), cos: &cos, sin: &sin, shape: self.shape, table: self.table })
    }
}

impl Gradient<3> for Saved {
    fn gradients(self, output: FlexTensor, wanted: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let output = View::new(&output);
        if !wanted[1] && !wanted[2] {
            let x = self.with_numbers(|numbers| flex::backward(&numbers, &output));
            return [Some(tensor_of(x, self.shape)), None, None];
        }
        let [x, cos, sin] = self.with_numbers(|numbers| flex::backward_with_tables(&numbers, &output));
        [tensor_of(x, self.shape), tensor_of(cos, self.table), tensor_of(sin, self.table)].map(Some)
    }
}
