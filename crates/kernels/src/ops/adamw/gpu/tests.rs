use crate::machine::device::adapter;
use crate::ops::adamw::tests::{
    agrees_over_steps, many_are_as_each, moments_become_zero, odd_shapes, others_stay_as_they_are,
};

#[test]
fn agrees_with_the_reference_over_steps() {
    let Some(device) = adapter("AdamW on the GPU") else { return };
    agrees_over_steps(&device);
}

#[test]
fn what_others_hold_stays_as_it_is() {
    let Some(device) = adapter("AdamW on the GPU") else { return };
    others_stay_as_they_are(&device);
}

#[test]
fn moments_without_gradients_become_zero() {
    let Some(device) = adapter("AdamW on the GPU") else { return };
    moments_become_zero(&device);
}

#[test]
fn odd_shapes_agree_with_the_reference() {
    let Some(device) = adapter("AdamW on the GPU") else { return };
    odd_shapes(&device);
}

#[test]
fn odd_shapes_of_many_parameters_are_updated_as_each_alone() {
    let Some(device) = adapter("AdamW on the GPU") else { return };
    many_are_as_each(&device);
}
