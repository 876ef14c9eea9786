use crate::machine::device::adapter;
use crate::ops::cross_entropy::cross_entropy;
use crate::ops::cross_entropy::tests::{agrees, large_logits, nan_is_shown};
use crate::testing::list;
use burn::tensor::Tensor;

#[test]
fn agrees_with_the_reference() {
    let Some(device) = adapter("the loss on the GPU") else { return };
    agrees(&device, &[(5, 512), (3, 4096)]);
}

/// Numbers of classes that no vector divides.
#[test]
fn odd_shapes_agree_with_the_reference() {
    let Some(device) = adapter("the loss on the GPU") else { return };
    agrees(&device, &[(1, 1), (1, 2), (5, 17), (70, 37), (3, 300), (33, 1000), (3, 65)]);
}

#[test]
fn large_logits_do_not_overflow() {
    let Some(device) = adapter("the loss on the GPU") else { return };
    large_logits(&device);
}

#[test]
fn a_nan_is_not_hidden() {
    let Some(device) = adapter("the loss on the GPU") else { return };
    nan_is_shown(&device);
}

#[test]
fn a_target_that_is_no_class_is_not_hidden() {
    let Some(device) = adapter("the loss on the GPU") else { return };
    let losses = list(cross_entropy(Tensor::zeros([3, 4], &device), Tensor::from_ints([4, -1, 3], &device)));
    assert!(losses[0].is_nan() && losses[1].is_nan(), "{losses:?}");
    assert!((losses[2] - 4.0_f32.ln()).abs() < 1e-6, "{losses:?}");
}
