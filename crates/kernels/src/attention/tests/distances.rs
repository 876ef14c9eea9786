//! Ranges of distances: alone, and two of them with a q and k each.

use super::*;

#[test]
fn every_bias_with_two_rotations() {
    for kind in BIAS_KINDS {
        for border in [0, 1, 9, 36, 37, 1000, usize::MAX] {
            Case { border: Some(border), ..PLAIN }.check(kind);
        }
    }
}

#[test]
fn two_rotations_with_unequal_heads_and_odd_sizes() {
    for (kind, border) in BIAS_KINDS.into_iter().zip([1, 31, 9, 33, 45, 76]) {
        // Slopes of few rows: far along, their gradient in the reference is off by more than what is allowed here.
        let rows = if matches!(kind, BiasKind::Slopes) { 21 } else { 77 };
        let shape =
            Shape { batch: 2, heads: 6, key_heads: 2, queries: rows, keys: rows, head_dim: 5, value_dim: 7 };
        Case { shape, border: Some(border), ..PLAIN }.check(kind);
    }
}

/// Borders of the two rotations before, at and past that of the window, and among the sinks.
#[test]
fn two_rotations_with_window_and_sinks() {
    let shape = Shape { batch: 1, queries: 70, keys: 70, ..PLAIN.shape };
    for (kind, border) in BIAS_KINDS.into_iter().zip([1, 3, 20, 21, 40, 68]) {
        for (window, sinks) in [(1, 0), (20, 0), (20, 3), (40, 30), (1000, 1)] {
            Case { shape, window: Some(window), sinks, border: Some(border), ..PLAIN }.check(kind);
        }
    }
}

#[test]
fn two_rotations_with_an_offset_and_a_query_scale() {
    for kind in BIAS_KINDS {
        for (rows, window, border) in [(1, None, 7), (2, Some(30), 12), (2, Some(9), 50)] {
            let shape = Shape { queries: 19, keys: 60, ..PLAIN.shape };
            let (scaled, border) = (Some(rows), Some(border));
            Case { shape, offset: 41, window, sinks: 4, scaled, border, ..PLAIN }.check(kind);
        }
    }
}

#[test]
fn two_rotations_in_several_tasks_per_head() {
    for (window, sinks, border) in [(None, 0, 100), (Some(150), 7, 40), (None, 0, 3)] {
        let shape =
            Shape { batch: 1, heads: 2, key_heads: 1, queries: 300, keys: 310, head_dim: 4, value_dim: 4 };
        Case { shape, offset: 7, window, sinks, border: Some(border), ..PLAIN }.check(BiasKind::ByDistance);
    }
}

#[test]
fn one_query_with_two_rotations() {
    for (keys, border) in [(1, 0), (1, 1), (50, 1), (50, 20), (50, 49), (50, 50)] {
        let shape = Shape { queries: 1, keys, ..PLAIN.shape };
        Case { shape, offset: keys - 1, border: Some(border), ..PLAIN }.check(BiasKind::Slopes);
    }
}

/// One call that reads both ranges gives what two calls give that are merged, with all gradients.
#[test]
fn two_rotations_are_two_parts_that_are_merged() {
    let shape = Shape { batch: 1, queries: 90, keys: 100, ..PLAIN.shape };
    for (kind, border) in BIAS_KINDS.into_iter().zip([1, 15, 16, 33, 64, 90]) {
        for (window, sinks) in [(None, 0), (Some(50), 0), (Some(20), 18)] {
            let case = Case { shape, offset: 10, window, sinks, border: Some(border), ..PLAIN };
            let merged = |inputs: &[Tensor<1>]| {
                let ([q, k, v], options) = case.call(kind, inputs);
                let part = |[q, k]: [Tensor<4>; 2], distances| {
                    partial_attention(q, k, v.clone(), &Attention { distances, ..options.clone() })
                };
                merge(part([q, k], 0..border), part(case.far(inputs), border..usize::MAX)).output
            };
            let (device, inputs) = (Device::flex(), case.inputs(kind));
            let fused = differentiate(&device, &inputs, |inputs| case.fused(kind, inputs));
            let expected = differentiate(&device, &inputs, merged);
            assert_alike(&format!("{case:?} {kind:?}"), &fused, &expected, ROUNDING);
        }
    }
}

/// Distances that the options leave out are read by neither pair.
#[test]
fn the_options_limit_both_rotations() {
    let shape = Shape { batch: 1, queries: 70, keys: 70, ..PLAIN.shape };
    for (distances, border) in [(3..50, 20), (20..50, 9), (3..20, 40), (10..40, 10)] {
        let case = Case { shape, border: Some(border), ..PLAIN };
        let inputs = case.tensors(BiasKind::None);
        let ([q, k, v], options) = case.call(BiasKind::None, &inputs);
        let (near, far) = ([q, k], case.far(&inputs));
        let options = Attention { distances, ..options };
        let expected = list(two_rotations(near.clone(), far.clone(), v.clone(), border, &options));
        let output = list(attention_by_distance(near, far, v, border, &options));
        assert_close(&format!("border {border}"), &output, &expected, 2e-6);
    }
}

/// The same q and k twice are plain attention, wherever the border is.
#[test]
fn two_equal_rotations_are_one() {
    let case = Case { shape: Shape { queries: 600, keys: 600, ..PLAIN.shape }, ..PLAIN };
    let ([q, k, v], options) = case.call(BiasKind::None, &case.tensors(BiasKind::None));
    let plain = list(attention(q.clone(), k.clone(), v.clone(), &options));
    for border in [0, 1, 100, 599, 600] {
        let pair = || [q.clone(), k.clone()];
        let twice = attention_by_distance(pair(), pair(), v.clone(), border, &options);
        assert_close(&format!("border {border}"), &list(twice), &plain, 1e-6);
    }
}

/// Ranges that begin and end inside a block and outside, of which some rows see nothing.
#[test]
fn ranges_of_distances() {
    let ranges = [0..1, 0..40, 3..9, 12..usize::MAX, 40..70, 69..1000, 200..300];
    for (kind, distances) in BIAS_KINDS.into_iter().cycle().zip(ranges) {
        for (window, sinks) in [(None, 0), (Some(5), 0), (Some(20), 3), (Some(30), 50)] {
            let shape = Shape { batch: 1, queries: 70, keys: 70, ..PLAIN.shape };
            Case { shape, window, sinks, ..PLAIN }.check_range(&Device::flex(), kind, distances.clone());
        }
        let shape = Shape { queries: 19, keys: 60, heads: 6, head_dim: 5, ..PLAIN.shape };
        Case { shape, offset: 41, scaled: Some(2), ..PLAIN }.check_range(&Device::flex(), kind, distances);
    }
}

#[test]
fn ranges_in_several_tasks_per_head() {
    let shape =
        Shape { batch: 1, heads: 2, key_heads: 1, queries: 300, keys: 310, head_dim: 4, value_dim: 4 };
    for distances in [0..100, 150..usize::MAX, 200..250] {
        let case = Case { shape, offset: 7, ..PLAIN };
        case.check_range(&Device::flex(), BiasKind::ByDistance, distances);
    }
}
