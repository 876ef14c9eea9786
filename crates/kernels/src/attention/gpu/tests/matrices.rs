//! Products by matrix units against those in f32.
//!
//! `LONGWAVE_REQUIRE_MATRIX_UNITS=1` makes a device without them a failure: Mesa's llvmpipe has them from version 26 on,
//! under the feature `vulkan`.

use super::{Case, KINDS, PLAIN, with_both_sides};
use crate::Precision;
use crate::attention::gpu::supports;
use crate::attention::spec::Shape;
use crate::attention::tests::flat_part;
use crate::attention::{attention_by_distance, partial_attention};
use crate::machine::device::adapter;
use crate::testing::{differentiate, numbers, tensor};
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

/// Numbers that f16 has.
fn halves(seed: u64, count: usize) -> Vec<f32> {
    numbers(seed, count).into_iter().map(|x| f16::from_f32(x).to_f32()).collect()
}

/// How far the outputs and gradients of the two precisions lie apart, relative to the largest number of each.
fn apart(case: Case, device: &Device, kind: &str) -> Vec<f32> {
    let inputs: Vec<Vec<f32>> =
        (1..).zip(case.input_sizes(kind)).map(|(seed, size)| halves(seed, size)).collect();
    let [actual, expected] = [Precision::F16, Precision::F32].map(|precision| {
        let case = Case { precision, ..case };
        let run = || {
            differentiate(device, &inputs, |inputs| {
                let ([q, k], v, far, options) = case.call(device, kind, inputs);
                match case.border {
                    Some(border) => attention_by_distance([q, k], far, v, border, &options).reshape([-1]),
                    None => flat_part(partial_attention(q, k, v, &options)),
                }
            })
        };
        let (output, gradients) = run();
        assert_eq!((output.clone(), gradients.clone()), run(), "{kind} {case:?}: a second run differs");
        std::iter::once(output).chain(gradients).collect::<Vec<_>>()
    });
    // What a query adds to all its scores has no gradient but rounding errors: the parts of a bias are held to the largest.
    let others = actual.len() - case.bias_sizes(kind).len();
    let of_biases = largest(expected[others..].iter().flatten().copied());
    let apart = |(index, (actual, expected)): (usize, (&Vec<f32>, &Vec<f32>))| {
        assert!(actual.iter().all(|x| x.is_finite()), "{kind} {case:?}");
        let own = largest(expected.iter().copied());
        let size = if index < others { own } else { of_biases };
        largest(actual.iter().zip(expected).map(|(a, e)| a - e)) / size
    };
    actual.iter().zip(&expected).enumerate().map(apart).collect()
}

fn largest(numbers: impl Iterator<Item = f32>) -> f32 {
    numbers.fold(0.0, |largest, x| largest.max(x.abs()))
}

fn check(case: Case, device: &Device, kind: &str) {
    let apart = apart(case, device, kind);
    // The output is rounded on its way, so that it shows whether the units computed it.
    assert!(apart[0] > 1e-6, "{kind} {case:?}: {apart:?}");
    assert!(apart.iter().all(|apart| *apart <= APART), "{kind} {case:?}: {apart:?}");
}

#[test]
fn every_bias_agrees_with_f32() {
    let Some(device) = device("matrix units") else { return };
    with_both_sides(|| {
        for kind in KINDS {
            let window = (kind == "slopes").then_some(20);
            check(Case { batch: 1, queries: 70, keys: 101, window, ..PLAIN }, &device, kind);
        }
    });
}

#[test]
fn odd_shapes_agree_with_f32() {
    let Some(device) = device("matrix units") else { return };
    let one = Case { batch: 1, ..PLAIN };
    for case in [
        PLAIN,
        Case {
            queries: 65,
            keys: 67,
            head_dim: 5,
            value_dim: 3,
            window: Some(20),
            sinks: 3,
            scaled: true,
            ..one
        },
        Case { queries: 200, keys: 200, head_dim: 64, value_dim: 64, ..one },
        Case { queries: 66, keys: 66, head_dim: 128, value_dim: 64, ..one },
        Case { queries: 63, keys: 96, head_dim: 48, value_dim: 34, apart: true, ..one },
        Case { queries: 65, keys: 65, head_dim: 37, value_dim: 96, ..one },
        Case { queries: 130, keys: 130, window: Some(90), border: Some(41), head_dim: 32, ..one },
    ] {
        check(case, &device, "pair");
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
