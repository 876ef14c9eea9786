//! The gradients of the fused split and rotation: turning back by the same angles. Nothing is kept
//! but the tables.

use super::Heads;
use super::flex::{self, Table};
use crate::tape::{Gradient, View, compact, tensor_of};
use burn::backend::Flex;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn_flex::FlexTensor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// One of the three outputs of a split: q, k or v.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) batch: usize,
    pub(super) length: usize,
    pub(super) heads: Heads,
    /// Where the part begins in a packed row.
    pub(super) column: usize,
    /// The heads of the part.
    pub(super) count: usize,
    pub(super) table: Option<Table>,
    /// Whether one of the three has left its gradient with the packed rows.
    pub(super) begun: Arc<AtomicBool>,
}

/// The backward step of a [`Part`].
///
/// The three parts fill one gradient of the packed rows: the first to come makes it, and the others
/// take it back from the tape and add to it in place, instead of adding up three that are mostly zero.
#[derive(Debug)]
pub(super) struct PartStep;

impl Backward<Flex, 1> for PartStep {
    type State = Part;

    fn backward(self, ops: Ops<Part, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = View::new(&grads.consume::<Flex>(&ops.node));
        let part = ops.state;
        let [Some(parent)] = ops.parents else { return };
        // The gradient of a leaf cannot be taken back: it stays on the tape for the caller.
        let is_leaf = parent.order == 0;
        let Part { batch, length, heads, column, count, ref table, .. } = part;
        let table = table.as_ref();
        let packed = if part.begun.swap(true, Ordering::Relaxed) && !is_leaf {
            let mut packed = compact(grads.consume::<Flex>(&parent));
            flex::merge(packed.storage_mut::<f32>(), heads, length, &gradient, column, count, table);
            packed
        } else {
            let values = flex::merge_first(batch, heads, length, &gradient, column, count, table);
            tensor_of(values, [batch, length, heads.packed()])
        };
        grads.register::<Flex>(parent.id, packed);
    }
}
