//! Work that is cut into pieces: under every mask and beside every bias, and on any number of threads.

use super::*;
use crate::attention::pieces::tests::cut_small;

/// Rows of five blocks, the last of them short, that are all cut apart.
const LONG: Case = Case { shape: Shape { batch: 2, queries: 141, keys: 141, ..PLAIN.shape }, ..PLAIN };

#[test]
fn every_bias_in_pieces() {
    for kind in KINDS {
        cut_small(|| LONG.check(kind));
    }
}

/// Without slopes: far along, their gradient in the reference is off by more than what is allowed here, cut or not.
#[test]
fn unequal_heads_in_pieces() {
    let shape =
        Shape { batch: 1, heads: 6, key_heads: 2, queries: 101, keys: 101, head_dim: 5, value_dim: 7 };
    for kind in KINDS.into_iter().filter(|kind| !matches!(kind, Kind::Slopes)) {
        cut_small(|| Case { shape, ..PLAIN }.check(kind));
    }
}

#[test]
fn windows_and_sinks_in_pieces() {
    for (window, sinks) in [(1, 0), (20, 0), (20, 3), (70, 40), (1000, 1)] {
        for kind in [Kind::ByDistance, Kind::SharedBlock, Kind::Pair] {
            let shape = Shape { batch: 1, ..LONG.shape };
            cut_small(|| Case { shape, window: Some(window), sinks, ..PLAIN }.check(kind));
        }
    }
}

#[test]
fn two_rotations_in_pieces() {
    for (window, sinks, border) in [(None, 0, 9), (Some(60), 3, 40), (Some(20), 0, 33)] {
        for kind in [Kind::None, Kind::ByDistance] {
            cut_small(|| Case { window, sinks, border: Some(border), ..LONG }.check(kind));
        }
    }
}

#[test]
fn offsets_and_query_scales_in_pieces() {
    let shape = Shape { queries: 70, keys: 130, ..PLAIN.shape };
    for (rows, window) in [(1, None), (2, Some(9))] {
        let case = Case { shape, offset: 51, window, sinks: 4, scaled: Some(rows), border: None };
        cut_small(|| case.check(Kind::Block));
    }
}

/// Also with more threads than there are pieces.
#[test]
fn threads_change_no_bit_of_pieces() {
    for (kind, border) in [(Kind::ByDistance, Some(40)), (Kind::SharedBlock, None), (Kind::Pair, None)] {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let case = Case { border, ..LONG };
            pool.install(|| {
                cut_small(|| {
                    let inputs = case.inputs(kind);
                    differentiate(&Device::flex(), &inputs, |inputs| case.fused(kind, inputs))
                })
            })
        };
        let bits = |(output, gradients): (Vec<f32>, Vec<Vec<f32>>)| -> Vec<u32> {
            output.iter().chain(gradients.iter().flatten()).map(|x| x.to_bits()).collect()
        };
        let expected = bits(run(1));
        for threads in [2, 5, 33] {
            assert!(bits(run(threads)) == expected, "{kind:?} on {threads} threads");
        }
    }
}

/// What is cut adds the same numbers in another order: if no bit differed, nothing would have been cut.
#[test]
fn small_pieces_are_cut() {
    let gradients = || {
        let inputs = LONG.inputs(Kind::None);
        differentiate(&Device::flex(), &inputs, |inputs| LONG.fused(Kind::None, inputs)).1
    };
    let (whole, pieces) = (gradients(), cut_small(gradients));
    assert_eq!(whole[0], pieces[0], "each row of queries has its gradient alone");
    assert_ne!(whole[1], pieces[1], "gradients of keys are added up by piece");
    assert_ne!(whole[2], pieces[2], "gradients of values are added up by piece");
}
