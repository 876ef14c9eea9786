use crate::machine::device::adapter;
use crate::ops::cross_entropy::cross_entropy;
use crate::testing::list;
use burn::tensor::Tensor;

#[test]
fn a_target_that_is_no_class_is_not_hidden() {
    let Some(device) = adapter("the loss on the GPU") else { return };
    let losses = list(cross_entropy(Tensor::zeros([3, 4], &device), Tensor::from_ints([4, -1, 3], &device)));
    assert!(losses[0].is_nan() && losses[1].is_nan(), "{losses:?}");
    assert!((losses[2] - 4.0_f32.ln()).abs() < 1e-6, "{losses:?}");
}
