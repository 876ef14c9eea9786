//! Attention on the GPU against its reference.

mod matrices;
mod split;

use crate::Precision;
use crate::attention::tests::{distances_without_keys, flat_part, rows_without_keys, two_rotations};
use crate::attention::{
    Attention, Bias, Terms, attention, attention_by_distance, partial_attention, reference,
};
use crate::machine::device::adapter;
use crate::testing::{assert_matches_on, flat, numbers, padded, tensor};
use burn::tensor::{Device, Tensor};
use std::cell::Cell;
use std::ops::Range;

thread_local! {
    static MEMORY: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The most bytes that a cube may share, where a test asks for fewer than the device has.
pub(super) fn memory() -> usize {
    MEMORY.get()
}

/// Every third of some cases from the `first` on, or with `LONGWAVE_GPU=all` each: a driver in software compiles the kernels of a case for
/// seconds, and `selfcheck` holds every kind of bias with and without a mask. Tests begin at different ones, so that together they take each kind.
fn some<T>(first: usize, cases: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let [first, step] = if is_long() { [0, 1] } else { [first, 3] };
    cases.into_iter().skip(first).step_by(step)
}

fn is_long() -> bool {
    std::env::var_os("LONGWAVE_GPU").is_some_and(|which| which == "all")
}

/// Runs a test with tiles of either side: with all memory that the device has, and with what every device has.
fn with_both_sides(test: impl Fn()) {
    for bytes in [usize::MAX, 16_384] {
        MEMORY.set(bytes);
        test();
    }
    MEMORY.set(usize::MAX);
}

/// The sizes and settings of one test.
#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    heads: usize,
    key_heads: usize,
    queries: usize,
    keys: usize,
    head_dim: usize,
    value_dim: usize,
    window: Option<usize>,
    sinks: usize,
    scaled: bool,
    /// The first distance that is read with a second q and k.
    border: Option<usize>,
    /// Whether everything comes in rows that lie apart.
    apart: bool,
    precision: Precision,
}

const PLAIN: Case = Case {
    batch: 2,
    heads: 4,
    key_heads: 2,
    queries: 37,
    keys: 37,
    head_dim: 8,
    value_dim: 8,
    window: None,
    sinks: 0,
    scaled: false,
    border: None,
    apart: false,
    precision: Precision::F32,
};

const KINDS: [&str; 6] = ["none", "distance", "slopes", "pair", "block", "shared block"];

impl Case {
    fn offset(&self) -> usize {
        self.keys - self.queries
    }

    fn bias_sizes(&self, kind: &str) -> Vec<usize> {
        let Self { batch, heads, queries, keys, .. } = *self;
        match kind {
            "none" => vec![],
            "distance" => vec![heads * keys],
            "slopes" => vec![heads],
            "pair" => vec![batch * heads * queries, batch * heads * keys],
            "block" => vec![batch * heads * queries * keys],
            _ => vec![heads * queries * keys],
        }
    }

    fn lay<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        if self.apart { padded(x) } else { x }
    }

    fn bias(&self, kind: &str, inputs: &[Tensor<1>]) -> Bias {
        let Self { batch, heads, queries, keys, .. } = *self;
        let input = |index: usize| inputs[index].clone();
        match kind {
            "none" => Bias::None,
            "distance" => Bias::ByDistance(self.lay(input(0).reshape([heads, keys]))),
            "slopes" => Bias::Slopes(self.lay(input(0))),
            "pair" => Bias::Pair {
                query: self.lay(input(0).reshape([batch, heads, queries])),
                key: self.lay(input(1).reshape([batch, heads, keys])),
            },
            "block" => Bias::Block(self.lay(input(0).reshape([batch, heads, queries, keys]))),
            _ => Bias::Block(self.lay(input(0).reshape([1, heads, queries, keys]))),
        }
    }

    fn input_sizes(&self, kind: &str) -> Vec<usize> {
        let Self { batch, heads, key_heads, queries, keys, head_dim, value_dim, .. } = *self;
        let [q, k, v] =
            [heads * queries * head_dim, key_heads * keys * head_dim, key_heads * keys * value_dim];
        let far = if self.border.is_some() { vec![batch * q, batch * k] } else { vec![] };
        [vec![batch * q, batch * k, batch * v], far, self.bias_sizes(kind)].concat()
    }

    /// q and k, v, q and k of far pairs, and the options.
    fn call(
        &self,
        device: &Device,
        kind: &str,
        inputs: &[Tensor<1>],
    ) -> ([Tensor<4>; 2], Tensor<4>, [Tensor<4>; 2], Attention) {
        let Self { batch, heads, key_heads, queries, keys, head_dim, value_dim, .. } = *self;
        let far = if self.border.is_some() { 3 } else { 0 };
        // Keys arrive with heads and rows swapped, so that they are not contiguous.
        let query_and_key = |first: usize| {
            let [q, k] = [first, first + 1].map(|index| inputs[index].clone());
            [
                self.lay(q.reshape([batch, heads, queries, head_dim])),
                self.lay(k.reshape([batch, keys, key_heads, head_dim])).swap_dims(1, 2),
            ]
        };
        let options = Attention {
            normaliser: std::sync::Arc::new(crate::Softmax),
            scale: 0.7,
            bias: self.bias(kind, &inputs[if far > 0 { 5 } else { 3 }..]),
            terms: Terms::default(),
            window: self.window,
            sinks: self.sinks,
            query_scale: self
                .scaled
                .then(|| self.lay(tensor::<2>(50, [batch, queries], device).add_scalar(1.5))),
            query_offset: self.offset(),
            distances: 0..usize::MAX,
            precision: self.precision,
        };
        let v = self.lay(inputs[2].clone().reshape([batch, key_heads, keys, value_dim]));
        (query_and_key(0), v, query_and_key(far), options)
    }

    fn check(&self, device: &Device, kind: &str) {
        let inputs: Vec<Vec<f32>> =
            (1..).zip(self.input_sizes(kind)).map(|(seed, size)| numbers(seed, size)).collect();
        assert_matches_on(
            device,
            &format!("{kind} {self:?}"),
            &inputs,
            |inputs| {
                let ([q, k], v, far, options) = self.call(device, kind, inputs);
                match self.border {
                    Some(border) => attention_by_distance([q, k], far, v, border, &options),
                    None => attention(q, k, v, &options),
                }
            },
            |inputs| {
                let ([q, k], v, far, options) = self.call(device, kind, inputs);
                let shape = crate::attention::spec::Shape::of(&q, &k, &v);
                match self.border {
                    Some(border) => two_rotations([q, k], far, v, border, &options),
                    None => reference::attention([q, k, v], &options, &shape),
                }
            },
        );
    }

    /// One range of distances, output and log sums.
    fn check_range(&self, device: &Device, kind: &str, distances: &Range<usize>) {
        let inputs: Vec<Vec<f32>> =
            (1..).zip(self.input_sizes(kind)).map(|(seed, size)| numbers(seed, size)).collect();
        let call = |inputs: &[Tensor<1>]| {
            let ([q, k], v, _, options) = self.call(device, kind, inputs);
            (q, k, v, Attention { distances: distances.clone(), ..options })
        };
        assert_matches_on(
            device,
            &format!("{kind} {distances:?} {self:?}"),
            &inputs,
            |inputs| {
                let (q, k, v, options) = call(inputs);
                flat_part(partial_attention(q, k, v, &options))
            },
            |inputs| {
                let (q, k, v, options) = call(inputs);
                let shape = crate::attention::spec::Shape::of(&q, &k, &v);
                flat_part(reference::partial_attention([q, k, v], &options, &shape))
            },
        );
    }
}

#[test]
fn tiles_of_either_side_agree_with_the_reference() {
    let Some(device) = adapter("attention on the GPU") else { return };
    let q = tensor::<4>(1, [1, 1, 70, 8], &device);
    let shape = crate::attention::spec::Shape::of(&q, &q, &q);
    let side = || super::supports(&q.clone().into(), &shape, Precision::F32).map(|tiles| tiles.side);
    assert!(side().is_some());
    with_both_sides(|| {
        assert!(side() == Some(32) || memory() == usize::MAX);
        for kind in some(2, KINDS) {
            // Far along, the gradient of slopes in the reference is off by more than is allowed here.
            let window = (kind == "slopes").then_some(20);
            Case { batch: 1, queries: 70, keys: 101, window, ..PLAIN }.check(&device, kind);
        }
    });
}

#[test]
fn every_bias_agrees_with_the_reference() {
    let Some(device) = adapter("attention on the GPU") else { return };
    some(2, KINDS).for_each(|kind| PLAIN.check(&device, kind));
    for kind in some(0, KINDS) {
        // Past one cube's queries and one tile of keys, with channels that no vector width divides.
        Case {
            batch: 1,
            queries: 70,
            keys: 101,
            head_dim: 5,
            value_dim: 3,
            window: Some(20),
            sinks: 3,
            scaled: true,
            ..PLAIN
        }
        .check(&device, kind);
    }
}

#[test]
fn sizes_and_masks_agree_with_the_reference() {
    let Some(device) = adapter("attention on the GPU") else { return };
    for case in some(
        0,
        [
            Case { batch: 1, heads: 1, key_heads: 1, queries: 1, keys: 1, ..PLAIN },
            Case { queries: 1, keys: 90, ..PLAIN },
            Case { batch: 1, queries: 200, keys: 200, window: Some(30), ..PLAIN },
            Case { batch: 1, queries: 64, keys: 130, window: Some(40), sinks: 2, ..PLAIN },
            Case {
                batch: 1,
                heads: 2,
                key_heads: 1,
                queries: 66,
                keys: 66,
                head_dim: 128,
                value_dim: 64,
                ..PLAIN
            },
            // Vectors of two, and of one; channels of one and a half slices.
            Case { batch: 1, queries: 63, keys: 96, head_dim: 48, value_dim: 34, ..PLAIN },
            Case { batch: 1, queries: 65, keys: 65, head_dim: 37, value_dim: 96, ..PLAIN },
        ],
    ) {
        // Not slopes: far along, their gradient in the reference is off by more than what is allowed here.
        case.check(&device, "pair");
    }
}

#[test]
fn two_rotations_agree_with_the_reference() {
    let Some(device) = adapter("attention on the GPU") else { return };
    for (kind, border) in some(0, KINDS.into_iter().zip([1, 9, 12, 36, 19, usize::MAX])) {
        Case {
            batch: 1,
            queries: 70,
            keys: 101,
            head_dim: 5,
            value_dim: 3,
            window: Some(20),
            // Sinks are far along, where the reference's gradient of slopes is off by more than is allowed here.
            sinks: if kind == "slopes" { 0 } else { 3 },
            scaled: true,
            border: Some(border),
            ..PLAIN
        }
        .check(&device, kind);
    }
    for case in some(
        0,
        [
            Case { border: Some(9), ..PLAIN },
            Case { batch: 1, heads: 1, key_heads: 1, queries: 1, keys: 1, border: Some(0), ..PLAIN },
            Case { queries: 1, keys: 90, border: Some(30), ..PLAIN },
            Case { batch: 1, queries: 200, keys: 200, border: Some(70), ..PLAIN },
            Case { batch: 1, queries: 130, keys: 130, window: Some(30), sinks: 2, border: Some(30), ..PLAIN },
            Case {
                batch: 1,
                queries: 66,
                keys: 150,
                window: Some(90),
                head_dim: 128,
                border: Some(41),
                ..PLAIN
            },
        ],
    ) {
        case.check(&device, "pair");
    }
}

#[test]
fn ranges_of_distances_agree_with_the_reference() {
    let Some(device) = adapter("attention on the GPU") else { return };
    let ranges = [0..1, 0..40, 3..9, 12..usize::MAX, 40..70, 200..300];
    let case = Case { batch: 1, queries: 70, keys: 101, scaled: true, ..PLAIN };
    for (kind, distances) in some(1, KINDS.into_iter().zip(ranges.clone())) {
        Case { window: Some(30), sinks: 5, ..case }.check_range(&device, kind, &distances);
    }
    for (kind, distances) in some(0, KINDS.into_iter().zip(ranges)) {
        case.check_range(&device, kind, &distances);
    }
}

/// Queries, keys and channels that no tile and no vector divides; everything comes in rows that lie apart.
#[test]
fn odd_shapes_agree_with_the_reference() {
    let Some(device) = adapter("attention on the GPU") else { return };
    let apart = Case { batch: 1, heads: 3, key_heads: 1, apart: true, ..PLAIN };
    let cases = [
        Case { heads: 1, queries: 1, keys: 1, head_dim: 1, value_dim: 1, ..apart },
        Case { queries: 37, keys: 37, head_dim: 3, value_dim: 37, ..apart },
        Case { queries: 3, keys: 67, head_dim: 37, value_dim: 1, scaled: true, ..apart },
        Case { batch: 2, queries: 65, keys: 67, head_dim: 3, value_dim: 3, border: Some(37), ..apart },
        Case { queries: 37, keys: 65, head_dim: 1, value_dim: 3, window: Some(9), sinks: 3, ..apart },
        Case { batch: 2, queries: 1, keys: 3, head_dim: 37, value_dim: 37, border: Some(1), ..apart },
    ];
    // Slopes have the smallest case: far along, their gradient in the reference is off by more than is allowed.
    let kinds = ["slopes", "distance", "pair", "block", "distance", "shared block"];
    for (case, kind) in cases.into_iter().zip(kinds) {
        case.check(&device, kind);
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
            let output = crate::testing::list(attention(q.clone(), k, v, &options));
            for (index, x) in output.iter().enumerate() {
                assert_eq!(x.is_nan(), sees(index / 4, key), "{key}: row {}, {x}", index / 4);
            }
        }
    }
}

/// Logits far apart: the highest is found on the way, and nothing overflows.
#[test]
fn large_logits_do_not_overflow() {
    let Some(device) = adapter("attention on the GPU") else { return };
    let [q, k, v] = [1, 2, 3].map(|seed| tensor::<4>(seed, [1, 1, 70, 4], &device));
    let q = q.mul_scalar(1e4);
    let options = Attention::causal(4);
    let shape = crate::attention::spec::Shape::of(&q, &k, &v);
    let fused = crate::testing::list(attention(q.clone(), k.clone(), v.clone(), &options));
    let expected = crate::testing::list(reference::attention([q, k, v], &options, &shape));
    crate::testing::assert_close("large logits", &fused, &expected, 2e-3);
}

#[test]
fn wide_rows_go_to_the_reference() {
    let Some(device) = adapter("attention on the GPU") else { return };
    let [q, k, v] = [1, 2, 3].map(|seed| flat(numbers(seed, 2 * 130), &device).reshape([1, 1, 2, 130]));
    let calls = crate::op::calls();
    let output = attention(q, k, v, &Attention::causal(130));
    assert_eq!(crate::op::calls(), calls);
    assert_eq!(output.dims(), [1, 1, 2, 130]);
}

/// Windows and sinks at the end of 32 bits and past it hide no key.
#[test]
fn windows_past_32_bits_hide_nothing() {
    let Some(device) = adapter("attention on the GPU") else { return };
    let [q, k, v] = [1, 2, 3].map(|seed| tensor::<4>(seed, [1, 2, 70, 4], &device));
    let read = |window: Option<usize>, sinks: usize| {
        let options = Attention { window, sinks, ..Attention::causal(4) };
        crate::testing::list(attention(q.clone(), k.clone(), v.clone(), &options))
    };
    let expected = read(None, 0);
    for window in [(1 << 32) - 71, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, usize::MAX] {
        assert_eq!(read(Some(window), 0), expected, "{window}");
        assert_eq!(read(Some(1), window), expected, "sinks {window}");
    }
}

#[test]
fn rows_that_see_no_key_give_zeros() {
    let Some(device) = adapter("attention on the GPU") else { return };
    rows_without_keys(&device);
}

#[test]
fn minus_infinity_by_distance_hides_keys() {
    let Some(device) = adapter("attention on the GPU") else { return };
    distances_without_keys(&device);
}
