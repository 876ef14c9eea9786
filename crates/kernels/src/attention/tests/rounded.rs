//! Attention whose products are of numbers rounded to bf16.

use super::*;
use crate::attention::block::pieces::tests::cut_small;
use crate::machine::bf16::{Arithmetic, arithmetic, rounded, widened};

/// Inputs that are numbers of bf16.
fn rounded_inputs(case: &Case, kind: BiasKind) -> Vec<Vec<f32>> {
    case.inputs(kind).iter().map(|x| widened(&rounded(x))).collect()
}

/// Against the reference in f32, on inputs that rounding does not change.
///
/// Of what enters products only probabilities, the gradient of the output and that of the scores are then rounded, each
/// number by at most its own unit of roundoff u. An output is a mean of values: off by at most u times the largest one. A
/// gradient takes at most three roundings one after the other, of P or of the gradient of the output, in the row's mean, and of
/// the gradient of the scores: 4 u of the largest leaves room for terms that cancel.
#[track_caller]
fn check(case: &Case, kind: BiasKind) {
    let (what, inputs) = (format!("{case:?} {kind:?}"), rounded_inputs(case, kind));
    let unit = Precision::Bf16.unit_roundoff() as f32;
    let in_bf16 = Case { precision: Precision::Bf16, ..*case };
    let read = || differentiate(&Device::flex(), &inputs, |x| in_bf16.fused(kind, x));
    let rounded = read();
    let expected = differentiate(&Device::flex(), &inputs, |x| by_reference(|| case.fused(kind, x)));
    assert_alike(&what, &rounded, &expected, [unit, 4.0 * unit]);
    assert!(read() == rounded, "{what}: a second run differs");
}

#[test]
fn every_bias_in_bf16() {
    let long = Shape { queries: 141, keys: 141, ..PLAIN.shape };
    let unequal =
        Shape { batch: 1, heads: 6, key_heads: 2, queries: 70, keys: 70, head_dim: 5, value_dim: 7 };
    for kind in BIAS_KINDS {
        for shape in [PLAIN.shape, long, unequal] {
            check(&Case { shape, ..PLAIN }, kind);
            cut_small(|| check(&Case { shape, ..PLAIN }, kind));
        }
    }
}

/// Windows and sinks that begin and end at odd keys, and two ranges of distances.
#[test]
fn windows_and_ranges_in_bf16() {
    let shape = Shape { batch: 1, queries: 141, keys: 141, ..PLAIN.shape };
    for (window, sinks) in [(1, 0), (20, 0), (21, 3), (21, 4), (70, 39), (1000, 1)] {
        for (kind, border) in
            [(BiasKind::ByDistance, None), (BiasKind::SharedBlock, None), (BiasKind::None, Some(9))]
        {
            let case = Case { shape, window: Some(window), sinks, border, ..PLAIN };
            check(&case, kind);
            cut_small(|| check(&case, kind));
        }
    }
}

/// As cached decoding reads, cut by keys.
#[test]
fn few_rows_of_many_keys_in_bf16() {
    for (queries, offset, window, sinks) in [(1, 129, None, 0), (3, 120, Some(71), 3), (35, 95, None, 0)] {
        let shape = Shape { queries, keys: 130, ..PLAIN.shape };
        cut_small(|| check(&Case { shape, offset, window, sinks, ..PLAIN }, BiasKind::ByDistance));
    }
}

/// So long that all tasks share the keys, which several threads lay out: on any number of them, to the bit.
#[test]
fn threads_change_no_bit_in_bf16() {
    let shape =
        Shape { batch: 1, heads: 1, key_heads: 1, queries: 2100, keys: 2100, head_dim: 64, value_dim: 64 };
    let case = Case { shape, precision: Precision::Bf16, ..PLAIN };
    assert_threads_change_no_bit("bf16", &case.inputs(BiasKind::None), |x| case.fused(BiasKind::None, x));
}

/// With inputs between numbers of bf16, the logits already differ, where the processor has the instruction.
#[test]
fn only_bf16_rounds() {
    let inputs = PLAIN.tensors(BiasKind::None);
    let read = |precision| list(Case { precision, ..PLAIN }.fused(BiasKind::None, &inputs));
    assert_eq!(read(Precision::Bf16) != read(Precision::F32), arithmetic() == Arithmetic::Dot);
    assert_eq!(read(Precision::F16), read(Precision::F32));
}
