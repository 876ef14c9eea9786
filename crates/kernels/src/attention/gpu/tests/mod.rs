//! Attention on the GPU against its reference.

mod matrices;
mod split;

use crate::Precision;
use crate::attention::gpu::plan::{LEAST, is_long};
use crate::attention::spec::Shape;
use crate::attention::tests::{self, BIAS_KINDS, BiasKind, Case, Lie};
use crate::attention::{Attention, attention};
use crate::machine::device::adapter;
use crate::testing::{list, tensor};
use burn::tensor::Tensor;
use std::cell::Cell;

thread_local! {
    static MEMORY: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The most bytes that a cube may share: those that a test asks for, or few. A driver in software compiles the kernels of shorter tiles
/// in a fraction of the time. [`with_both_sides`] holds longer ones, and `selfcheck` where `LONGWAVE_SHARED_MEMORY` is not set.
pub(super) fn memory() -> usize {
    MEMORY.get().unwrap_or(if is_long() { usize::MAX } else { LEAST })
}

/// Every sixth of some cases from the `first` on, or with `LONGWAVE_GPU=all` each: a driver in software compiles the kernels of a case for
/// seconds, and `selfcheck` holds every kind of bias with and without a mask. Tests begin at different ones, so that together they take each kind.
fn some<T>(first: usize, cases: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let [first, step] = if is_long() { [0, 1] } else { [first, 6] };
    cases.into_iter().skip(first).step_by(step)
}

/// Runs a test with tiles of either side: with all memory that the device has, and with what every device has.
fn with_both_sides(test: impl Fn()) {
    for bytes in [usize::MAX, LEAST] {
        MEMORY.set(Some(bytes));
        test();
    }
    MEMORY.set(None);
}

const PLAIN: Case = Case {
    shape: Shape { batch: 2, heads: 4, key_heads: 2, queries: 37, keys: 37, head_dim: 8, value_dim: 8 },
    lie: Lie::Plain,
    ..tests::PLAIN
};

/// A case whose queries are the last of the keys.
fn last(shape: Shape) -> Case {
    Case { shape, offset: shape.keys - shape.queries, ..PLAIN }
}

#[test]
fn tiles_of_either_side_agree_with_the_reference() {
    let Some(device) = adapter("attention on the GPU") else { return };
    let q = tensor::<4>(1, [1, 1, 70, 8], &device);
    let shape = Shape::of(&q, &q, &q);
    let side = || super::supports(&q.clone().into(), &shape, Precision::F32).map(|tiles| tiles.side);
    assert!(side().is_some());
    with_both_sides(|| {
        assert!(side() == Some(32) || memory() == usize::MAX);
        for kind in some(2, BIAS_KINDS) {
            last(Shape { batch: 1, queries: 70, keys: 101, ..PLAIN.shape }).check_on(&device, kind);
        }
    });
}

#[test]
fn every_bias_agrees_with_the_reference() {
    let Some(device) = adapter("attention on the GPU") else { return };
    some(3, BIAS_KINDS).for_each(|kind| PLAIN.check_on(&device, kind));
    for kind in some(4, BIAS_KINDS) {
        // Past one cube's queries and one tile of keys, with channels that no vector width divides.
        let shape = Shape { batch: 1, queries: 70, keys: 101, head_dim: 5, value_dim: 3, ..PLAIN.shape };
        Case { window: Some(20), sinks: 3, scaled: Some(1), ..last(shape) }.check_on(&device, kind);
    }
}

#[test]
fn sizes_and_masks_agree_with_the_reference() {
    let Some(device) = adapter("attention on the GPU") else { return };
    let one = Shape { batch: 1, ..PLAIN.shape };
    let cases = [
        last(Shape { heads: 1, key_heads: 1, queries: 1, keys: 1, ..one }),
        last(Shape { queries: 1, keys: 90, ..PLAIN.shape }),
        Case { window: Some(30), ..last(Shape { queries: 200, keys: 200, ..one }) },
        Case { window: Some(40), sinks: 2, ..last(Shape { queries: 64, keys: 130, ..one }) },
        last(Shape { heads: 2, key_heads: 1, queries: 66, keys: 66, head_dim: 128, value_dim: 64, ..one }),
        // Vectors of two, and of one; channels of one and a half slices.
        last(Shape { queries: 63, keys: 96, head_dim: 48, value_dim: 34, ..one }),
        last(Shape { queries: 65, keys: 65, head_dim: 37, value_dim: 96, ..one }),
    ];
    for case in some(0, cases) {
        case.check_on(&device, BiasKind::Pair);
    }
}

#[test]
fn two_rotations_agree_with_the_reference() {
    let Some(device) = adapter("attention on the GPU") else { return };
    for (kind, border) in some(0, BIAS_KINDS.into_iter().zip([1, 9, 12, 36, 19, usize::MAX])) {
        let shape = Shape { batch: 1, queries: 70, keys: 101, head_dim: 5, value_dim: 3, ..PLAIN.shape };
        let case = Case { window: Some(20), sinks: 3, scaled: Some(1), border: Some(border), ..last(shape) };
        case.check_on(&device, kind);
    }
    let one = Shape { batch: 1, ..PLAIN.shape };
    let with_border = |border, shape| Case { border: Some(border), ..last(shape) };
    let cases = [
        with_border(9, PLAIN.shape),
        with_border(0, Shape { heads: 1, key_heads: 1, queries: 1, keys: 1, ..one }),
        with_border(30, Shape { queries: 1, keys: 90, ..PLAIN.shape }),
        with_border(70, Shape { queries: 200, keys: 200, ..one }),
        Case { window: Some(30), sinks: 2, ..with_border(30, Shape { queries: 130, keys: 130, ..one }) },
        Case { window: Some(90), ..with_border(41, Shape { queries: 66, keys: 150, head_dim: 128, ..one }) },
    ];
    for case in some(0, cases) {
        case.check_on(&device, BiasKind::Pair);
    }
}

#[test]
fn ranges_of_distances_agree_with_the_reference() {
    let Some(device) = adapter("attention on the GPU") else { return };
    let ranges = [0..1, 0..40, 3..9, 12..usize::MAX, 40..70, 200..300];
    let shape = Shape { batch: 1, queries: 70, keys: 101, ..PLAIN.shape };
    let case = Case { scaled: Some(1), ..last(shape) };
    for (kind, distances) in some(1, BIAS_KINDS.into_iter().zip(ranges.clone())) {
        Case { window: Some(30), sinks: 5, ..case }.check_range(&device, kind, distances);
    }
    for (kind, distances) in some(5, BIAS_KINDS.into_iter().zip(ranges)) {
        case.check_range(&device, kind, distances);
    }
}

/// Queries, keys and channels that no tile and no vector divides; everything comes in rows that lie apart.
#[test]
fn odd_shapes_agree_with_the_reference() {
    let Some(device) = adapter("attention on the GPU") else { return };
    let odd = |batch, queries, keys, head_dim, value_dim| {
        let shape = Shape { batch, heads: 3, key_heads: 1, queries, keys, head_dim, value_dim };
        Case { lie: Lie::Apart, ..last(shape) }
    };
    let one = Shape { batch: 1, heads: 1, key_heads: 1, queries: 1, keys: 1, head_dim: 1, value_dim: 1 };
    let cases = [
        (Case { lie: Lie::Apart, ..last(one) }, BiasKind::ByDistance),
        (odd(1, 37, 37, 3, 37), BiasKind::Slopes),
        (Case { scaled: Some(1), ..odd(1, 3, 67, 37, 1) }, BiasKind::Pair),
        (Case { border: Some(37), ..odd(2, 65, 67, 3, 3) }, BiasKind::Block),
        (Case { window: Some(9), sinks: 3, ..odd(1, 37, 65, 1, 3) }, BiasKind::ByDistance),
        (Case { border: Some(1), ..odd(2, 1, 3, 37, 37) }, BiasKind::SharedBlock),
    ];
    for (case, kind) in cases {
        case.check_on(&device, kind);
    }
}

/// What is not a number reaches the rows that see its key, and no row from which it is hidden, in whole tiles and at their
/// borders.
#[test]
fn a_nan_reaches_what_sees_it_alone() {
    let Some(device) = adapter("attention on the GPU") else { return };
    let [q, k, v] = [1, 2, 3].map(|seed| tensor::<4>(seed, [1, 1, 150, 4], &device));
    let options = Attention { window: Some(100), sinks: 1, ..Attention::causal(4) };
    let sees = |row: usize, key: usize| key <= row && (row < key + 100 || key == 0);
    for key in [0, 1, 64, 70, 149] {
        let with_nan = |x: &Tensor<4>| {
            x.clone()
                .slice_assign([0..1, 0..1, key..key + 1, 0..4], Tensor::full([1, 1, 1, 4], f32::NAN, &device))
        };
        for (k, v) in [(with_nan(&k), v.clone()), (k.clone(), with_nan(&v))] {
            let output = list(attention(q.clone(), k, v, &options));
            for (index, x) in output.iter().enumerate() {
                assert_eq!(x.is_nan(), sees(index / 4, key), "{key}: row {}, {x}", index / 4);
            }
        }
    }
}

#[test]
fn wide_rows_go_to_the_reference() {
    let Some(device) = adapter("attention on the GPU") else { return };
    let [q, k, v] = [1, 2, 3].map(|seed| tensor::<4>(seed, [1, 1, 2, 130], &device));
    let calls = crate::op::calls();
    let output = attention(q, k, v, &Attention::causal(130));
    assert_eq!(crate::op::calls(), calls);
    assert_eq!(output.dims(), [1, 1, 2, 130]);
}
