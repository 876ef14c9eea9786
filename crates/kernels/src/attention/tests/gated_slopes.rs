//! Slopes of queries and keys, against their reference.

use super::*;
use crate::attention::block::pieces::tests::cut_small;
use crate::attention::terms::GatedSlopes;
use crate::attention::terms::{SlopeGates, TermsOf};

/// Which slopes there are.
const SIDES: [(bool, bool); 3] = [(true, false), (false, true), (true, true)];

#[track_caller]
fn check(case: &Case, kind: BiasKind) {
    let Shape { batch, heads, queries, keys, .. } = case.shape;
    for sides @ (of_queries, of_keys) in SIDES {
        let own = [(40, queries), (41, keys)].map(|(seed, rows)| numbers(seed, batch * heads * rows));
        let beside = case.beside(kind, own.into(), move |own| {
            let slopes =
                |index: usize, rows| own[index].clone().mul_scalar(0.1).reshape([batch, heads, rows]);
            let (query, key) = (of_queries.then(|| slopes(0, queries)), of_keys.then(|| slopes(1, keys)));
            GatedSlopes { query, key }.into()
        });
        beside.check(&format!("{sides:?}"));
    }
}

#[test]
fn slopes_of_queries_and_of_keys() {
    for (case, kind) in short_cases() {
        check(&case, kind);
    }
    let shape = Shape { batch: 2, heads: 6, key_heads: 3, queries: 5, keys: 50, head_dim: 5, value_dim: 7 };
    check(&Case { shape, offset: 41, ..PLAIN }, BiasKind::ByDistance);
}

#[test]
fn slopes_of_queries_and_of_keys_in_pieces() {
    let shape = Shape { batch: 1, queries: 101, keys: 108, key_heads: 1, ..PLAIN.shape };
    cut_small(|| check(&Case { shape, offset: 7, ..PLAIN }, BiasKind::None));
}

/// Equal slopes of all queries are those of `ALiBi`, and a temperature divides them as it divides those.
#[test]
fn equal_slopes_are_alibi() {
    let device = Device::flex();
    let [q, k, v] = [1, 2, 3].map(|seed| tensor(seed, [2, 2, 37, 8], &device));
    let slope = Tensor::<1>::from_floats([0.3, 0.7], &device);
    let slopes = slope.clone().reshape([1, 2, 1]).repeat_dim(0, 2).repeat_dim(2, 37);
    let expected = Attention { bias: Bias::Slopes(slope.div_scalar(2.0)), ..Attention::causal(8) };
    let terms = Terms::from(GatedSlopes { query: Some(slopes.clone()), key: None });
    let found = Attention { terms: terms.at_temperature(2.0, 1.0), ..Attention::causal(8) };
    let read = |options| list(attention(q.clone(), k.clone(), v.clone(), options));
    assert_close("equal slopes", &read(&found), &read(&expected), 1e-6);
}

/// A gate is `slope softplus(vector · x)`, with the key of each query head.
#[test]
fn gates_of_queries_and_keys() {
    let device = Device::flex();
    let (q, k) = (tensor(1, [1, 4, 3, 2], &device), tensor(2, [1, 2, 3, 2], &device));
    let (slopes, vectors) = (tensor(3, [4], &device), tensor(4, [4, 2], &device));
    let gates = SlopeGates {
        slopes: slopes.clone(),
        of_queries: Some(vectors.clone()),
        of_keys: Some(vectors.clone()),
    };
    let [q_list, k_list, slopes, vectors] = [list(q.clone()), list(k.clone()), list(slopes), list(vectors)];
    let inputs: Vec<Vec<f32>> = gates
        .terms(&q, &k)
        .iter()
        .flat_map(|term| term.inputs())
        .map(|input| list::<3>(input.tensor()))
        .collect();
    for head in 0..4 {
        for row in 0..3 {
            let gate = |x: &[f32], head_of_x: usize| {
                let x = &x[(head_of_x * 3 + row) * 2..][..2];
                let product = f64::from(x[0] * vectors[2 * head] + x[1] * vectors[2 * head + 1]);
                f64::from(slopes[head]) * product.exp().ln_1p()
            };
            let expected = [gate(&q_list, head), gate(&k_list, head / 2)];
            for (found, expected) in inputs.iter().map(|input| f64::from(input[head * 3 + row])).zip(expected)
            {
                assert!((found - expected).abs() < 1e-6, "head {head}, row {row}: {found} for {expected}");
            }
        }
    }
}
