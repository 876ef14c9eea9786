//! Products by matrix units against those in f32.
//!
//! `LONGWAVE_REQUIRE_MATRIX_UNITS=1` makes a device without them a failure: Mesa's llvmpipe has them from version 26 on,
//! under the feature `vulkan`.

use super::{PLAIN, last, with_both_sides};
use crate::Precision;
use crate::attention::gpu::supports;
use crate::attention::partial_attention;
use crate::attention::spec::Shape;
use crate::attention::tests::{BIAS_KINDS, BiasKind, Case, Lie, flat_part};
use crate::machine::device::adapter;
use crate::testing::{differentiate, tensor};
use burn::tensor::{Device, f16};

/// Differences from f32, relative to the largest number: shares, the gradients of scores and what meets them are rounded
/// to 11 bits, each with an error of at most 2^-11, and up to four such errors add up (llvmpipe: 7e-4).
const APART: f32 = 4.0 / 2048.0;

/// The device, if it multiplies f16 by matrix units.
fn device(left_out: &str) -> Option<Device> {
    let device = adapter(left_out)?;
    let q = tensor::<4>(1, [1, 1, 2, 8], &device);
    let tiles = supports(&q.clone().into(), &Shape::of(&q, &q, &q), Precision::F16);
    if tiles.is_some_and(|tiles| tiles.matrices.is_some()) {
        return Some(device);
    }
    let required = std::env::var_os("LONGWAVE_REQUIRE_MATRIX_UNITS").is_some_and(|value| value == "1");
    assert!(!required, "LONGWAVE_REQUIRE_MATRIX_UNITS=1, but the device multiplies no f16 by matrix units");
    None
}

/// How far the outputs and gradients of the two precisions lie apart, relative to the largest number of each, on numbers that f16
/// has.
fn apart(case: Case, device: &Device, kind: BiasKind) -> Vec<f32> {
    let halves = |x: Vec<f32>| x.into_iter().map(|x| f16::from_f32(x).to_f32()).collect();
    let inputs: Vec<Vec<f32>> = case.inputs(kind).into_iter().map(halves).collect();
    let [actual, expected] = [Precision::F16, Precision::F32].map(|precision| {
        let case = Case { precision, ..case };
        let run = || {
            differentiate(device, &inputs, |inputs| {
                if case.border.is_some() {
                    return case.fused(kind, inputs).reshape([-1]);
                }
                let ([q, k, v], options) = case.call(kind, inputs);
                flat_part(partial_attention(q, k, v, &options))
            })
        };
        let (output, gradients) = run();
        assert_eq!((output.clone(), gradients.clone()), run(), "{kind:?} {case:?}: a second run differs");
        std::iter::once(output).chain(gradients).collect::<Vec<_>>()
    });
    // What a query adds to all its scores has no gradient but rounding errors: the parts of a bias are held to the largest.
    let far = if case.border.is_some() { 2 } else { 0 };
    let biases = 4..actual.len() - far;
    let of_biases = largest(expected[biases.clone()].iter().flatten().copied());
    let apart = |(index, (actual, expected)): (usize, (&Vec<f32>, &Vec<f32>))| {
        assert!(actual.iter().all(|x| x.is_finite()), "{kind:?} {case:?}");
        let own = largest(expected.iter().copied());
        let size = if biases.contains(&index) { of_biases } else { own };
        largest(actual.iter().zip(expected).map(|(a, e)| a - e)) / size
    };
    actual.iter().zip(&expected).enumerate().map(apart).collect()
}

fn largest(numbers: impl Iterator<Item = f32>) -> f32 {
    numbers.fold(0.0, |largest, x| largest.max(x.abs()))
}

fn check(case: Case, device: &Device, kind: BiasKind) {
    let apart = apart(case, device, kind);
    // The output is rounded on its way, so that it shows whether the units computed it.
    assert!(apart[0] > 1e-6, "{kind:?} {case:?}: {apart:?}");
    assert!(apart.iter().all(|apart| *apart <= APART), "{kind:?} {case:?}: {apart:?}");
}

#[test]
fn every_bias_agrees_with_f32() {
    let Some(device) = device("matrix units") else { return };
    with_both_sides(|| {
        for kind in BIAS_KINDS {
            let window = (kind == BiasKind::Slopes).then_some(20);
            let shape = Shape { batch: 1, queries: 70, keys: 101, ..PLAIN.shape };
            check(Case { window, ..last(shape) }, &device, kind);
        }
    });
}

#[test]
fn odd_shapes_agree_with_f32() {
    let Some(device) = device("matrix units") else { return };
    let of = |queries, keys, head_dim, value_dim| {
        last(Shape { batch: 1, queries, keys, head_dim, value_dim, ..PLAIN.shape })
    };
    for case in [
        PLAIN,
        Case { window: Some(20), sinks: 3, scaled: Some(1), ..of(65, 67, 5, 3) },
        of(200, 200, 64, 64),
        of(66, 66, 128, 64),
        Case { lie: Lie::Apart, ..of(63, 96, 48, 34) },
        of(65, 65, 37, 96),
        Case { window: Some(90), border: Some(41), ..of(130, 130, 32, 8) },
    ] {
        check(case, &device, BiasKind::Pair);
    }
}

/// f32 has no such units, and a call in f32 has the bits that it has without them.
#[test]
fn f32_is_not_rounded() {
    let Some(device) = device("matrix units") else { return };
    let q = tensor::<4>(1, [1, 2, 70, 16], &device);
    let shape = Shape::of(&q, &q, &q);
    assert!(
        supports(&q.clone().into(), &shape, Precision::F32).is_some_and(|tiles| tiles.matrices.is_none())
    );
}
