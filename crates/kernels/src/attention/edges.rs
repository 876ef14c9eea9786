//! What lies at the edge: rows that see nothing, large numbers, keys past the last query, wrong arguments, threads.
//!
//! Beside `tests`, which CI leaves out of its run with a GPU.

use super::spec::Shape;
use super::tests::{BiasKind, Case, PLAIN};
use super::*;
use crate::testing::{
    Differentiated, ROUNDING, assert_alike, assert_close, assert_threads_change_no_bit, by_reference,
    differentiate, list, on_devices, tensor,
};
use burn::tensor::{Device, Tensor};

on_devices! {
    "attention":
    large_logits_do_not_overflow => large_logits,
    windows_of_any_size_hide_nothing => windows_of_any_size,
    rows_that_see_no_key_give_zeros => rows_without_keys,
    minus_infinity_by_distance_hides_keys => distances_without_keys,
}

/// What a case gives on a device, and its reference on the CPU, with minus infinity at these places of the bias.
fn with_hidden(
    device: &Device,
    case: &Case,
    kind: BiasKind,
    hidden: impl Fn(usize) -> bool,
) -> [Differentiated; 2] {
    let mut inputs = case.inputs(kind);
    for (_, x) in inputs[3].iter_mut().enumerate().filter(|(index, _)| hidden(*index)) {
        *x = f32::NEG_INFINITY;
    }
    let fused = |inputs: &[Tensor<1>]| case.fused(kind, inputs);
    let reference = |inputs: &[Tensor<1>]| by_reference(|| fused(inputs));
    [differentiate(device, &inputs, fused), differentiate(&Device::flex(), &inputs, reference)]
}

#[test]
fn keys_after_the_last_query_get_no_gradient() {
    let shape = Shape { queries: 3, keys: 9, ..PLAIN.shape };
    let case = Case { shape, offset: 2, ..PLAIN };
    case.check_on(&Device::flex(), BiasKind::None);
    let (_, gradients) = differentiate(&Device::flex(), &case.inputs(BiasKind::None), |inputs| {
        case.fused(BiasKind::None, inputs)
    });
    let width = shape.key_heads * shape.head_dim;
    assert!(gradients[1][5 * width..9 * width].iter().all(|x| *x == 0.0));
}

/// Logits far apart: the highest is found on the way, and nothing overflows.
fn large_logits(device: &Device) {
    for (queries, keys) in [(70, 70), (2, 300)] {
        let read = |device: &Device| {
            let q = tensor::<4>(1, [1, 1, queries, 4], device).mul_scalar(1e4);
            let [k, v] = [2, 3].map(|seed| tensor::<4>(seed, [1, 1, keys, 4], device));
            list(attention(q, k, v, &Attention { query_offset: keys - queries, ..Attention::causal(4) }))
        };
        let expected = by_reference(|| read(&Device::flex()));
        assert_close(&format!("{queries} of {keys}"), &read(device), &expected, 2e-3);
    }
}

#[test]
fn the_reference_in_blocks_is_the_reference_at_once() {
    let device = Device::flex();
    // 2 x 4 heads x 1600 keys: the reference takes 1310 queries at once.
    let (q, k) = (tensor::<4>(1, [2, 4, 1600, 2], &device), tensor::<4>(2, [2, 4, 1600, 2], &device));
    let v = tensor::<4>(3, [2, 4, 1600, 2], &device);
    let query_scale = Some(tensor(5, [2, 1600], &device).add_scalar(1.5));
    let pair = Bias::Pair { query: tensor(6, [2, 4, 1600], &device), key: tensor(7, [2, 4, 1600], &device) };
    let options = Attention { bias: pair, query_scale, ..Attention::causal(2) };
    let read = || list(attention(q.clone(), k.clone(), v.clone(), &options));
    assert_close("fused against reference in blocks", &read(), &by_reference(read), 2e-6);
}

/// Minus infinity throughout a row of a block of bias leaves nothing to see: the output of the row and all gradients
/// that come through it are 0, and other rows are as they would be without it.
fn rows_without_keys(device: &Device) {
    let Shape { queries, keys, value_dim, .. } = PLAIN.shape;
    let empty = |row: usize| row.is_multiple_of(7) || row + 1 == queries;
    let hidden = |index: usize| empty(index / keys % queries);
    for border in [None, Some(9)] {
        let case = Case { border, ..PLAIN };
        let [fused, expected] = with_hidden(device, &case, BiasKind::Block, hidden);
        assert_alike("rows", &fused, &expected, ROUNDING);
        let ((output, gradients), (_, expected_gradients)) = (fused, expected);
        let of_rows = output.iter().enumerate();
        assert!(of_rows.clone().all(|(index, x)| empty(index / value_dim % queries) == (*x == 0.0)));
        for gradients in [&gradients, &expected_gradients] {
            assert!(gradients.iter().flatten().all(|x| x.is_finite()));
            assert!(gradients[3].iter().enumerate().all(|(index, x)| !hidden(index) || *x == 0.0));
        }
    }
}

/// A table by distance with minus infinity from some distance on reads as a window of that head: the output and all
/// gradients are as in the reference, and finite.
fn distances_without_keys(device: &Device) {
    let distances = PLAIN.distances();
    // The first heads see 1, 2, .. keys, the last one sees all.
    let hidden =
        |index: usize| index / distances + 1 < PLAIN.shape.heads && index % distances > index / distances;
    for border in [None, Some(9)] {
        let case = Case { border, ..PLAIN };
        let [fused, expected] = with_hidden(device, &case, BiasKind::ByDistance, hidden);
        assert_alike("distances", &fused, &expected, ROUNDING);
        let mut of_table = fused.1[3].iter().enumerate();
        assert!(of_table.all(|(index, x)| x.is_finite() && (!hidden(index) || *x == 0.0)));
    }
}

/// The same where everything is hidden: nothing to attend to, nothing to learn.
#[test]
fn nothing_to_see_gives_zeros_everywhere() {
    let case = Case { shape: Shape { queries: 33, keys: 33, ..PLAIN.shape }, ..PLAIN };
    let mut inputs = case.inputs(BiasKind::SharedBlock);
    inputs[3].fill(f32::NEG_INFINITY);
    let (output, gradients) =
        differentiate(&Device::flex(), &inputs, |inputs| case.fused(BiasKind::SharedBlock, inputs));
    assert!(output.iter().chain(gradients.iter().flatten()).all(|x| *x == 0.0));
}

/// Windows and sinks as long as the text, at the end of 32 bits and past it hide no key.
fn windows_of_any_size(device: &Device) {
    let read = |device: &Device, window: Option<usize>, sinks: usize| {
        let [q, k, v] = [1, 2, 3].map(|seed| tensor::<4>(seed, [1, 2, 70, 4], device));
        list(attention(q, k, v, &Attention { window, sinks, ..Attention::causal(4) }))
    };
    let reads =
        |window, sinks| [read(device, window, sinks), by_reference(|| read(&Device::flex(), window, sinks))];
    let expected = reads(None, 0);
    for window in [70, (1 << 32) - 71, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, usize::MAX] {
        assert_eq!(reads(Some(window), 0), expected, "{window}");
        assert_eq!(reads(Some(1), window), expected, "sinks {window}");
    }
}

#[test]
#[should_panic(expected = "attention: 3 queries from position 7 on, for 9 keys")]
fn queries_past_the_keys_are_rejected() {
    let x = |rows: usize| tensor::<4>(1, [1, 1, rows, 4], &Device::flex());
    let options = Attention { query_offset: 7, window: Some(2), ..Attention::causal(4) };
    attention(x(3), x(9), x(9), &options);
}

#[test]
fn threads_change_no_bit() {
    let shape = Shape { queries: 90, keys: 90, ..PLAIN.shape };
    let (case, kind) = (Case { shape, border: Some(40), ..PLAIN }, BiasKind::ByDistance);
    assert_threads_change_no_bit("two rotations", &case.inputs(kind), |inputs| case.fused(kind, inputs));
}

#[test]
#[should_panic(expected = "a bias table [2, 36] for 2 heads and 37 distances")]
fn a_short_table_is_rejected() {
    let ([q, k, v], mut options) = PLAIN.call(BiasKind::None, &PLAIN.tensors(BiasKind::None));
    options.bias = Bias::ByDistance(tensor(1, [2, 36], &Device::flex()));
    attention(q, k, v, &options);
}
