//! What the tests of every operation share: inputs, gradients, comparisons.

use burn::tensor::{DType, Device, Tensor, TensorData};
use std::cell::Cell;

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

pub(crate) fn list<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.cast(DType::F32).into_data().try_to_vec().unwrap()
}

/// The same numbers in rows of which each is followed by a gap (of NaN), as runtimes that pad rows allocate them.
pub(crate) fn padded<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let mut gap = x.dims();
    let columns = std::mem::replace(&mut gap[D - 1], 64);
    let gap = Tensor::full(gap, f32::NAN, (&x.device(), x.dtype()));
    Tensor::cat(vec![x, gap], D - 1).slice_dim(D - 1, 0..columns)
}

/// An output, and the gradients of the inputs.
pub(crate) type Differentiated = (Vec<f32>, Vec<Vec<f32>>);

/// The output of an operation, and the gradients of its inputs under a fixed weighting of the output.
pub(crate) fn differentiate<const D: usize>(
    device: &Device,
    inputs: &[Vec<f32>],
    operation: impl Fn(&[Tensor<1>]) -> Tensor<D>,
) -> Differentiated {
    differentiate_in(DType::F32, device, inputs, operation)
}

/// [`differentiate`] in a precision, from the same numbers.
pub(crate) fn differentiate_in<const D: usize>(
    dtype: DType,
    device: &Device,
    inputs: &[Vec<f32>],
    operation: impl Fn(&[Tensor<1>]) -> Tensor<D>,
) -> Differentiated {
    let device = device.clone().autodiff();
    let leaves: Vec<Tensor<1>> =
        inputs.iter().map(|values| flat(values.clone(), &device).cast(dtype).require_grad()).collect();
    let output = operation(&leaves);
    let weights = tensor(99, output.dims(), &device).cast(output.dtype());
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

/// [`assert_close`] for an output and its gradients, each with its tolerance.
#[track_caller]
pub(crate) fn assert_alike(
    what: &str,
    (output, gradients): &Differentiated,
    (expected, expected_gradients): &Differentiated,
    [of_output, of_gradients]: [f32; 2],
) {
    assert_close(what, output, expected, of_output);
    assert_eq!(gradients.len(), expected_gradients.len(), "{what}: the number of gradients");
    for (index, (gradient, expected)) in gradients.iter().zip(expected_gradients).enumerate() {
        assert_close(&format!("{what}: gradient {index}"), gradient, expected, of_gradients);
    }
}

/// What separates a fused form from its reference: the tolerances of an output and of gradients.
pub(crate) const ROUNDING: [f32; 2] = [2e-6, 5e-6];

pub(crate) fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

/// Asserts that an operation on the CPU and its gradients have the same bits on one thread and on three.
#[track_caller]
pub(crate) fn assert_threads_change_no_bit<const D: usize>(
    what: &str,
    inputs: &[Vec<f32>],
    operation: impl Fn(&[Tensor<1>]) -> Tensor<D> + Sync,
) {
    let run = |threads| on_threads(threads, || differentiate(&Device::flex(), inputs, &operation));
    assert!(bits(&run(1)) == bits(&run(3)), "{what}");
}

pub(crate) fn bits((output, gradients): &Differentiated) -> Vec<u32> {
    output.iter().chain(gradients.iter().flatten()).map(|x| x.to_bits()).collect()
}

/// Asserts that a fused operation and its gradients match its own reference, that a second run gives the same bits,
/// and that the gradients match central differences of the reference, in float64.
#[track_caller]
pub(crate) fn assert_fused_on<const D: usize>(
    device: &Device,
    what: &str,
    inputs: &[Vec<f32>],
    operation: impl Fn(&[Tensor<1>]) -> Tensor<D>,
) {
    let reference = |inputs: &[Tensor<1>]| by_reference(|| operation(inputs));
    let gradients = assert_matches_reference_on(device, what, inputs, &operation, reference);
    for (index, gradient) in gradients.iter().enumerate() {
        let slope = central_difference(inputs, index, reference);
        let direction = numbers(7, gradient.len());
        let along: f64 = gradient.iter().zip(&direction).map(|(g, d)| f64::from(*g) * f64::from(*d)).sum();
        let largest = gradient.iter().fold(1.0_f64, |largest, x| largest.max(f64::from(x.abs())));
        let tolerance = f64::from(ROUNDING[1]) * largest * (1.0 + (gradient.len() as f64).sqrt());
        assert!(
            (slope - along).abs() < tolerance,
            "{what}: input {index} has slope {slope}, its gradient says {along}"
        );
    }
}

/// Asserts that a fused operation and its gradients match the reference, and that a second run gives the same bits: all
/// that can be said of an operation with kinks. Gives the gradients. The reference is computed in float64, so that what is apart is the
/// fused form's alone, and on the CPU.
#[track_caller]
pub(crate) fn assert_matches_reference_on<const D: usize>(
    device: &Device,
    what: &str,
    inputs: &[Vec<f32>],
    fused: impl Fn(&[Tensor<1>]) -> Tensor<D>,
    reference: impl Fn(&[Tensor<1>]) -> Tensor<D>,
) -> Vec<Vec<f32>> {
    assert_matches_within(ROUNDING, device, what, inputs, fused, reference)
}

/// [`assert_matches_reference_on`] with other tolerances than [`ROUNDING`].
#[track_caller]
pub(crate) fn assert_matches_within<const D: usize>(
    tolerances: [f32; 2],
    device: &Device,
    what: &str,
    inputs: &[Vec<f32>],
    fused: impl Fn(&[Tensor<1>]) -> Tensor<D>,
    reference: impl Fn(&[Tensor<1>]) -> Tensor<D>,
) -> Vec<Vec<f32>> {
    let calls = crate::op::calls();
    let differentiated = differentiate(device, inputs, &fused);
    assert!(crate::op::calls() > calls, "{what}: the fused form did not run");
    let calls = crate::op::calls();
    let expected = differentiate_in(DType::F64, &Device::flex(), inputs, reference);
    assert_eq!(crate::op::calls(), calls, "{what}: the reference ran a fused form");
    assert_alike(what, &differentiated, &expected, tolerances);
    let again = differentiate(device, inputs, &fused);
    assert!(bits(&differentiated) == bits(&again), "{what}: a second run differs");

    let plain: Vec<Tensor<1>> = inputs.iter().map(|x| flat(x.clone(), device)).collect();
    let untracked = fused(&plain);
    assert!(!untracked.is_autodiff(), "{what}: plain tensors stay plain");
    let (output, gradients) = differentiated;
    let alone = (list(untracked), Vec::new());
    assert!(bits(&(output, Vec::new())) == bits(&alone), "{what}: the same bits without autodiff");
    gradients
}

/// The slope of the weighted output when input `index` moves along a fixed direction, in float64.
fn central_difference<const D: usize>(
    inputs: &[Vec<f32>],
    index: usize,
    operation: impl Fn(&[Tensor<1>]) -> Tensor<D>,
) -> f64 {
    let step = 2.0_f64.powi(-16);
    let device = Device::flex();
    let wide = |values: Vec<f32>| flat(values, &device).cast(DType::F64);
    let direction = wide(numbers(7, inputs[index].len()));
    let value = |step: f64| {
        let mut moved: Vec<_> = inputs.iter().map(|values| wide(values.clone())).collect();
        moved[index] = moved[index].clone() + direction.clone().mul_scalar(step);
        let output = operation(&moved);
        let weights = tensor(99, output.dims(), &device).cast(DType::F64);
        (output * weights).sum().into_scalar::<f64>()
    };
    (value(step) - value(-step)) / (2.0 * step)
}

thread_local! {
    static IN_REFERENCE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread sends every operation to its reference.
pub(crate) fn in_reference() -> bool {
    IN_REFERENCE.get()
}

/// What an operation gives by plain operations alone.
pub(crate) fn by_reference<T>(operation: impl FnOnce() -> T) -> T {
    IN_REFERENCE.set(true);
    let result = operation();
    IN_REFERENCE.set(false);
    result
}

/// The devices that operations are tested on: the CPU, and a GPU where there is one.
#[cfg_attr(not(feature = "gpu"), allow(unused_variables, reason = "what is left out without a GPU"))]
pub(crate) fn devices(what: &str) -> Vec<Device> {
    #[cfg(feature = "gpu")]
    if let Some(gpu) = crate::machine::device::adapter(what) {
        return vec![Device::flex(), gpu];
    }
    vec![Device::flex()]
}

/// Tests of functions of a device, on each of [`devices`].
macro_rules! on_devices {
    ($what:literal: $($(#[$meta:meta])* $name:ident => $check:expr,)*) => {
        $($(#[$meta])*
        #[test]
        fn $name() {
            let check: fn(&burn::tensor::Device) = $check;
            for device in $crate::testing::devices($what) {
                check(&device);
            }
        })*
    };
}
pub(crate) use on_devices;

pub(crate) mod activations {
    use super::{assert_close, assert_fused_on, devices, flat, list, numbers, tensor};
    use crate::Precision;
    use burn::tensor::{DType, Device, Tensor};

    /// Widths that vectors divide and widths that none divides.
    const SHAPES: [[usize; 3]; 9] = [
        [1, 1, 2],
        [2, 37, 6],
        [3, 50, 130],
        [2, 37, 16],
        [1, 5, 74],
        [1, 3, 96],
        [1, 2, 600],
        [1, 2, 1000],
        [0, 3, 4],
    ];

    /// x arrives with its first two dimensions swapped, so that it does not lie contiguously.
    pub(crate) fn agree_with_the_reference(name: &str, activation: fn(Tensor<3>) -> Tensor<3>) {
        let x = |inputs: &[Tensor<1>], [batch, length, width]: [usize; 3]| {
            inputs[0].clone().mul_scalar(4.0).reshape([length, batch, width]).swap_dims(0, 1)
        };
        for device in devices(name) {
            for shape in SHAPES {
                let count = shape.iter().product();
                if count == 0 {
                    assert!(list(activation(Tensor::zeros(shape, &device))).is_empty());
                    continue;
                }
                let what = format!("{name} {shape:?}");
                assert_fused_on(&device, &what, &[numbers(1, count)], |inputs| activation(x(inputs, shape)));
            }
        }
    }

    /// A half-precision activation is that of f32 at the same numbers, rounded, and its gradient too.
    pub(crate) fn halves_are_rounded(activation: fn(Tensor<3>) -> Tensor<3>) {
        let device = Device::flex().autodiff();
        let shape = [2, 5, 6];
        for precision in [Precision::F16, Precision::Bf16] {
            let leaf = || flat(numbers(1, 60), &device).mul_scalar(4.0).detach().require_grad();
            let half = |leaf: &Tensor<1>| leaf.clone().cast(precision.dtype()).reshape(shape);
            let (a, b) = (leaf(), leaf());
            let calls = crate::op::calls();
            let actual = activation(half(&a));
            assert_eq!(actual.dtype(), precision.dtype());
            assert!(crate::op::calls() > calls, "the fused form did not run");
            let expected = activation(half(&b).cast(DType::F32)).cast(precision.dtype());
            let weights = |y: &Tensor<3>| tensor::<3>(2, y.dims(), &device).cast(precision.dtype());
            let slope = |y: &Tensor<3>| (y.clone() * weights(y)).cast(DType::F32).sum().backward();
            let (a_slope, b_slope) = (slope(&actual), slope(&expected));
            assert_eq!(list(actual.cast(DType::F32)), list(expected.cast(DType::F32)));
            let [actual, expected] = [(a, a_slope), (b, b_slope)].map(|(x, g)| list(x.grad(&g).unwrap()));
            // The formulas differ by rounding errors of f32, which may tip a rounding to half.
            let off = precision.unit_roundoff() as f32 * 2.0;
            assert_close("gradient", &actual, &expected, off);
            assert!(expected.iter().any(|x| x.abs() > 0.5));
        }
    }
}
