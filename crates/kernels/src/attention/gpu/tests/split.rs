//! Few queries over many keys: what the pieces of the keys give together.

use super::{PLAIN, last, some};
use crate::attention::gpu::split::{FEW, PIECE};
use crate::attention::spec::Shape;
use crate::attention::tests::{BIAS_KINDS, BiasKind, Case, Lie};
use crate::attention::{Attention, attention};
use crate::machine::device::adapter;
use crate::testing::{list, tensor};
use crate::{machine::device::counted, partial_attention};
use burn::tensor::Tensor;

/// The last keys of many as queries, of which the last piece is not full.
fn few(queries: usize, keys: usize) -> Case {
    Case { scaled: Some(2), ..last(Shape { queries, keys, ..PLAIN.shape }) }
}

#[test]
fn every_bias_and_mask_agrees_with_the_reference() {
    let Some(device) = adapter("few queries on the GPU") else { return };
    let masked = Case { window: Some(60), sinks: 140, ..few(3, 300) };
    some(5, BIAS_KINDS).for_each(|kind| masked.check_on(&device, kind));
    some(2, BIAS_KINDS).for_each(|kind| few(3, 300).check_on(&device, kind));
    let one =
        |queries, keys| Case { scaled: Some(1), ..last(Shape { batch: 1, queries, keys, ..PLAIN.shape }) };
    let wide = Shape { batch: 1, queries: 1, keys: 260, head_dim: 128, value_dim: 64, ..PLAIN.shape };
    // With more than a few queries, each unit has one.
    let cases = [
        few(1, PIECE + 1),
        one(FEW, 2 * PIECE),
        one(FEW + 1, 2 * PIECE),
        Case { scaled: Some(1), ..last(wide) },
    ];
    for case in some(0, cases) {
        case.check_on(&device, BiasKind::Pair);
    }
}

#[test]
fn ranges_of_distances_and_log_sums_agree_with_the_reference() {
    let Some(device) = adapter("few queries on the GPU") else { return };
    // The last range has no pair: its rows see nothing.
    let ranges = [0..1, 0..140, 3..9, 130..usize::MAX, 100..200, 400..500];
    for (kind, distances) in some(1, BIAS_KINDS.into_iter().zip(ranges.clone())) {
        Case { window: Some(150), sinks: 5, ..few(3, 300) }.check_range(&device, kind, distances);
    }
    for (kind, distances) in some(3, BIAS_KINDS.into_iter().zip(ranges)) {
        few(3, 300).check_range(&device, kind, distances);
    }
    for border in some(1, [1, 140, usize::MAX]) {
        Case { border: Some(border), ..few(3, 300) }.check_on(&device, BiasKind::Pair);
    }
}

/// Queries, keys and channels that no piece and no vector divides; everything comes in rows that lie apart.
#[test]
fn few_queries_of_odd_shapes_agree_with_the_reference() {
    let Some(device) = adapter("few queries on the GPU") else { return };
    let odd = |batch, queries, keys, head_dim, value_dim| {
        let shape = Shape { batch, heads: 3, key_heads: 1, queries, keys, head_dim, value_dim };
        Case { scaled: Some(batch), lie: Lie::Apart, ..last(shape) }
    };
    for (case, kind) in [
        (odd(1, 1, 129, 1, 1), BiasKind::None),
        (odd(1, 5, 257, 3, 37), BiasKind::ByDistance),
        (odd(2, 7, 131, 37, 101), BiasKind::Block),
        (Case { window: Some(200), ..odd(1, 2, 383, 5, 6) }, BiasKind::Pair),
    ] {
        case.check_on(&device, kind);
    }
}

/// What is not a number reaches the output from every key that is seen, and from none that is hidden.
#[test]
fn a_nan_is_not_hidden() {
    let Some(device) = adapter("few queries on the GPU") else { return };
    let q = tensor::<4>(1, [1, 1, 1, 4], &device);
    let [k, v] = [2, 3].map(|seed| tensor::<4>(seed, [1, 1, 300, 4], &device));
    let options = Attention { query_offset: 299, window: Some(200), ..Attention::causal(4) };
    for (key, seen) in [(0, false), (99, false), (100, true), (255, true), (299, true)] {
        let with_nan = |x: &Tensor<4>| {
            x.clone()
                .slice_assign([0..1, 0..1, key..key + 1, 0..4], Tensor::full([1, 1, 1, 4], f32::NAN, &device))
        };
        for (k, v) in [(with_nan(&k), v.clone()), (k.clone(), with_nan(&v))] {
            let output = list(attention(q.clone(), k, v, &options));
            assert_eq!(output.iter().all(|x| x.is_nan()), seen, "{key}: {output:?}");
            assert_eq!(output.iter().any(|x| x.is_nan()), seen, "{key}: {output:?}");
        }
    }
}

/// The sizes alone decide whether the keys are cut: into one launch for the pieces, and one that puts them together.
#[test]
fn few_queries_take_two_launches() {
    let Some(device) = adapter("few queries on the GPU") else { return };
    let launches = |queries: usize, keys: usize| {
        let q = tensor::<4>(1, [1, 2, queries, 8], &device);
        let [k, v] = [2, 3].map(|seed| tensor::<4>(seed, [1, 2, keys, 8], &device));
        let options = Attention { query_offset: keys - queries, ..Attention::causal(8) };
        counted(|| partial_attention(q, k, v, &options)).1.launched()
    };
    assert_eq!(launches(1, PIECE), 1);
    assert_eq!(launches(1, PIECE + 1), 2);
    assert_eq!(launches(FEW, 1000), 2);
    assert_eq!(launches(FEW + 1, 1000), 1);
}
