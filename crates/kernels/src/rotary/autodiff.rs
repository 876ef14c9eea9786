//! The gradients of the fused split and rotation: turning back by the same angles. Nothing is kept
//! but the tables.

use super::Heads;
use super::flex::{self, Table};
use crate::tape::{Gradient, View, tensor_of};
use burn::backend::Flex;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn_flex::FlexTensor;
use std::sync::{Arc, Mutex, PoisonError};

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

/// The gradients of q, k and v, left by their steps for the one that joins them.
type Left = Arc<Mutex<[Option<FlexTensor>; 3]>>;

/// What the gradient of a split needs.
#[derive(Clone, Debug)]
pub(super) struct Split {
    pub(super) batch: usize,
    pub(super) length: usize,
    pub(super) heads: Heads,
    /// Those of q and k.
    pub(super) tables: [Option<Table>; 2],
    pub(super) left: Left,
}

/// The backward step of a split.
///
/// The tape knows operations of one output. So the split is recorded as one operation from the packed rows to
/// the packed rows, and three from there to q, k and v ([`PartStep`]). Those only leave their gradients; this one,
/// which the tape reaches after all of them, makes the packed gradient in one pass.
#[derive(Debug)]
pub(super) struct SplitStep;

impl Backward<Flex, 1> for SplitStep {
    type State = Split;

    fn backward(self, ops: Ops<Split, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [Some(parent)] = ops.parents else { return };
        let Split { batch, length, heads, tables, left } = ops.state;
        let left = std::mem::take(&mut *left.lock().unwrap_or_else(PoisonError::into_inner));
        let gradients = left.map(|gradient| gradient.map(|gradient| View::new(&gradient)));
        let values = flex::merge(batch, length, heads, &gradients, tables.each_ref().map(Option::as_ref));
        grads.register::<Flex>(parent.id, tensor_of(values, [batch, length, heads.packed()]));
    }
}

/// One of the three outputs of a split: 0 for q, 1 for k, 2 for v.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) index: usize,
    pub(super) left: Left,
}

/// The backward step of a [`Part`]: leaves its gradient for the [`SplitStep`].
#[derive(Debug)]
pub(super) struct PartStep;

impl Backward<Flex, 1> for PartStep {
    type State = Part;

    fn backward(self, ops: Ops<Part, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<Flex>(&ops.node);
        let Part { index, left } = ops.state;
        left.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(gradient);
    }
}
