//! The fused split and rotation in the autodiff graph.

use super::launch::{Qkv, Rotary, Split, Tables};
use crate::autodiff::{self, Gradient, JointGradient, OpTensor};
use crate::rotary::{Heads, Layout, RotationTable};
use burn::backend::Cube;
use burn::backend::tensor::FloatTensor;
use burn::tensor::Tensor;

type Primitive = FloatTensor<Cube>;

/// What the gradient of a split needs.
#[derive(Clone, Debug)]
struct Packed {
    tables: Tables<Cube>,
    split: Split,
}

impl JointGradient<1, 3, Cube> for Packed {
    fn gradients(self, outputs: [Option<Primitive>; 3], _: [bool; 1]) -> [Option<Primitive>; 1] {
        let Self { tables, mut split } = self;
        split.given = outputs.each_ref().map(Option::is_some);
        let any = outputs.iter().flatten().next().expect("at least one output has a gradient").clone();
        let [q, k, v] = outputs.map(|gradient| gradient.unwrap_or_else(|| any.clone()));
        [Some(Cube::merge(Qkv { q, k, v }, tables, split))]
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
fn cos_and_sin(table: &RotationTable) -> [Primitive; 2] {
    [&table.cos, &table.sin].map(|tensor| OpTensor::<Cube>::new(tensor.clone()).into_data())
}

/// [`split_rotate`](crate::split_rotate) of tensors on the GPU, whose shapes have been looked at.
pub(in crate::rotary) fn split_rotate(
    packed: Tensor<3>,
    heads: Heads,
    q_table: Option<&RotationTable>,
    k_table: Option<&RotationTable>,
) -> (Tensor<4>, Tensor<4>, Tensor<4>) {
    let [batch, length, _] = packed.dims();
    let input = [OpTensor::<Cube>::new(packed)];
    let (tables, layouts) = split_tables(input[0].data(), [q_table, k_table]);
    let split = Split { batch, length, heads, layouts, given: [true; 3] };
    let Qkv { q, k, v } = Cube::split(input[0].data().clone(), tables.clone(), split);

    autodiff::record_joint(&input, [q, k, v], || Packed { tables, split }).map(OpTensor::into_tensor).into()
}

/// The tables of q and k, and the layouts of those that turn something. In the place of one that is not there stands the
/// other one, or the packed rows; nothing reads them.
pub(crate) fn split_tables(
    packed: &Primitive,
    tables: [Option<&RotationTable>; 2],
) -> (Tables<Cube>, [Option<Layout>; 2]) {
    let [q, k] = tables.map(|table| table.filter(|table| table.rotated() > 0));
    let stand_in = || [packed.clone(), packed.clone()];
    let [q_cos, q_sin] = q.or(k).map_or_else(stand_in, cos_and_sin);
    let [k_cos, k_sin] = k.or(q).map_or_else(stand_in, cos_and_sin);
    (Tables { q_cos, q_sin, k_cos, k_sin }, [q, k].map(|table| table.map(|table| table.layout)))
}

/// [`rotate`](crate::rotate) of a tensor on the GPU, whose shape has been looked at.
pub(in crate::rotary) fn rotate(x: Tensor<4>, table: &RotationTable) -> Tensor<4> {
    if table.rotated() == 0 {
        return x;
    }
    let input = [OpTensor::<Cube>::new(x)];
    let [cos, sin] = cos_and_sin(table);
    let layout = table.layout;
    let output = Cube::rotate(input[0].data().clone(), cos.clone(), sin.clone(), layout, false);
    autodiff::record(&input, output, || Rotated { cos, sin, layout })
}
