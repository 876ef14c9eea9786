use crate::device::adapter;
use crate::rotary::{Heads, Layout, RotationTable, reference};
use crate::testing::{assert_close, flat, hold_on, list, numbers, tensor};
use crate::{rotate, split_rotate};
use burn::tensor::{Device, Tensor};

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

/// A table of proper rotations, times `factor`.
fn table(
    device: &Device,
    rows: usize,
    length: usize,
    rotated: usize,
    layout: Layout,
    factor: f64,
) -> RotationTable {
    let half = rotated / 2;
    let angles: Vec<f64> = (0..rows * length * half).map(|i| 0.37 * i as f64 + 0.1).collect();
    table_of(device, &angles, [rows, length, half], layout, factor)
}

/// Rows of one position, odd lengths, channels that vectors of 4, of 2 and of 1 divide, and all or some of
/// them turned.
#[test]
fn rotate_agrees_with_the_reference() {
    let Some(device) = adapter("rotation on the GPU") else { return };
    for layout in [Layout::Half, Layout::Interleaved] {
        for (shape, rows, rotated) in [
            ([1, 1, 1, 2], 1, 2),
            ([2, 3, 37, 16], 1, 16),
            ([2, 3, 37, 16], 2, 8),
            ([2, 2, 9, 12], 1, 4),
            ([2, 3, 37, 10], 2, 10),
            ([3, 2, 5, 7], 3, 2),
        ] {
            let [batch, heads, length, head_dim] = shape;
            let table = table(&device, rows, length, rotated, layout, 1.3);
            for apart in [false, true] {
                // Apart: heads and rows arrive exchanged, so that x does not lie contiguously.
                let x = |inputs: &[Tensor<1>]| match apart {
                    false => inputs[0].clone().reshape(shape),
                    true => inputs[0].clone().reshape([batch, length, heads, head_dim]).swap_dims(1, 2),
                };
                hold_on(
                    &device,
                    &format!("{layout:?} {shape:?} {rows} {rotated} {apart}"),
                    &[numbers(1, shape.iter().product())],
                    |inputs| rotate(x(inputs), &table),
                    |inputs| reference::rotate(x(inputs), &table),
                );
            }
        }
    }
}

type Outputs = (Tensor<4>, Tensor<4>, Tensor<4>);

/// q, k and v, flat and one after the other.
fn joined((q, k, v): Outputs) -> Tensor<1> {
    let flat = |x: Tensor<4>| {
        let count = x.shape().num_elements();
        x.reshape([count])
    };
    Tensor::cat(vec![flat(q), flat(k), flat(v)], 0)
}

#[test]
fn split_agrees_with_the_reference() {
    let Some(device) = adapter("rotation on the GPU") else { return };
    for (heads, batch, length, rotated) in [
        (Heads { query: 1, key_value: 1, head_dim: 2 }, 1, 1, 2),
        (Heads { query: 4, key_value: 2, head_dim: 16 }, 2, 37, 16),
        (Heads { query: 4, key_value: 2, head_dim: 6 }, 2, 37, 4),
        (Heads { query: 3, key_value: 3, head_dim: 5 }, 3, 70, 4),
    ] {
        let q_table = table(&device, 1, length, rotated, Layout::Half, 1.0);
        let k_table = table(&device, batch, length, rotated, Layout::Interleaved, 0.8);
        let tables = [
            (None, None),
            (Some(&q_table), Some(&q_table)),
            (Some(&q_table), Some(&k_table)),
            (None, Some(&q_table)),
        ];
        for (q_table, k_table) in tables {
            // As a leaf's view, as a view whose rows lie apart, and with another use beside the split.
            for use_of in 0..3 {
                let packed = |inputs: &[Tensor<1>]| match use_of {
                    0 => inputs[0].clone().reshape([batch, length, heads.packed()]),
                    _ => inputs[0]
                        .clone()
                        .mul_scalar(1.5)
                        .reshape([length, batch, heads.packed()])
                        .swap_dims(0, 1),
                };
                let whole = |packed: Tensor<3>, parts: Outputs| match use_of {
                    2 => joined(parts) + packed.reshape([batch * length * heads.packed()]),
                    _ => joined(parts),
                };
                hold_on(
                    &device,
                    &format!("{heads:?} {use_of}"),
                    &[numbers(1, batch * length * heads.packed())],
                    |inputs| {
                        let packed = packed(inputs);
                        whole(packed.clone(), split_rotate(packed, heads, q_table, k_table))
                    },
                    |inputs| {
                        let packed = packed(inputs);
                        whole(packed.clone(), reference::split_rotate(&packed, heads, q_table, k_table))
                    },
                );
            }
        }
    }
}

#[test]
fn a_leaf_and_a_part_alone_receive_their_gradient() {
    let Some(device) = adapter("rotation on the GPU") else { return };
    let heads = Heads { query: 2, key_value: 1, head_dim: 3 };
    let leaf = tensor::<3>(1, [2, 5, heads.packed()], &device.autodiff()).require_grad();
    let (q, k, v) = split_rotate(leaf.clone(), heads, None, None);
    let gradients = (q.sum() + k.sum().mul_scalar(2.0) + v.sum().mul_scalar(3.0)).backward();
    let row = [1.0; 6].into_iter().chain([2.0; 3]).chain([3.0; 3]);
    let expected: Vec<f32> = row.cycle().take(2 * 5 * heads.packed()).collect();
    assert_eq!(list(leaf.grad(&gradients).unwrap()), expected);

    let (_, k, _) = split_rotate(leaf.clone().mul_scalar(1.0), heads, None, None);
    let gradients = k.sum().backward();
    let row = [0.0; 6].into_iter().chain([1.0; 3]).chain([0.0; 3]);
    let expected: Vec<f32> = row.cycle().take(2 * 5 * heads.packed()).collect();
    assert_eq!(list(leaf.grad(&gradients).unwrap()), expected);
}

/// The angles are those of f64, however far along.
#[test]
fn positions_past_65536_keep_their_angles() {
    let Some(device) = adapter("rotation on the GPU") else { return };
    let (first, length, half) = (1_000_003_usize, 33, 4);
    let angle =
        |row: usize, pair: usize| (first + row) as f64 * 10_000_f64.powf(-(pair as f64) / half as f64);
    let angles: Vec<f64> = (0..length * half).map(|i| angle(i / half, i % half)).collect();
    for layout in [Layout::Half, Layout::Interleaved] {
        let table = table_of(&device, &angles, [1, length, half], layout, 1.0);
        let x = Tensor::<4>::ones([1, 1, length, 2 * half], &device);
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
