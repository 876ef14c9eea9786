//! What the tests of every operation share: inputs, gradients, comparisons.

use burn::tensor::{Device, Tensor, TensorData};

/// Numbers in [-1, 1), a fixed sequence for each seed.
pub(crate) fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
        })
        .collect()
}

/// A flat tensor of the sizes' product: the form in which operations are differentiated here.
pub(crate) fn flat(values: Vec<f32>, device: &Device) -> Tensor<1> {
    let count = values.len();
    Tensor::from_data(TensorData::new(values, [count]), device)
}

/// A tensor of [`numbers`].
pub(crate) fn tensor<const D: usize>(seed: u64, shape: [usize; D], device: &Device) -> Tensor<D> {
    flat(numbers(seed, shape.iter().product()), device).reshape(shape)
}

/// The values of a tensor.
pub(crate) fn list<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().unwrap()
}

/// The same numbers in rows of which each is followed by a gap (of NaN), as runtimes that pad rows allocate them.
pub(crate) fn padded<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let mut gap = x.dims();
    let columns = std::mem::replace(&mut gap[D - 1], 64);
    let gap = Tensor::full(gap, f32::NAN, &x.device());
    Tensor::cat(vec![x, gap], D - 1).slice_dim(D - 1, 0..columns)
}

/// The output of an operation, and the gradients of its inputs under a fixed weighting of the output.
pub(crate) fn differentiate<const D: usize>(
    device: &Device,
    inputs: &[Vec<f32>],
    operation: impl Fn(&[Tensor<1>]) -> Tensor<D>,
) -> (Vec<f32>, Vec<Vec<f32>>) {
    let device = device.clone().autodiff();
    let leaves: Vec<Tensor<1>> =
        inputs.iter().map(|values| flat(values.clone(), &device).require_grad()).collect();
    let output = operation(&leaves);
    let weights = tensor(99, output.dims(), &device);
    let gradients = (output.clone() * weights).sum().backward();
    let gradients = leaves
        .iter()
        .map(|leaf| leaf.grad(&gradients).map_or_else(|| vec![0.0; leaf.dims()[0]], list))
        .collect();
    (list(output), gradients)
}

/// Asserts that no difference exceeds `tolerance` times the largest expected magnitude (at least 1).
#[track_caller]
pub(crate) fn assert_close(what: &str, actual: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(actual.len(), expected.len(), "{what}: lengths");
    let largest = expected.iter().fold(1.0_f32, |largest, x| largest.max(x.abs()));
    for (index, (a, e)) in actual.iter().zip(expected).enumerate() {
        assert!((a - e).abs() <= tolerance * largest, "{what}: element {index} is {a}, expected {e}");
    }
}

/// [`assert_matches_on`] the CPU.
#[track_caller]
pub(crate) fn assert_matches<const D: usize>(
    what: &str,
    inputs: &[Vec<f32>],
    fused: impl Fn(&[Tensor<1>]) -> Tensor<D>,
    reference: impl Fn(&[Tensor<1>]) -> Tensor<D>,
) {
    assert_matches_on(&Device::flex(), what, inputs, fused, reference);
}

/// Asserts that a fused operation and its gradients match the reference, that a second run gives the same bits,
/// and that the gradients match central differences.
#[track_caller]
pub(crate) fn assert_matches_on<const D: usize>(
    device: &Device,
    what: &str,
    inputs: &[Vec<f32>],
    fused: impl Fn(&[Tensor<1>]) -> Tensor<D>,
    reference: impl Fn(&[Tensor<1>]) -> Tensor<D>,
) {
    let gradients = assert_matches_reference_on(device, what, inputs, &fused, reference);
    for (index, gradient) in gradients.iter().enumerate() {
        let slope = central_difference(device, inputs, index, &fused);
        let direction = numbers(7, gradient.len());
        let along: f64 = gradient.iter().zip(&direction).map(|(g, d)| f64::from(*g) * f64::from(*d)).sum();
        let tolerance = 2e-3 * (1.0 + along.abs() + (gradient.len() as f64).sqrt() * 0.1);
        assert!(
            (slope - along).abs() < tolerance,
            "{what}: input {index} has slope {slope}, its gradient says {along}"
        );
    }
}

/// Asserts that a fused operation and its gradients match the reference, and that a second run gives the same bits: all
/// that can be said of an operation with kinks. Gives the gradients.
#[track_caller]
pub(crate) fn assert_matches_reference_on<const D: usize>(
    device: &Device,
    what: &str,
    inputs: &[Vec<f32>],
    fused: impl Fn(&[Tensor<1>]) -> Tensor<D>,
    reference: impl Fn(&[Tensor<1>]) -> Tensor<D>,
) -> Vec<Vec<f32>> {
    let calls = crate::autodiff::calls();
    let (output, gradients) = differentiate(device, inputs, &fused);
    assert!(crate::autodiff::calls() > calls, "{what}: the fused form did not run");
    let calls = crate::autodiff::calls();
    let (expected, expected_gradients) = differentiate(device, inputs, reference);
    assert_eq!(crate::autodiff::calls(), calls, "{what}: the reference ran a fused form");
    assert_close(what, &output, &expected, 2e-6);
    for (index, (gradient, expected)) in gradients.iter().zip(&expected_gradients).enumerate() {
        assert_close(&format!("{what}: gradient {index}"), gradient, expected, 5e-6);
    }

    let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let again = differentiate(device, inputs, &fused);
    assert_eq!(bits(&output), bits(&again.0), "{what}: a second run differs");
    for (first, second) in gradients.iter().zip(&again.1) {
        assert_eq!(bits(first), bits(second), "{what}: a second run's gradients differ");
    }

    let plain: Vec<Tensor<1>> = inputs.iter().map(|x| flat(x.clone(), device)).collect();
    let untracked = fused(&plain);
    assert!(!untracked.is_autodiff(), "{what}: plain tensors stay plain");
    assert_eq!(bits(&output), bits(&list(untracked)), "{what}: the same bits without autodiff");
    gradients
}

/// The slope of the weighted output when input `index` moves along a fixed direction.
fn central_difference<const D: usize>(
    device: &Device,
    inputs: &[Vec<f32>],
    index: usize,
    operation: impl Fn(&[Tensor<1>]) -> Tensor<D>,
) -> f64 {
    let step = 1.0 / 256.0;
    let direction = numbers(7, inputs[index].len());
    let value = |step: f32| {
        let moved: Vec<Tensor<1>> = inputs
            .iter()
            .enumerate()
            .map(|(other, values)| {
                let moved = values.iter().zip(&direction).map(|(x, d)| x + step * d).collect();
                flat(if other == index { moved } else { values.clone() }, device)
            })
            .collect();
        let output = operation(&moved);
        let weights = list(tensor(99, output.dims(), device));
        list(output).iter().zip(weights).map(|(x, w)| f64::from(*x) * f64::from(w)).sum::<f64>()
    };
    (value(step) - value(-step)) / f64::from(2.0 * step)
}
