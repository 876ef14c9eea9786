//! Work that is cut into pieces: under every mask and beside every bias, and on any number of threads.

use super::*;
use crate::attention::block::pieces::ROWS;
use crate::attention::block::pieces::tests::{cut_gradient_small, cut_small};

/// Rows of five blocks, the last of them short, that are all cut apart.
const LONG: Case = Case { shape: Shape { batch: 2, queries: 141, keys: 141, ..PLAIN.shape }, ..PLAIN };

#[test]
fn every_bias_in_pieces() {
    for kind in BIAS_KINDS {
        cut_small(|| LONG.check(kind));
    }
}

#[test]
fn every_case_in_pieces() {
    for (case, kinds) in cases().into_iter().filter(|(case, _)| case.shape.queries > ROWS) {
        for kind in kinds {
            cut_small(|| case.check(kind));
        }
    }
}

#[test]
fn two_rotations_in_pieces() {
    for (window, sinks, border) in [(None, 0, 9), (Some(60), 3, 40), (Some(20), 0, 33)] {
        for kind in [BiasKind::None, BiasKind::ByDistance] {
            cut_small(|| Case { window, sinks, border: Some(border), ..LONG }.check(kind));
        }
    }
}

#[test]
fn offsets_and_query_scales_in_pieces() {
    let shape = Shape { queries: 70, keys: 130, ..PLAIN.shape };
    for (rows, window) in [(1, None), (2, Some(9))] {
        let case = Case { shape, offset: 51, window, sinks: 4, scaled: Some(rows), ..PLAIN };
        cut_small(|| case.check(BiasKind::Block));
    }
}

#[test]
fn threads_change_no_bit_of_pieces() {
    for (kind, border) in
        [(BiasKind::ByDistance, Some(40)), (BiasKind::SharedBlock, None), (BiasKind::Pair, None)]
    {
        let case = Case { border, ..LONG };
        let read = || differentiate(&Device::flex(), &case.inputs(kind), |inputs| case.fused(kind, inputs));
        let run = |threads| bits(&on_threads(threads, || cut_small(read)));
        let expected = run(1);
        for threads in [2, 5, 33] {
            assert!(run(threads) == expected, "{kind:?} on {threads} threads");
        }
    }
}

/// As cached decoding reads: one row or a few, also with keys that no row sees.
#[test]
fn few_rows_of_many_keys_in_ranges() {
    for (queries, offset, window, sinks) in
        [(1, 129, None, 0), (3, 120, None, 0), (35, 95, Some(90), 4), (1, 129, Some(70), 2)]
    {
        let shape = Shape { queries, keys: 130, ..PLAIN.shape };
        for kind in BIAS_KINDS {
            for border in [None, Some(40)] {
                cut_small(|| Case { shape, offset, window, sinks, border, ..PLAIN }.check(kind));
            }
        }
    }
}

/// A NaN among the keys stays one, and a range whose logits are all minus infinity has no weight.
#[test]
fn ranges_without_weight() {
    let case = Case { shape: Shape { queries: 1, keys: 130, ..PLAIN.shape }, offset: 129, ..PLAIN };
    let mut inputs = case.inputs(BiasKind::SharedBlock);
    for (index, x) in inputs[3].iter_mut().enumerate().filter(|(index, _)| index % 130 < 100) {
        *x = if index < 130 { f32::NEG_INFINITY } else { *x };
    }
    let read = |inputs: &[Vec<f32>]| {
        let tensors: Vec<_> = inputs.iter().map(|x| flat(x.clone(), &Device::flex())).collect();
        list(cut_small(|| case.fused(BiasKind::SharedBlock, &tensors)))
    };
    assert_close("some ranges hidden", &read(&inputs), &by_reference(|| read(&inputs)), 2e-6);
    inputs[3].fill(f32::NEG_INFINITY);
    assert!(read(&inputs).iter().all(|x| *x == 0.0));
    inputs[0].fill(f32::NAN);
    inputs[3].fill(0.0);
    assert!(read(&inputs).iter().all(|x| x.is_nan()));
}

/// What is cut adds the same numbers in another order: if no bit differed, nothing would have been cut.
#[test]
fn small_pieces_are_cut() {
    let gradients = || {
        let inputs = LONG.inputs(BiasKind::None);
        differentiate(&Device::flex(), &inputs, |inputs| LONG.fused(BiasKind::None, inputs)).1
    };
    let (whole, pieces) = (gradients(), cut_gradient_small(gradients));
    assert_eq!(whole[0], pieces[0], "each row of queries has its gradient alone");
    assert_ne!(whole[1], pieces[1], "gradients of keys are added up by piece");
    assert_ne!(whole[2], pieces[2], "gradients of values are added up by piece");
}

#[test]
fn few_rows_are_cut_by_keys() {
    let case = Case { shape: Shape { queries: 1, keys: 130, ..PLAIN.shape }, offset: 129, ..PLAIN };
    let read = || list(case.fused(BiasKind::None, &case.tensors(BiasKind::None)));
    assert_ne!(read(), cut_small(read));
}
