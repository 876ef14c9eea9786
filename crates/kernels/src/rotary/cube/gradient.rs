//! The fused split and rotation on the autodiff tape.
//!
//! The tape knows operations with one output. So that one launch can serve the gradients of all three, the
//! packed rows pass through a step of their own, which q, k and v hang on: each of these leaves its gradient
//! with it, and it runs when all have been there.

use super::launch::{Qkv, Rotary, Split, Tables};
use crate::rotary::{Heads, Layout, RotationTable};
use crate::tape::{self, Gradient, Parts};
use burn::backend::Cube;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::tensor::FloatTensor;
use burn::tensor::Tensor;
use std::sync::{Arc, Mutex, PoisonError};

type Primitive = FloatTensor<Cube>;

/// The gradients of q, k and v that have come.
type Left = Arc<Mutex<[Option<Primitive>; 3]>>;

/// What the gradient of one of q, k and v needs.
#[derive(Clone, Debug)]
struct Part {
    index: usize,
    left: Left,
}

/// The backward step of q, k or v.
#[derive(Debug)]
struct PartStep;

impl Backward<Cube, 1> for PartStep {
    type State = Part;

    fn backward(self, ops: Ops<Part, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<Cube>(&ops.node);
        let [Some(parent)] = ops.parents else { return };
        let Part { index, left } = ops.state;
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        if left.iter().all(Option::is_none) {
            // Only says that something has come: the step of the packed rows drops it.
            grads.register::<Cube>(parent.id, gradient.clone());
        }
        left[index] = Some(gradient);
    }
}

/// What the gradient of the packed rows needs.
#[derive(Clone, Debug)]
struct Packed {
    tables: Tables<Cube>,
    split: Split,
    left: Left,
}

/// The backward step of the packed rows.
#[derive(Debug)]
struct PackedStep;

impl Backward<Cube, 1> for PackedStep {
    type State = Packed;

    fn backward(self, ops: Ops<Packed, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let any = grads.consume::<Cube>(&ops.node);
        let [Some(parent)] = ops.parents else { return };
        let Packed { tables, mut split, left } = ops.state;
        let left = std::mem::take(&mut *left.lock().unwrap_or_else(PoisonError::into_inner));
        split.given = left.each_ref().map(Option::is_some);
        let [q, k, v] = left.map(|gradient| gradient.unwrap_or_else(|| any.clone()));
        let gradient = Cube::merge(Qkv { q, k, v }, tables, split);
        grads.register::<Cube>(parent.id, gradient);
    }
}

/// What the gradient of a rotation needs.
#[derive(Clone, Debug)]
struct Rotated {
    cos: Primitive,
    sin: Primitive,
    layout: Layout,
}

impl Gradient<1, Cube> for Rotated {
    fn gradients(self, output: Primitive, _: [bool; 1]) -> [Option<Primitive>; 1] {
        [Some(Cube::rotate(output, self.cos, self.sin, self.layout, true))]
    }
}

/// cos and sin.
fn taken_apart(table: &RotationTable) -> [Primitive; 2] {
    [&table.cos, &table.sin].map(|tensor| Parts::<Cube>::new(tensor.clone()).into_data())
}

/// [`split_rotate`](crate::split_rotate) of tensors on the GPU, whose shapes have been looked at.
pub(in crate::rotary) fn split_rotate(
    packed: Tensor<3>,
    heads: Heads,
    q_table: Option<&RotationTable>,
    k_table: Option<&RotationTable>,
) -> (Tensor<4>, Tensor<4>, Tensor<4>) {
    let [batch, length, _] = packed.dims();
    let input = [Parts::<Cube>::new(packed)];
    let [q_table, k_table] = [q_table, k_table].map(|table| table.filter(|table| table.rotated() > 0));
    let layouts = [q_table, k_table].map(|table| table.map(|table| table.layout));
    let split = Split { batch, length, heads, layouts, given: [true; 3] };
    // Where one has no table, that of the other stands in its place, unread.
    let [q_cos, q_sin] = q_table.or(k_table).map_or_else(|| stand_in(&input[0]), taken_apart);
    let [k_cos, k_sin] = k_table.or(q_table).map_or_else(|| stand_in(&input[0]), taken_apart);
    let tables = Tables { q_cos, q_sin, k_cos, k_sin };
    let Qkv { q, k, v } = Cube::split(input[0].data().clone(), tables.clone(), split);

    let left = Left::default();
    let saved = || Packed { tables, split, left: left.clone() };
    let packed: Tensor<3> = tape::record_step(&input, input[0].data().clone(), PackedStep, saved);
    let packed = [Parts::<Cube>::new(packed)];
    let mut parts = [q, k, v].into_iter().enumerate().map(|(index, output)| {
        tape::record_step(&packed, output, PartStep, || Part { index, left: left.clone() })
    });
    let mut next = || parts.next().expect("q, k and v are three");
    (next(), next(), next())
}

/// The packed rows in the place of a table that nothing reads.
fn stand_in(packed: &Parts<Cube>) -> [Primitive; 2] {
    [packed.data().clone(), packed.data().clone()]
}

/// [`rotate`](crate::rotate) of a tensor on the GPU, whose shape has been looked at.
pub(in crate::rotary) fn rotate(x: Tensor<4>, table: &RotationTable) -> Tensor<4> {
    if table.rotated() == 0 {
        return x;
    }
    let input = [Parts::<Cube>::new(x)];
    let [cos, sin] = taken_apart(table);
    let layout = table.layout;
    let output = Cube::rotate(input[0].data().clone(), cos.clone(), sin.clone(), layout, false);
    tape::record(&input, output, || Rotated { cos, sin, layout })
}
