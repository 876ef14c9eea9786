use super::{CHUNK, UNITS};
use crate::machine::device::adapter;
use crate::testing::{assert_close, assert_fused_on, list, numbers, tensor};
use crate::{clip_factor, mean, sum, sums_of_squares};
use burn::tensor::{Device, Tensor};

fn agree(device: &Device, counts: &[usize]) {
    for &count in counts {
        let inputs = [numbers(1, count)];
        let shaped = |x: &[Tensor<1>]| x[0].clone().reshape([1, count]).swap_dims(0, 1);
        assert_fused_on(device, &format!("sum of {count}"), &inputs, |x| sum(shaped(x)));
        assert_fused_on(device, &format!("mean of {count}"), &inputs, |x| mean(shaped(x)));
    }
}

fn squares_agree(device: &Device, counts: &[usize]) {
    let tensors: Vec<Tensor<1>> =
        counts.iter().zip(1..).map(|(&count, seed)| tensor::<1>(seed, [count], device)).collect();
    let expected: f64 = tensors.iter().flat_map(|x| list(x.clone())).map(|x| f64::from(x).powi(2)).sum();
    let squares = sums_of_squares(&tensors);
    let actual: f64 = list(squares.clone()).into_iter().map(f64::from).sum();
    assert!((actual - expected).abs() <= 1e-6 * expected, "{counts:?}: {actual}, {expected}");
    for limit in [0.5, 1e6] {
        let factor = (limit / expected.sqrt()).min(1.0) as f32;
        assert_close("factor", &list(clip_factor(squares.clone(), limit)), &[factor], 1e-6);
    }
}

#[test]
fn sums_agree_with_the_reference() {
    let Some(device) = adapter("sums on the GPU") else { return };
    agree(&device, &[4096]);
    // More than one round.
    let x = tensor::<1>(1, [3 * CHUNK + 17], &device).abs();
    let expected: f64 = list(x.clone()).into_iter().map(f64::from).sum();
    assert_close("sum", &list(sum(x)), &[expected as f32], 1e-6);
}

#[test]
fn odd_shapes_agree_with_the_reference() {
    let Some(device) = adapter("sums on the GPU") else { return };
    agree(&device, &[1, 37, UNITS, UNITS + 1, 1000]);
    squares_agree(&device, &[1, 37, CHUNK, CHUNK + 1, 5]);
}

/// More tensors than a launch takes.
#[test]
fn squares_of_many_tensors_are_added() {
    let Some(device) = adapter("sums on the GPU") else { return };
    squares_agree(&device, &[3]);
    squares_agree(&device, &(1..100).map(|count| count * 7).collect::<Vec<_>>());
}

#[test]
fn a_gradient_of_zeros_is_not_clipped() {
    let Some(device) = adapter("sums on the GPU") else { return };
    assert_close("factor", &list(clip_factor(Tensor::zeros([3], &device), 1.0)), &[1.0], 0.0);
}
