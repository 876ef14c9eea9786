use super::*;
use crate::testing::{assert_matches, differentiate, numbers};
use burn::tensor::Device;

const PLAIN: Shape =
    Shape { batch: 2, heads: 2, queries: 37, keys: 37, head_dim: 5, value_dim: 7, distances: 37, first: 0 };
const HIDDEN: usize = 6;

fn inputs(shape: Shape) -> Vec<Vec<f32>> {
    let Shape { batch, heads, queries, keys, head_dim, value_dim, distances, .. } = shape;
    let [q, k, v] = [queries * head_dim, keys * head_dim, keys * value_dim].map(|size| batch * heads * size);
    let sizes = [q, k, v, heads * distances, 2 * heads * HIDDEN, HIDDEN, HIDDEN * heads, heads];
    let mut inputs: Vec<_> = sizes.into_iter().zip(1..).map(|(size, seed)| numbers(seed, size)).collect();
    // Hidden numbers of one sign each, near no kink that a central difference would step over.
    for (n, x) in inputs[5].iter_mut().enumerate() {
        *x = (0.1 * *x + 0.3 * heads as f32 + 0.2) * if n % 2 == 0 { 1.0 } else { -1.0 };
    }
    inputs
}

type Attend = fn(Tensor<4>, Tensor<4>, Tensor<4>, &PairAttention) -> Tensor<4>;

fn plain(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, options: &PairAttention) -> Tensor<4> {
    reference::pair_attention(&q, k, &v, options)
}

fn call(shape: Shape, inputs: &[Tensor<1>], attend: Attend) -> Tensor<4> {
    let Shape { batch, heads, queries, keys, head_dim, value_dim, distances, first } = shape;
    // Heads and rows swapped, so that they do not lie contiguously.
    let of = |index: usize, length: usize, width: usize| {
        inputs[index].clone().reshape([batch, length, heads, width]).swap_dims(1, 2)
    };
    let options = PairAttention {
        scale: 0.7,
        bias: inputs[3].clone().reshape([heads, distances]),
        network: PairNetwork {
            w1: inputs[4].clone().mul_scalar(0.05).reshape([2 * heads, HIDDEN]),
            b1: inputs[5].clone(),
            w2: inputs[6].clone().reshape([HIDDEN, heads]),
            b2: inputs[7].clone(),
        },
        first,
    };
    attend(of(0, queries, head_dim), of(1, keys, head_dim), of(2, keys, value_dim), &options)
}

#[test]
fn agrees_with_the_reference() {
    let shapes = [
        PLAIN,
        Shape { batch: 1, heads: 1, queries: 1, keys: 1, distances: 1, ..PLAIN },
        Shape { heads: 3, queries: 5, keys: 50, distances: 60, first: 41, ..PLAIN },
        Shape { batch: 17, queries: 3, keys: 20, distances: 20, first: 17, ..PLAIN },
        Shape { batch: 1, heads: 5, queries: 130, keys: 131, distances: 130, ..PLAIN },
    ];
    for shape in shapes {
        assert_matches(
            &format!("{shape:?}"),
            &inputs(shape),
            |inputs| call(shape, inputs, pair_attention),
            |inputs| call(shape, inputs, plain),
        );
    }
}

#[test]
fn hidden_numbers_of_both_signs() {
    let mut inputs = inputs(PLAIN);
    inputs[5] = numbers(9, HIDDEN).iter().map(|x| 0.2 * x).collect();
    let read = |attend| differentiate(&Device::flex(), &inputs, |inputs| call(PLAIN, inputs, attend));
    let ((output, gradients), (expected, expected_gradients)) = (read(pair_attention as Attend), read(plain));
    crate::testing::assert_close("output", &output, &expected, 2e-6);
    for (gradient, expected) in gradients.iter().zip(&expected_gradients) {
        crate::testing::assert_close("gradient", gradient, expected, 5e-6);
    }
}

/// Queries at the end of a text, as a cached text is read.
#[test]
fn later_queries_give_the_same_as_all() {
    let inputs: Vec<Tensor<1>> =
        inputs(PLAIN).into_iter().map(|x| crate::testing::flat(x, &Device::flex())).collect();
    let whole = call(PLAIN, &inputs, pair_attention).slice_dim(2, 30..37);
    let Shape { batch, heads, queries, head_dim, .. } = PLAIN;
    let q = inputs[0].clone().reshape([batch, queries, heads * head_dim]).slice_dim(1, 30..37);
    let mut later = inputs;
    later[0] = q.reshape([batch * 7 * heads * head_dim]);
    let part = call(Shape { queries: 7, first: 30, ..PLAIN }, &later, pair_attention);
    crate::testing::assert_close(
        "later queries",
        &crate::testing::list(part),
        &crate::testing::list(whole),
        2e-6,
    );
}

#[test]
fn threads_change_no_bit() {
    // One text is cut into pieces.
    for shape in [PLAIN, Shape { batch: 1, queries: 130, keys: 130, distances: 130, ..PLAIN }] {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                differentiate(&Device::flex(), &inputs(shape), |inputs| call(shape, inputs, pair_attention))
            })
        };
        assert_eq!(run(1), run(3));
    }
}
