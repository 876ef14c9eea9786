use super::*;
use crate::testing::{
    assert_close, assert_matches, assert_threads_change_no_bit, flat, list, numbers, tensor,
};
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

type Attend = fn(Tensor<4>, Tensor<4>, Tensor<4>, &PathAttention) -> Tensor<4>;

fn plain(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, options: &PathAttention) -> Tensor<4> {
    reference::path_attention(&q, &k, &v, options)
}

fn call(shape: Shape, gated: bool, inputs: &[Tensor<1>], attend: Attend) -> Tensor<4> {
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
    attend(
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
            assert_matches(
                &format!("{shape:?}, gates: {gated}"),
                &inputs(shape)[..if gated { 7 } else { 5 }],
                |inputs| call(shape, gated, inputs, path_attention),
                |inputs| call(shape, gated, inputs, plain),
            );
        }
    }
}

/// With a strength of 0 rows change nothing, and with 1 a row erases its direction from the keys before it.
#[test]
fn strengths_of_zero_and_one() {
    let device = Device::flex();
    let shape = [1, 1, 40, 4];
    let [q, k, v, w] = [1, 2, 3, 4].map(|seed| tensor::<4>(seed, shape, &device));
    let w = w.clone() / w.square().sum_dim(3).sqrt();
    let read = |w: &Tensor<4>, strength: f64| {
        let strengths = Tensor::full([1, 1, 40], strength, &device);
        let reflections = Reflections { directions: w.clone(), strengths };
        let options = PathAttention { scale: 0.5, reflections, gates: None, first: 0 };
        path_attention(q.clone(), k.clone(), v.clone(), &options)
    };
    let options = crate::Attention { scale: 0.5, ..crate::Attention::causal(4) };
    let expected = crate::attention(q.clone(), k.clone(), v.clone(), &options);
    assert_close("strength 0", &list(read(&w, 0.0)), &list(expected), 1e-6);

    // All rows along one axis: a key keeps that channel only for its own row.
    let axis = Tensor::<1>::from_floats([1.0, 0.0, 0.0, 0.0], &device).reshape([1, 1, 1, 4]);
    let erased = list(read(&axis.expand(shape), 1.0));
    let [q, k, v] = [&q, &k, &v].map(|x| list(x.clone()));
    let logit = |i: usize, j: usize| -> f64 {
        let first = usize::from(i != j);
        (first..4).map(|n| f64::from(q[i * 4 + n]) * f64::from(k[j * 4 + n])).sum::<f64>() * 0.5
    };
    for (i, out) in erased.chunks(4).enumerate() {
        let weights: Vec<f64> = (0..=i).map(|j| logit(i, j).exp()).collect();
        let total: f64 = weights.iter().sum();
        for (n, out) in out.iter().enumerate() {
            let sum: f64 =
                weights.iter().enumerate().map(|(j, weight)| weight * f64::from(v[j * 4 + n])).sum();
            assert!((f64::from(*out) - sum / total).abs() < 1e-5, "row {i}");
        }
    }
}

/// Queries at the end of a text, as a cached text is read.
#[test]
fn later_queries_give_the_same_as_all() {
    let inputs: Vec<Tensor<1>> = inputs(PLAIN).into_iter().map(|x| flat(x, &Device::flex())).collect();
    let whole = call(PLAIN, false, &inputs, path_attention).slice_dim(2, 30..37);
    let Shape { batch, heads, queries, head_dim, .. } = PLAIN;
    let q = inputs[0].clone().reshape([batch, queries, heads * head_dim]).slice_dim(1, 30..37);
    let mut later = inputs;
    later[0] = q.reshape([batch * 7 * heads * head_dim]);
    let part = call(Shape { queries: 7, first: 30, ..PLAIN }, false, &later, path_attention);
    assert_close("later queries", &list(part), &list(whole), 2e-6);
}

#[test]
fn threads_change_no_bit() {
    // One text is cut into pieces.
    for shape in [PLAIN, Shape { batch: 1, queries: 300, keys: 300, ..PLAIN }] {
        let fused = |inputs: &[Tensor<1>]| call(shape, true, inputs, path_attention);
        assert_threads_change_no_bit(&format!("{shape:?}"), &inputs(shape), fused);
    }
}
