use crate::activation::tests::both_agree;
use crate::device::adapter;

#[test]
fn both_agree_with_the_reference() {
    let Some(device) = adapter("activations on the GPU") else { return };
    both_agree(&device, &[[2, 37, 16]]);
}

/// Widths that no vector divides.
#[test]
fn odd_shapes_agree_with_the_reference() {
    let Some(device) = adapter("activations on the GPU") else { return };
    both_agree(&device, &[[1, 1, 2], [2, 37, 6], [1, 5, 74], [1, 3, 96], [1, 2, 600], [1, 2, 1000]]);
}
