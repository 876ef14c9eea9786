//! Few queries over many keys: what the pieces of the keys give together.

use super::{Case, KINDS, PLAIN, some};
use crate::attention::gpu::split::{FEW, PIECE};
use crate::attention::spec::Shape;
use crate::attention::{Attention, attention, reference};
use crate::machine::device::adapter;
use crate::testing::{assert_close, list, tensor};
use crate::{machine::device::counted, partial_attention};
use burn::tensor::Tensor;

/// The last keys of many as queries: three pieces, of which the last is not full.
const FEW_QUERIES: Case = Case { queries: 3, keys: 300, scaled: true, ..PLAIN };

#[test]
fn every_bias_and_mask_agrees_with_the_reference() {
    let Some(device) = adapter("few queries on the GPU") else { return };
    // Far along, the gradient of slopes in the reference is off by more than is allowed: their keys are in a window, which
    // lies in two pieces.
    Case { window: Some(20), keys: 140, ..FEW_QUERIES }.check(&device, "slopes");
    let kinds = || KINDS.into_iter().filter(|kind| *kind != "slopes");
    let masked = Case { window: Some(60), sinks: 140, ..FEW_QUERIES };
    some(1, kinds()).for_each(|kind| masked.check(&device, kind));
    some(0, kinds()).for_each(|kind| FEW_QUERIES.check(&device, kind));
    for case in some(
        0,
        [
            Case { queries: 1, keys: PIECE + 1, ..FEW_QUERIES },
            Case { queries: FEW, keys: 2 * PIECE, batch: 1, ..FEW_QUERIES },
            // One more: each unit has a query.
            Case { queries: FEW + 1, keys: 2 * PIECE, batch: 1, ..FEW_QUERIES },
            Case { queries: 1, keys: 260, head_dim: 128, value_dim: 64, batch: 1, ..FEW_QUERIES },
        ],
    ) {
        case.check(&device, "pair");
    }
}

/// Slopes over all keys, without their gradient. They are positive, as those of `ALiBi`: logits of hundreds would be rounded
/// by more than is allowed.
#[test]
fn slopes_over_many_keys_agree_with_the_reference() {
    let Some(device) = adapter("few queries on the GPU") else { return };
    let inputs: Vec<Tensor<1>> = (1..)
        .zip(FEW_QUERIES.input_sizes("slopes"))
        .map(|(seed, size)| tensor::<1>(seed, [size], &device))
        .collect();
    let slopes = inputs[3].clone().abs().mul_scalar(0.1);
    let inputs = [inputs[0].clone(), inputs[1].clone(), inputs[2].clone(), slopes];
    let ([q, k], v, _, options) = FEW_QUERIES.call(&device, "slopes", &inputs);
    let shape = Shape::of(&q, &k, &v);
    let fused = list(attention(q.clone(), k.clone(), v.clone(), &options));
    assert_close("slopes", &fused, &list(reference::attention([q, k, v], &options, &shape)), 2e-6);
}

#[test]
fn ranges_of_distances_and_log_sums_agree_with_the_reference() {
    let Some(device) = adapter("few queries on the GPU") else { return };
    // The last range has no pair: its rows see nothing.
    let ranges = [0..1, 0..140, 3..9, 130..usize::MAX, 100..200, 400..500];
    let case = |kind| Case { keys: if kind == "slopes" { PIECE + 9 } else { 300 }, ..FEW_QUERIES };
    for (kind, distances) in some(2, KINDS.into_iter().zip(ranges.clone())) {
        Case { window: Some(150), sinks: 5, ..case(kind) }.check_range(&device, kind, &distances);
    }
    for (kind, distances) in some(0, KINDS.into_iter().zip(ranges)) {
        case(kind).check_range(&device, kind, &distances);
    }
    for border in some(1, [1, 140, usize::MAX]) {
        Case { border: Some(border), ..FEW_QUERIES }.check(&device, "pair");
    }
}

/// Queries, keys and channels that no piece and no vector divides; everything comes in rows that lie apart.
#[test]
fn few_queries_of_odd_shapes_agree_with_the_reference() {
    let Some(device) = adapter("few queries on the GPU") else { return };
    let apart = Case { batch: 1, heads: 3, key_heads: 1, apart: true, ..FEW_QUERIES };
    for (case, kind) in [
        (Case { queries: 1, keys: 129, head_dim: 1, value_dim: 1, ..apart }, "none"),
        (Case { queries: 5, keys: 257, head_dim: 3, value_dim: 37, ..apart }, "distance"),
        (Case { queries: 7, keys: 131, head_dim: 37, value_dim: 101, batch: 2, ..apart }, "block"),
        (Case { queries: 2, keys: 383, head_dim: 5, value_dim: 6, window: Some(200), ..apart }, "pair"),
    ] {
        case.check(&device, kind);
    }
}

#[test]
fn large_logits_do_not_overflow() {
    let Some(device) = adapter("few queries on the GPU") else { return };
    let q = tensor::<4>(1, [1, 1, 2, 4], &device).mul_scalar(1e4);
    let [k, v] = [2, 3].map(|seed| tensor::<4>(seed, [1, 1, 300, 4], &device));
    let options = Attention { query_offset: 298, ..Attention::causal(4) };
    let shape = Shape::of(&q, &k, &v);
    let fused = list(attention(q.clone(), k.clone(), v.clone(), &options));
    assert_close("large logits", &fused, &list(reference::attention([q, k, v], &options, &shape)), 2e-3);
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
