use crate::device::adapter;
use crate::norm::tests::{all_agree, gradients_of_parts, lengths_of_rows};

#[test]
fn all_agree_with_the_reference() {
    let Some(device) = adapter("norms on the GPU") else { return };
    all_agree(&device, &[[2, 3, 64], [1, 700, 32]]);
}

/// Widths that no vector divides, more channels than a cube has units, and fewer.
#[test]
fn odd_shapes_agree_with_the_reference() {
    let Some(device) = adapter("norms on the GPU") else { return };
    all_agree(
        &device,
        &[[1, 1, 1], [2, 37, 5], [1, 9, 48], [2, 3, 96], [1, 3, 130], [1, 2, 300], [1, 2, 1000]],
    );
}

#[test]
fn rows_of_heads_get_length_1_and_empty_ones_stay() {
    let Some(device) = adapter("norms on the GPU") else { return };
    lengths_of_rows(&device);
}

#[test]
fn what_nothing_depends_on_receives_nothing() {
    let Some(device) = adapter("norms on the GPU") else { return };
    gradients_of_parts(&device);
}
