use crate::machine::device::adapter;
use crate::ops::rotary::Layout;
use crate::ops::rotary::tests::{gradients_of_parts, odd_shapes, rotate_agrees, split_agrees, table_of};
use crate::rotate;
use crate::testing::{assert_close, list};
use burn::tensor::Tensor;

#[test]
fn rotate_agrees_with_the_reference() {
    let Some(device) = adapter("rotation on the GPU") else { return };
    rotate_agrees(&device);
}

#[test]
fn split_agrees_with_the_reference() {
    let Some(device) = adapter("rotation on the GPU") else { return };
    split_agrees(&device);
}

#[test]
fn odd_shapes_agree_with_the_reference() {
    let Some(device) = adapter("rotation on the GPU") else { return };
    odd_shapes(&device);
}

#[test]
fn a_leaf_and_a_part_alone_receive_their_gradient() {
    let Some(device) = adapter("rotation on the GPU") else { return };
    gradients_of_parts(&device);
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
