//! A network of all heads' logits and biases, against its reference.

use super::*;
use crate::attention::PairTerms;
use crate::attention::block::pieces::tests::cut_small;
use crate::ops::pair_network::PairNetwork;

const HIDDEN: usize = 6;

fn inputs(case: &Case) -> Vec<Vec<f32>> {
    let heads = case.shape.heads;
    let sizes = [heads * case.distances(), 2 * heads * HIDDEN, HIDDEN, HIDDEN * heads, heads];
    let own = sizes.into_iter().zip(40..).map(|(size, seed)| numbers(seed, size));
    let mut inputs: Vec<_> = case.inputs(BiasKind::None).into_iter().chain(own).collect();
    // Hidden numbers of one sign each, near no kink that a central difference would step over.
    for (n, x) in inputs[5].iter_mut().enumerate() {
        *x = (0.1 * *x + 0.3 * heads as f32 + 0.2) * if n % 2 == 0 { 1.0 } else { -1.0 };
    }
    inputs
}

fn call(case: &Case, inputs: &[Tensor<1>]) -> ([Tensor<4>; 3], Attention) {
    let ([q, k, v], options) = case.call(BiasKind::None, inputs);
    let heads = case.shape.heads;
    let terms = PairTerms {
        bias: inputs[3].clone().reshape([heads, case.distances()]),
        network: PairNetwork {
            w1: inputs[4].clone().mul_scalar(0.05).reshape([2 * heads, HIDDEN]),
            b1: inputs[5].clone(),
            w2: inputs[6].clone().reshape([HIDDEN, heads]),
            b2: inputs[7].clone(),
        },
    };
    ([q, k, v], Attention { terms: terms.into(), ..options })
}

fn fused(case: &Case, inputs: &[Tensor<1>]) -> Tensor<4> {
    let ([q, k, v], options) = call(case, inputs);
    attention(q, k, v, &options)
}

fn plain(case: &Case, inputs: &[Tensor<1>]) -> Tensor<4> {
    let (qkv, options) = call(case, inputs);
    reference::attention(qkv, &options, &case.shape)
}

#[track_caller]
fn check(case: &Case) {
    assert_matches(&format!("{case:?}"), &inputs(case), |x| fused(case, x), |x| plain(case, x));
}

const ODD: Shape =
    Shape { batch: 2, heads: 3, key_heads: 3, queries: 5, keys: 50, head_dim: 5, value_dim: 7 };

#[test]
fn a_network_of_pairs() {
    check(&PLAIN);
    check(&Case { shape: Shape { heads: 1, key_heads: 1, queries: 1, keys: 1, ..ODD }, ..PLAIN });
    check(&Case { shape: ODD, offset: 41, ..PLAIN });
    check(&Case { shape: Shape { heads: 6, queries: 37, ..ODD }, scaled: Some(2), offset: 3, ..PLAIN });
    check(&Case {
        shape: Shape { batch: 1, heads: 5, key_heads: 5, queries: 130, keys: 131, ..ODD },
        ..PLAIN
    });
    for (window, sinks) in [(20, 0), (9, 3)] {
        check(&Case { window: Some(window), sinks, ..PLAIN });
    }
}

/// In pieces, and in tasks that share keys.
#[test]
fn a_network_of_pairs_in_pieces() {
    let shape = Shape { batch: 1, queries: 101, keys: 108, key_heads: 1, ..PLAIN.shape };
    cut_small(|| check(&Case { shape, offset: 7, ..PLAIN }));
}

#[test]
fn hidden_numbers_of_both_signs() {
    let mut inputs = inputs(&PLAIN);
    inputs[5] = numbers(9, HIDDEN).iter().map(|x| 0.2 * x).collect();
    assert_matches_reference_on(
        &Device::flex(),
        "kinks",
        &inputs,
        |x| fused(&PLAIN, x),
        |x| plain(&PLAIN, x),
    );
}

#[test]
fn threads_change_no_bit_of_a_network() {
    let case = Case { shape: Shape { batch: 1, queries: 130, keys: 130, ..PLAIN.shape }, ..PLAIN };
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let read = || differentiate(&Device::flex(), &inputs(&case), |x| fused(&case, x));
        pool.install(|| [read(), cut_small(read)])
    };
    assert_eq!(run(1), run(3));
}
