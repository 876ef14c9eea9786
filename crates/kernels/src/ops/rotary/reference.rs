//! What the rotation computes, in plain tensor operations.

use super::{Heads, Layout, RotationTable};
use burn::tensor::Tensor;

pub(crate) fn split_rotate(
    packed: &Tensor<3>,
    heads: Heads,
    q_table: Option<&RotationTable>,
    k_table: Option<&RotationTable>,
) -> (Tensor<4>, Tensor<4>, Tensor<4>) {
    let [batch, length, width] = packed.dims();
    let q_end = heads.query * heads.head_dim;
    let k_end = q_end + heads.key_value * heads.head_dim;
    let part = |from: usize, to: usize, count: usize| {
        packed.clone().slice_dim(2, from..to).reshape([batch, length, count, heads.head_dim]).swap_dims(1, 2)
    };
    let turned = |x: Tensor<4>, table: Option<&RotationTable>| match table {
        Some(table) => rotate(x, table),
        None => x,
    };
    (
        turned(part(0, q_end, heads.query), q_table),
        turned(part(q_end, k_end, heads.key_value), k_table),
        part(k_end, width, heads.key_value),
    )
}

pub(crate) fn rotate(x: Tensor<4>, table: &RotationTable) -> Tensor<4> {
    let [batch, heads, length, head_dim] = x.dims();
    let rotated = table.rotated();
    if rotated == 0 {
        return x;
    }
    let half = rotated / 2;
    let [cos, sin] =
        [&table.cos, &table.sin].map(|angles| angles.clone().cast(x.dtype()).unsqueeze_dim::<4>(1));
    let front = x.clone().slice_dim(3, 0..rotated);
    let (a, b) = match table.layout {
        Layout::Half => (front.clone().slice_dim(3, 0..half), front.slice_dim(3, half..rotated)),
        Layout::Interleaved => {
            let pairs = front.reshape([batch, heads, length, half, 2]);
            (pairs.clone().slice_dim(4, 0..1).squeeze_dim(4), pairs.slice_dim(4, 1..2).squeeze_dim(4))
        }
    };
    let first = a.clone() * cos.clone() - b.clone() * sin.clone();
    let second = a * sin + b * cos;
    let turned = match table.layout {
        Layout::Half => Tensor::cat(vec![first, second], 3),
        Layout::Interleaved => {
            Tensor::stack::<5>(vec![first, second], 4).reshape([batch, heads, length, rotated])
        }
    };
    if rotated == head_dim {
        return turned;
    }
    Tensor::cat(vec![turned, x.slice_dim(3, rotated..head_dim)], 3)
}
