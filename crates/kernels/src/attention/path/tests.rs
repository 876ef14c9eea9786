use super::*;
use crate::testing::{assert_fused_on, assert_threads_change_no_bit, numbers};
use burn::tensor::{Device, activation::sigmoid};

const PLAIN: Shape =
    Shape { batch: 2, heads: 2, key_heads: 2, queries: 37, keys: 37, head_dim: 5, value_dim: 7, first: 0 };

/// q, k, v, w and beta, and the gates of queries and keys.
fn inputs(shape: Shape) -> Vec<Vec<f32>> {
    let Shape { batch, heads, key_heads, queries, keys, head_dim, value_dim, .. } = shape;
    let sizes = [
        heads * queries * head_dim,
        key_heads * keys * head_dim,
        key_heads * keys * value_dim,
        key_heads * keys * head_dim,
        key_heads * keys,
        heads * queries,
        heads * keys,
    ];
    sizes.into_iter().zip(1..).map(|(size, seed)| numbers(seed, batch * size)).collect()
}

fn call(shape: Shape, gated: bool, inputs: &[Tensor<1>]) -> Tensor<4> {
    let Shape { batch, heads, key_heads, queries, keys, head_dim, value_dim, first } = shape;
    // Heads and rows swapped, so that they do not lie contiguously.
    let of = |index: usize, heads: usize, length: usize, width: usize| {
        inputs[index].clone().reshape([batch, length, heads, width]).swap_dims(1, 2)
    };
    let w = of(3, key_heads, keys, head_dim);
    let norms = w.clone().square().sum_dim(3).add_scalar(0.1).sqrt();
    let gate = |index: usize, length: usize| inputs[index].clone().reshape([batch, heads, length]);
    let options = PathAttention {
        scale: 0.7,
        reflections: Reflections {
            directions: w / norms,
            strengths: sigmoid(inputs[4].clone()).mul_scalar(2.0).reshape([batch, key_heads, keys]),
        },
        gates: gated.then(|| [gate(5, queries), gate(6, keys)]),
        first,
    };
    path_attention(
        of(0, heads, queries, head_dim),
        of(1, key_heads, keys, head_dim),
        of(2, key_heads, keys, value_dim),
        &options,
    )
}

#[test]
fn agrees_with_the_reference() {
    let shapes = [
        PLAIN,
        Shape { batch: 1, heads: 1, key_heads: 1, queries: 1, keys: 1, ..PLAIN },
        // Groups of heads, and queries at the end of a text.
        Shape { heads: 4, queries: 5, keys: 50, first: 41, ..PLAIN },
        Shape { batch: 17, queries: 3, keys: 20, first: 17, ..PLAIN },
        // Several regions, the last one cut short, and keys after the last query.
        Shape { batch: 1, heads: 3, key_heads: 1, queries: 300, keys: 320, first: 13, ..PLAIN },
        Shape { batch: 1, queries: 256, keys: 256, head_dim: 33, value_dim: 16, ..PLAIN },
    ];
    for shape in shapes {
        for gated in [false, true] {
            let (what, inputs) = (format!("{shape:?}, gates: {gated}"), inputs(shape));
            let inputs = &inputs[..if gated { 7 } else { 5 }];
            assert_fused_on(&Device::flex(), &what, inputs, |inputs| call(shape, gated, inputs));
        }
    }
}

#[test]
fn threads_change_no_bit() {
    // One text is cut into pieces.
    for shape in [PLAIN, Shape { batch: 1, queries: 300, keys: 300, ..PLAIN }] {
        let fused = |inputs: &[Tensor<1>]| call(shape, true, inputs);
        assert_threads_change_no_bit(&format!("{shape:?}"), &inputs(shape), fused);
    }
}
