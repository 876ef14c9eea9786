use super::*;
use crate::attention::block::pieces::tests::cut_small;
use crate::ops::rotary::Layout;
use crate::testing::{
    assert_fused_on, assert_threads_change_no_bit, differentiate, flat, list, numbers, on_threads,
};
use burn::tensor::Device;

const PLAIN: Shape = Shape { batch: 2, heads: 3, queries: 21, keys: 21, head_dim: 6, value_dim: 5, first: 0 };

fn inputs(Shape { batch, heads, queries, keys, head_dim, value_dim, .. }: Shape) -> Vec<Vec<f32>> {
    let sizes = [queries * head_dim, keys * head_dim, keys * value_dim].map(|size| batch * heads * size);
    let mut inputs: Vec<_> = sizes.into_iter().zip(1..).map(|(size, seed)| numbers(seed, size)).collect();
    // No number so near the kink of the features that a central difference would step over it.
    for x in inputs[..2].iter_mut().flatten() {
        *x = 2.0 * *x + 0.02 * x.signum();
    }
    inputs
}

/// Tables for the rows of the queries and of the keys; small turns, so that denominators stay large beside numerators.
fn tables(Shape { queries, keys, first, .. }: Shape, device: &Device) -> [RotationTable; 2] {
    [first..first + queries, 0..keys].map(|rows| {
        let count = rows.len();
        let angles: Vec<f32> = rows.flat_map(|row| [0.05, 0.01].map(|f| f * row as f32)).collect();
        let angles = flat(angles, device).reshape([1, count, 2]);
        RotationTable { cos: angles.clone().cos(), sin: angles.sin(), layout: Layout::Half }
    })
}

/// Heads and rows swapped, so that nothing lies contiguously.
fn qkv(shape: Shape, inputs: &[Tensor<1>]) -> [Tensor<4>; 3] {
    let Shape { batch, heads, queries, keys, head_dim, value_dim, .. } = shape;
    let of = |index: usize, length: usize, width: usize| {
        inputs[index].clone().reshape([batch, length, heads, width]).swap_dims(1, 2)
    };
    [of(0, queries, head_dim), of(1, keys, head_dim), of(2, keys, value_dim)]
}

fn fused(shape: Shape, turns: bool, inputs: &[Tensor<1>]) -> Tensor<4> {
    let [q, k, v] = qkv(shape, inputs);
    let tables = turns.then(|| tables(shape, &q.device()));
    linear_attention(q, k, v, tables.as_ref(), shape.first)
}

#[track_caller]
fn check(shape: Shape, turns: bool) {
    let what = format!("{shape:?}, turns {turns}");
    assert_fused_on(&Device::flex(), &what, &inputs(shape), |inputs| fused(shape, turns, inputs));
}

#[test]
fn agrees_with_the_reference() {
    let shapes = [
        PLAIN,
        Shape { batch: 1, heads: 1, queries: 1, keys: 1, ..PLAIN },
        // Queries at the end of a text, and before its end.
        Shape { queries: 5, keys: 90, first: 85, ..PLAIN },
        Shape { queries: 70, keys: 90, first: 10, ..PLAIN },
        // Three chunks, the last one short.
        Shape { batch: 1, queries: 140, keys: 140, head_dim: 16, value_dim: 17, ..PLAIN },
    ];
    for shape in shapes {
        for turns in [false, true] {
            check(shape, turns);
        }
    }
}

/// Several ranges of a head, also with keys before and after the queries.
#[test]
fn ranges_agree_with_the_reference() {
    for shape in [
        Shape { batch: 1, heads: 2, queries: 300, keys: 300, ..PLAIN },
        Shape { batch: 1, heads: 2, queries: 140, keys: 180, first: 30, ..PLAIN },
    ] {
        for turns in [false, true] {
            cut_small(|| check(shape, turns));
            let run = || differentiate(&Device::flex(), &inputs(shape), |inputs| fused(shape, turns, inputs));
            assert_ne!(run(), cut_small(run), "if no bit differs, nothing was cut");
        }
    }
}

#[test]
fn features_too_small_for_f32_give_no_nan() {
    let device = Device::flex().autodiff();
    let tiny = Tensor::<4>::full([1, 2, 6, 4], -200.0, &device).require_grad();
    let v = Tensor::<4>::ones([1, 2, 6, 4], &device).require_grad();
    let out = linear_attention(tiny.clone(), tiny.clone(), v.clone(), None, 0);
    assert!(list(out.clone()).iter().all(|x| x.is_finite()));
    let gradients = out.sum().backward();
    for x in [tiny, v] {
        assert!(list(x.grad(&gradients).unwrap()).iter().all(|x| x.is_finite()));
    }
    let x = Tensor::<4>::from_data([[[[-1.0_f32, 0.0, 2.0, 0.5]]]], &Device::flex());
    for (found, expected) in list(reference::feature(x)).iter().zip([(-1_f32).exp(), 1.0, 3.0, 1.5]) {
        assert!((found - expected).abs() < 1e-6);
    }
}

#[test]
fn threads_change_no_bit() {
    assert_threads_change_no_bit("whole heads", &inputs(PLAIN), |inputs| fused(PLAIN, true, inputs));
    let long = Shape { queries: 200, keys: 200, ..PLAIN };
    let of_ranges = || differentiate(&Device::flex(), &inputs(long), |inputs| fused(long, true, inputs));
    let run = |threads| on_threads(threads, || cut_small(of_ranges));
    assert!(run(1) == run(3));
}
