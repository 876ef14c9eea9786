//! Every bias over shapes, windows, offsets and query scales.

use super::*;

#[test]
fn every_bias() {
    for kind in BIAS_KINDS {
        PLAIN.check(kind);
    }
}

#[test]
fn every_bias_with_unequal_heads_and_odd_sizes() {
    let shape = Shape { batch: 2, heads: 6, key_heads: 2, queries: 33, keys: 33, head_dim: 5, value_dim: 7 };
    for kind in BIAS_KINDS {
        Case { shape, ..PLAIN }.check(kind);
    }
}

#[test]
fn every_bias_with_window_and_sinks() {
    for kind in BIAS_KINDS {
        for (window, sinks) in [(1, 0), (5, 0), (5, 3), (40, 2), (1000, 1)] {
            let shape = Shape { queries: 70, keys: 70, ..PLAIN.shape };
            Case { shape, window: Some(window), sinks, ..PLAIN }.check(kind);
        }
    }
}

#[test]
fn several_tasks_per_head() {
    for (window, sinks) in [(None, 0), (Some(20), 0), (Some(20), 3), (Some(150), 7)] {
        let shape =
            Shape { batch: 1, heads: 2, key_heads: 1, queries: 300, keys: 310, head_dim: 4, value_dim: 4 };
        Case { shape, offset: 7, window, sinks, ..PLAIN }.check(BiasKind::ByDistance);
    }
}

#[test]
fn every_bias_with_an_offset_and_a_query_scale() {
    for kind in BIAS_KINDS {
        for (rows, window) in [(1, None), (2, Some(9))] {
            let shape = Shape { queries: 19, keys: 60, ..PLAIN.shape };
            Case { shape, offset: 41, window, sinks: 4, scaled: Some(rows), ..PLAIN }.check(kind);
        }
    }
}

#[test]
fn one_query() {
    for kind in BIAS_KINDS {
        let shape = Shape { queries: 1, keys: 1, ..PLAIN.shape };
        Case { shape, ..PLAIN }.check(kind);
        let shape = Shape { queries: 1, keys: 50, ..PLAIN.shape };
        Case { shape, offset: 49, ..PLAIN }.check(kind);
    }
}
