use super::*;
use crate::testing::{
    assert_close, assert_fused_on, assert_threads_change_no_bit, flat, list, numbers, on_devices, padded,
    tensor,
};
use burn::tensor::Device;

on_devices! {
    "rotation":
    rotate_agrees_with_the_reference => rotate_agrees,
    split_agrees_with_the_reference => split_agrees,
    odd_shapes_agree_with_the_reference => odd_shapes,
    a_leaf_and_a_part_alone_receive_their_gradient => gradients_of_parts,
    positions_past_65536_keep_their_angles => positions_keep_their_angles,
}

/// A table of the angles `shape`, times `factor`.
fn table_of(
    device: &Device,
    angles: &[f64],
    shape: [usize; 3],
    layout: Layout,
    factor: f64,
) -> RotationTable {
    let of = |map: fn(f64) -> f64| {
        let values = angles.iter().map(|angle| (factor * map(*angle)) as f32).collect();
        flat(values, device).reshape(shape)
    };
    RotationTable { cos: of(f64::cos), sin: of(f64::sin), layout }
}

/// A table of proper rotations `[rows, length, rotated / 2]`, times `factor`.
fn table(device: &Device, shape: [usize; 3], layout: Layout, factor: f64) -> RotationTable {
    let [rows, length, rotated] = shape;
    let shape = [rows, length, rotated / 2];
    let angles: Vec<f64> = (0..shape.iter().product()).map(|i: usize| 0.37 * i as f64 + 0.1).collect();
    table_of(device, &angles, shape, layout, factor)
}

/// The same table where the inputs are.
fn beside(inputs: &[Tensor<1>], RotationTable { cos, sin, layout }: &RotationTable) -> RotationTable {
    let device = inputs[0].clone().without_autodiff().device();
    let [cos, sin] = [cos, sin].map(|part| part.clone().to_device(&device));
    RotationTable { cos, sin, layout: *layout }
}

#[test]
fn one_pair_by_hand() {
    let device = Device::flex();
    for (layout, expected) in
        [(Layout::Half, [-3.0, 2.0, 1.0, 4.0, 5.0]), (Layout::Interleaved, [-2.0, 1.0, 3.0, 4.0, 5.0])]
    {
        // The first pair turns by a right angle, the second not at all.
        let table = RotationTable {
            cos: Tensor::from_floats([[[0.0, 1.0]]], &device),
            sin: Tensor::from_floats([[[1.0, 0.0]]], &device),
            layout,
        };
        let x = Tensor::<4>::from_floats([[[[1.0, 2.0, 3.0, 4.0, 5.0]]]], &device);
        assert_eq!(list(rotate(x.clone(), &table)), expected);
        assert_eq!(list(reference::rotate(x, &table)), expected);
    }
}

/// Rows of one position, odd lengths, channels that vectors of 4, of 2 and of 1 divide, whole lanes, and all or some of them
/// turned.
fn rotate_agrees(device: &Device) {
    for layout in [Layout::Half, Layout::Interleaved] {
        for (shape, rows, rotated) in [
            ([1, 1, 1, 2], 1, 2),
            ([2, 3, 37, 16], 1, 16),
            ([2, 3, 37, 16], 2, 8),
            ([2, 2, 9, 12], 1, 4),
            ([2, 3, 37, 10], 2, 10),
            ([2, 3, 37, 10], 1, 6),
            ([3, 2, 5, 7], 3, 2),
            ([1, 2, 5, 35], 1, 32),
        ] {
            let [batch, heads, length, head_dim] = shape;
            let table = table(device, [rows, length, rotated], layout, 1.3);
            for apart in [false, true] {
                // Apart: heads and rows arrive swapped, so that x does not lie contiguously.
                let x = |inputs: &[Tensor<1>]| {
                    let x = inputs[0].clone();
                    if apart {
                        x.reshape([batch, length, heads, head_dim]).swap_dims(1, 2)
                    } else {
                        x.reshape(shape)
                    }
                };
                let what = format!("{layout:?} {shape:?} {rows} {rotated} {apart}");
                let given = [numbers(1, shape.iter().product())];
                assert_fused_on(device, &what, &given, |inputs| rotate(x(inputs), &beside(inputs, &table)));
            }
        }
    }
}

type OpTensor = (Tensor<4>, Tensor<4>, Tensor<4>);

/// q, k and v, flat and one after the other.
fn joined((q, k, v): OpTensor) -> Tensor<1> {
    let flat = |x: Tensor<4>| {
        let count = x.shape().num_elements();
        x.reshape([count])
    };
    Tensor::cat(vec![flat(q), flat(k), flat(v)], 0)
}

/// How the packed rows come to the split.
#[derive(Clone, Copy, Debug)]
enum Coming {
    /// A leaf's view.
    Leaf,
    /// The result of an operation on rows that lie apart.
    Result,
    /// A view whose rows lie apart.
    Apart,
    /// As that, and with another use beside the split.
    Shared,
}

/// Heads that are shared or not, channels of all widths, tables for both, for one and for none.
fn split_agrees(device: &Device) {
    for (heads, batch, length, rotated) in [
        (Heads { query: 1, key_value: 1, head_dim: 2 }, 1, 1, 2),
        (Heads { query: 4, key_value: 2, head_dim: 16 }, 2, 37, 16),
        (Heads { query: 4, key_value: 2, head_dim: 6 }, 2, 37, 4),
        (Heads { query: 3, key_value: 3, head_dim: 5 }, 3, 70, 4),
        (Heads { query: 2, key_value: 1, head_dim: 35 }, 1, 5, 32),
    ] {
        let q_table = table(device, [1, length, rotated], Layout::Half, 1.0);
        let k_table = table(device, [batch, length, rotated], Layout::Interleaved, 0.8);
        for (q_table, k_table) in [
            (None, None),
            (Some(&q_table), Some(&q_table)),
            (Some(&q_table), Some(&k_table)),
            (None, Some(&q_table)),
        ] {
            for coming in [Coming::Leaf, Coming::Result, Coming::Apart, Coming::Shared] {
                let packed = |inputs: &[Tensor<1>]| {
                    let x = inputs[0].clone();
                    let apart = |x: Tensor<1>| x.reshape([length, batch, heads.packed()]).swap_dims(0, 1);
                    match coming {
                        Coming::Leaf => x.reshape([batch, length, heads.packed()]),
                        Coming::Result => apart(x).mul_scalar(1.5),
                        Coming::Apart | Coming::Shared => apart(x.mul_scalar(1.5)),
                    }
                };
                let whole = |packed: Tensor<3>, parts: OpTensor| match coming {
                    Coming::Shared => joined(parts) + packed.reshape([batch * length * heads.packed()]),
                    _ => joined(parts),
                };
                let given = [numbers(1, batch * length * heads.packed())];
                assert_fused_on(device, &format!("{heads:?} {coming:?}"), &given, |inputs| {
                    let packed = packed(inputs);
                    let [q, k] = [q_table, k_table].map(|table| table.map(|table| beside(inputs, table)));
                    whole(packed.clone(), split_rotate(packed, heads, q.as_ref(), k.as_ref()))
                });
            }
        }
    }
}

/// Channels and lengths that no vector and no task divides; everything comes in rows that lie apart.
fn odd_shapes(device: &Device) {
    for (layout, batch, length, head_dim, rotated) in [
        (Layout::Half, 1, 1, 3, 2),
        (Layout::Interleaved, 2, 3, 37, 36),
        (Layout::Half, 3, 37, 37, 26),
        (Layout::Interleaved, 1, 65, 5, 2),
    ] {
        let table = table(device, [batch, length, rotated], layout, 1.1);
        let table = RotationTable { cos: padded(table.cos), sin: padded(table.sin), layout };
        let x = |inputs: &[Tensor<1>]| padded(inputs[0].clone().reshape([batch, 3, length, head_dim]));
        let given = [numbers(1, batch * 3 * length * head_dim)];
        let what = format!("{layout:?} {length} {head_dim}");
        assert_fused_on(device, &what, &given, |inputs| rotate(x(inputs), &beside(inputs, &table)));
        for (heads, table) in [
            (Heads { query: 3, key_value: 1, head_dim }, Some(&table)),
            (Heads { query: 1, key_value: 1, head_dim: 1 }, None),
        ] {
            let packed =
                |inputs: &[Tensor<1>]| padded(inputs[0].clone().reshape([batch, length, heads.packed()]));
            let given = [numbers(1, batch * length * heads.packed())];
            assert_fused_on(device, &format!("{heads:?} {layout:?} {length}"), &given, |inputs| {
                let table = table.map(|table| beside(inputs, table));
                joined(split_rotate(packed(inputs), heads, table.as_ref(), table.as_ref()))
            });
        }
    }
}

/// The gradient of a leaf that is split, and of rows of which k alone has one.
fn gradients_of_parts(device: &Device) {
    let heads = Heads { query: 2, key_value: 1, head_dim: 3 };
    let leaf = tensor::<3>(1, [2, 5, heads.packed()], &device.clone().autodiff()).require_grad();
    let rows = |of: [f32; 3]| -> Vec<f32> {
        let row = [of[0]; 6].into_iter().chain([of[1]; 3]).chain([of[2]; 3]);
        row.cycle().take(2 * 5 * heads.packed()).collect()
    };
    let (q, k, v) = split_rotate(leaf.clone(), heads, None, None);
    let gradients = (q.sum() + k.sum().mul_scalar(2.0) + v.sum().mul_scalar(3.0)).backward();
    assert_eq!(list(leaf.grad(&gradients).unwrap()), rows([1.0, 2.0, 3.0]));

    let (_, k, _) = split_rotate(leaf.clone().mul_scalar(1.0), heads, None, None);
    let gradients = k.sum().backward();
    assert_eq!(list(leaf.grad(&gradients).unwrap()), rows([0.0, 1.0, 0.0]));
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let heads = Heads { query: 2, key_value: 1, head_dim: 35 };
    let (batch, length) = (2, if cfg!(miri) { 5 } else { 150 });
    for layout in [Layout::Half, Layout::Interleaved] {
        let table = table(&Device::flex(), [1, length, 32], layout, 1.0);
        let packed = numbers(1, batch * length * heads.packed());
        assert_threads_change_no_bit(&format!("{layout:?}"), &[packed], |inputs| {
            let packed = inputs[0].clone().reshape([batch, length, heads.packed()]);
            joined(split_rotate(packed, heads, Some(&table), Some(&table)))
        });
    }
}

#[test]
fn turning_back_undoes_turning() {
    let device = Device::flex();
    let x = tensor::<4>(1, [2, 2, 9, 8], &device);
    for layout in [Layout::Half, Layout::Interleaved] {
        let there = table(&device, [1, 9, 6], layout, 1.0);
        let back = RotationTable { sin: there.sin.clone().neg(), ..there.clone() };
        let round = list(rotate(rotate(x.clone(), &there), &back));
        assert_close("round trip", &round, &list(x.clone()), 1e-6);
    }
}

#[test]
fn layouts_have_their_names() {
    assert_eq!(serde_json::to_string(&Layout::Half).unwrap(), "\"half\"");
    assert_eq!(serde_json::from_str::<Layout>("\"interleaved\"").unwrap(), Layout::Interleaved);
}

/// The angles are those of f64, however far along.
fn positions_keep_their_angles(device: &Device) {
    let (first, length, half) = (1_000_003_usize, 33, 4);
    let angle =
        |row: usize, pair: usize| (first + row) as f64 * 10_000_f64.powf(-(pair as f64) / half as f64);
    let angles: Vec<f64> = (0..length * half).map(|i| angle(i / half, i % half)).collect();
    for layout in [Layout::Half, Layout::Interleaved] {
        let table = table_of(device, &angles, [1, length, half], layout, 1.0);
        let x = Tensor::<4>::ones([1, 1, length, 2 * half], device);
        let mut expected = vec![0.0; length * 2 * half];
        for (index, angle) in angles.iter().enumerate() {
            let (row, pair) = (index / half, index % half);
            let (a, b) = match layout {
                Layout::Half => (pair, pair + half),
                Layout::Interleaved => (2 * pair, 2 * pair + 1),
            };
            expected[row * 2 * half + a] = (angle.cos() - angle.sin()) as f32;
            expected[row * 2 * half + b] = (angle.sin() + angle.cos()) as f32;
        }
        assert_close("far along", &list(rotate(x, &table)), &expected, 1e-6);
    }
}
