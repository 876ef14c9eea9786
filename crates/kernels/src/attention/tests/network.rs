//! A network of all heads' logits and biases, against its reference.

use super::*;
use crate::attention::block::pieces::tests::cut_small;
use crate::attention::terms::PairTerms;
use crate::ops::pair_network::PairNetwork;

const HIDDEN: usize = 6;

/// The case beside a network whose hidden numbers have this bias.
fn with_hidden(case: &Case, hidden: Vec<f32>) -> Beside {
    let (heads, distances) = (case.shape.heads, case.distances());
    let own = vec![
        numbers(40, heads * distances),
        numbers(41, 2 * heads * HIDDEN),
        hidden,
        numbers(43, HIDDEN * heads),
        numbers(44, heads),
    ];
    case.beside(BiasKind::None, own, move |own| {
        let bias = own[0].clone().reshape([heads, distances]);
        let network = PairNetwork {
            w1: own[1].clone().mul_scalar(0.05).reshape([2 * heads, HIDDEN]),
            b1: own[2].clone(),
            w2: own[3].clone().reshape([HIDDEN, heads]),
            b2: own[4].clone(),
        };
        PairTerms { bias, network }.into()
    })
}

fn beside(case: &Case) -> Beside {
    // Hidden numbers of one sign each, near no kink that a central difference would step over.
    let least = 0.3 * case.shape.heads as f32 + 0.2;
    let hidden = numbers(42, HIDDEN).into_iter().enumerate();
    let hidden = hidden.map(|(n, x)| (0.1 * x + least) * if n % 2 == 0 { 1.0 } else { -1.0 });
    with_hidden(case, hidden.collect())
}

#[track_caller]
fn check(case: &Case) {
    beside(case).check("a network");
}

#[test]
fn a_network_of_pairs() {
    for (case, _) in short_cases() {
        check(&case);
    }
    let shape = Shape { batch: 2, heads: 3, key_heads: 3, queries: 5, keys: 50, head_dim: 5, value_dim: 7 };
    check(&Case { shape, offset: 41, ..PLAIN });
    let shape = Shape { batch: 1, heads: 5, key_heads: 5, queries: 130, keys: 131, ..shape };
    check(&Case { shape, ..PLAIN });
}

/// In pieces, and in tasks that share keys.
#[test]
fn a_network_of_pairs_in_pieces() {
    let shape = Shape { batch: 1, queries: 101, keys: 108, key_heads: 1, ..PLAIN.shape };
    cut_small(|| check(&Case { shape, offset: 7, ..PLAIN }));
}

#[test]
fn hidden_numbers_of_both_signs() {
    let hidden = numbers(9, HIDDEN).iter().map(|x| 0.2 * x).collect();
    with_hidden(&PLAIN, hidden).check_with_kinks("both signs");
}

#[test]
fn threads_change_no_bit_of_a_network() {
    let case = Case { shape: Shape { batch: 1, queries: 130, keys: 130, ..PLAIN.shape }, ..PLAIN };
    let network = beside(&case);
    let read = || differentiate(&Device::flex(), &network.inputs(), |x| network.fused(x));
    let run = |threads| on_threads(threads, || [read(), cut_small(read)]);
    assert_eq!(run(1), run(3));
}
