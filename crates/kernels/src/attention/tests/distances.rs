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

/// Borders before, at and past that of a window, and among the sinks.
#[test]
fn two_rotations_in_every_case() {
    for (case, kinds) in cases() {
        let reach = case.offset + case.shape.queries;
        for (kind, border) in kinds.into_iter().zip([reach / 2, 9, 20, 1, reach - 1, reach / 3]) {
            Case { border: Some(border), ..case }.check(kind);
        }
    }
}

/// The log sums over both ranges, which a sink reads.
#[test]
fn two_rotations_have_log_sums() {
    for (window, sinks) in [(None, 0), (Some(20), 3)] {
        let case = Case { window, sinks, border: Some(11), ..PLAIN };
        let inputs = case.inputs(BiasKind::ByDistance);
        assert_fused_on(&Device::flex(), &format!("{case:?}"), &inputs, |inputs| {
            let ([q, k, v], options) = case.call(BiasKind::ByDistance, inputs);
            flat_part(partial_attention_by_distance([q, k], case.far(inputs), v, 11, &options))
        });
    }
}

/// Distances that the options leave out are read by neither pair.
#[test]
fn the_options_limit_both_rotations() {
    let shape = Shape { batch: 1, queries: 70, keys: 70, ..PLAIN.shape };
    for (distances, border) in [(0..usize::MAX, 20), (3..50, 20), (20..50, 9), (3..20, 40), (10..40, 10)] {
        let case = Case { shape, border: Some(border), ..PLAIN };
        let inputs = case.tensors(BiasKind::None);
        let ([q, k, v], options) = case.call(BiasKind::None, &inputs);
        let (near, far) = ([q, k], case.far(&inputs));
        let options = Attention { distances, ..options };
        let Range { start, end } = options.distances;
        let part = |[q, k]: [Tensor<4>; 2], distances| {
            partial_attention(q, k, v.clone(), &Attention { distances, ..options.clone() })
        };
        let parts =
            || merge(part(near.clone(), start..end.min(border)), part(far.clone(), start.max(border)..end));
        let expected = by_reference(|| list(parts().output));
        let output = list(attention_by_distance(near.clone(), far.clone(), v.clone(), border, &options));
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
