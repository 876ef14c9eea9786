use crate::cross_entropy;
use crate::machine::device::adapter;
use crate::testing::{assert_fused_on, list, numbers};
use burn::tensor::{Device, Int, Tensor, TensorData};

fn targets(rows: usize, classes: usize, device: &Device) -> Tensor<1, Int> {
    let targets: Vec<i64> = (0..rows).map(|row| ((row * 7 + 3) % classes).cast_signed() as i64).collect();
    Tensor::from_data(TensorData::new(targets, [rows]), device)
}

/// Numbers of classes that vectors divide, and that none divides.
const SIZES: [(usize, usize); 9] =
    [(1, 1), (1, 2), (5, 17), (70, 37), (3, 300), (33, 1000), (3, 65), (5, 512), (3, 4096)];

#[test]
fn odd_shapes_agree_with_the_reference() {
    let Some(device) = adapter("the loss on the GPU") else { return };
    for (rows, classes) in SIZES {
        // The logits arrive transposed, so that they do not lie contiguously.
        let logits =
            |inputs: &[Tensor<1>]| inputs[0].clone().mul_scalar(8.0).reshape([classes, rows]).swap_dims(0, 1);
        assert_fused_on(&device, &format!("{rows} x {classes}"), &[numbers(1, rows * classes)], |inputs| {
            cross_entropy(logits(inputs), targets(rows, classes, &inputs[0].device()))
        });
    }
}

#[test]
fn a_target_that_is_no_class_is_not_hidden() {
    let Some(device) = adapter("the loss on the GPU") else { return };
    let losses = list(cross_entropy(Tensor::zeros([3, 4], &device), Tensor::from_ints([4, -1, 3], &device)));
    assert!(losses[0].is_nan() && losses[1].is_nan(), "{losses:?}");
    assert!((losses[2] - 4.0_f32.ln()).abs() < 1e-6, "{losses:?}");
}
