//! The gradients of the fused split and rotation: rotate back by the same angles. Nothing is kept
//! but the tables.

use super::Heads;
use super::flex::{self, Table};
use crate::autodiff::{Gradient, JointGradient, View, tensor_of};
use burn_flex::FlexTensor;

/// What the gradient of a rotation needs.
#[derive(Clone, Debug)]
pub(super) struct Rotated {
    /// `[batch, heads, length, head_dim]`.
    pub(super) shape: [usize; 4],
    pub(super) table: Table,
}

impl Gradient<1> for Rotated {
    fn gradients(self, output: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let gradient = flex::rotate(&View::new(&output), self.shape, &self.table, -1.0);
        [Some(tensor_of(gradient, self.shape))]
    }
}

/// What the gradient of a split needs.
#[derive(Clone, Debug)]
pub(super) struct Split {
    pub(super) batch: usize,
    pub(super) length: usize,
    pub(super) heads: Heads,
    /// Those of q and k.
    pub(super) tables: [Option<Table>; 2],
}

/// One pass makes the gradient of the packed rows from those of q, k and v.
impl JointGradient<1, 3> for Split {
    fn gradients(self, outputs: [Option<FlexTensor>; 3], _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let Self { batch, length, heads, tables } = self;
        let outputs = outputs.map(|gradient| gradient.map(|gradient| View::new(&gradient)));
        let values = flex::merge(batch, length, heads, &outputs, tables.each_ref().map(Option::as_ref));
        [Some(tensor_of(values, [batch, length, heads.packed()]))]
    }
}
