use super::*;
use crate::softmax::plain_softmax;
use crate::testing::{assert_close, assert_matches, differentiate, flat, list, numbers, tensor};
use burn::tensor::Device;

/// The sizes and settings of one test.
#[derive(Clone, Copy, Debug)]
struct Case {
    shape: Shape,
    offset: usize,
    window: Option<usize>,
    sinks: usize,
    /// Rows of the query scale.
    scaled: Option<usize>,
    /// The first distance that is read with a second q and k.
    border: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    None,
    ByDistance,
    Slopes,
    Pair,
    Block,
    SharedBlock,
}

const KINDS: [Kind; 6] =
    [Kind::None, Kind::ByDistance, Kind::Slopes, Kind::Pair, Kind::Block, Kind::SharedBlock];

const PLAIN: Case = Case {
    shape: Shape { batch: 2, heads: 2, key_heads: 2, queries: 37, keys: 37, head_dim: 8, value_dim: 8 },
    offset: 0,
    window: None,
    sinks: 0,
    scaled: None,
    border: None,
};

impl Case {
    fn inputs(&self, kind: Kind) -> Vec<Vec<f32>> {
        let Shape { batch, heads, key_heads, queries, keys, head_dim, value_dim } = self.shape;
        let mut sizes = vec![
            batch * heads * queries * head_dim,
            batch * key_heads * keys * head_dim,
            batch * key_heads * keys * value_dim,
        ];
        match kind {
            Kind::None => {}
            Kind::ByDistance => sizes.push(heads * self.distances()),
            Kind::Slopes => sizes.push(heads),
            Kind::Pair => sizes.extend([batch * heads * queries, batch * heads * keys]),
            Kind::Block => sizes.push(batch * heads * queries * keys),
            Kind::SharedBlock => sizes.push(heads * queries * keys),
        }
        if self.border.is_some() {
            sizes.extend([sizes[0], sizes[1]]);
        }
        sizes.into_iter().zip(1..).map(|(size, seed)| numbers(seed, size)).collect()
    }

    /// The inputs on the CPU.
    fn tensors(&self, kind: Kind) -> Vec<Tensor<1>> {
        self.inputs(kind).into_iter().map(|x| flat(x, &Device::flex())).collect()
    }

    /// A table as short as it may be.
    fn distances(&self) -> usize {
        let all = self.offset + self.shape.queries;
        match self.window {
            Some(window) if self.sinks == 0 => all.min(window),
            _ => all,
        }
    }

    fn call(&self, kind: Kind, inputs: &[Tensor<1>]) -> ([Tensor<4>; 3], Attention) {
        let Shape { batch, heads, key_heads, queries, keys, value_dim, .. } = self.shape;
        let input = |index: usize| inputs[index].clone();
        let bias = match kind {
            Kind::None => Bias::None,
            Kind::ByDistance => Bias::ByDistance(input(3).reshape([heads, self.distances()])),
            Kind::Slopes => Bias::Slopes(input(3)),
            Kind::Pair => Bias::Pair {
                query: input(3).reshape([batch, heads, queries]),
                key: input(4).reshape([batch, heads, keys]),
            },
            Kind::Block => Bias::Block(input(3).reshape([batch, heads, queries, keys])),
            Kind::SharedBlock => Bias::Block(input(3).reshape([1, heads, queries, keys])),
        };
        let scale = self.scaled.map(|rows| tensor(5, [rows, queries], &Device::flex()).add_scalar(1.5));
        let options = Attention {
            scale: 0.7,
            bias,
            window: self.window,
            sinks: self.sinks,
            query_scale: scale,
            query_offset: self.offset,
            distances: 0..usize::MAX,
        };
        // v arrives with rows and channels exchanged, so that it is not contiguous.
        let v = input(2).reshape([batch, key_heads, value_dim, keys]).swap_dims(2, 3);
        let [q, k] = self.query_and_key([input(0), input(1)]);
        ([q, k, v], options)
    }

    /// q and k with heads and rows exchanged, so that they are not contiguous.
    fn query_and_key(&self, [q, k]: [Tensor<1>; 2]) -> [Tensor<4>; 2] {
        let Shape { batch, heads, key_heads, queries, keys, head_dim, .. } = self.shape;
        [(q, queries, heads), (k, keys, key_heads)]
            .map(|(x, rows, heads)| x.reshape([batch, rows, heads, head_dim]).swap_dims(1, 2))
    }

    fn fused(&self, kind: Kind, inputs: &[Tensor<1>]) -> Tensor<4> {
        let ([q, k, v], options) = self.call(kind, inputs);
        let Some(border) = self.border else { return attention(q, k, v, &options) };
        attention_by_distance([q, k], self.far(inputs), v, border, &options)
    }

    fn reference(&self, kind: Kind, inputs: &[Tensor<1>]) -> Tensor<4> {
        let ([q, k, v], options) = self.call(kind, inputs);
        let Some(border) = self.border else { return reference::attention([q, k, v], &options, &self.shape) };
        two_rotations([q, k], self.far(inputs), v, border, &options)
    }

    /// The second q and k, the last of the inputs.
    fn far(&self, inputs: &[Tensor<1>]) -> [Tensor<4>; 2] {
        let [.., q, k] = inputs else { panic!("the inputs of a case with a border") };
        self.query_and_key([q.clone(), k.clone()])
    }

    #[track_caller]
    fn check(&self, kind: Kind) {
        let what = format!("{self:?} {kind:?}");
        assert_matches(&what, &self.inputs(kind), |x| self.fused(kind, x), |x| self.reference(kind, x));
    }

    /// One range of distances, output and log sums, against the reference.
    #[track_caller]
    fn check_range(&self, kind: Kind, distances: Range<usize>) {
        let read = |inputs: &[Tensor<1>], read: &dyn Fn([Tensor<4>; 3], &Attention) -> PartialAttention| {
            let (qkv, options) = self.call(kind, inputs);
            flat_part(read(qkv, &Attention { distances: distances.clone(), ..options }))
        };
        assert_matches(
            &format!("{self:?} {kind:?} {distances:?}"),
            &self.inputs(kind),
            |x| read(x, &|[q, k, v], options| partial_attention(q, k, v, options)),
            |x| read(x, &|qkv, options| reference::partial_attention(qkv, options, &self.shape)),
        );
    }
}

/// Output and log sums side by side. Log sums of rows that see no key are cut off, to numbers of usual size.
pub(in crate::attention) fn flat_part(part: PartialAttention) -> Tensor<1> {
    let log_sums = part.log_sums.clamp_min(-50.0);
    Tensor::cat(vec![part.output.flatten::<1>(0, 3), log_sums.flatten::<1>(0, 2)], 0)
}

/// Two rotations as they were published: the scores of both in full, a choice by distance, and one softmax.
pub(in crate::attention) fn two_rotations(
    near: [Tensor<4>; 2],
    far: [Tensor<4>; 2],
    v: Tensor<4>,
    border: usize,
    options: &Attention,
) -> Tensor<4> {
    let group = near[0].dims()[1] / v.dims()[1];
    let [near, far] = [near, far].map(|[q, k]| reference::logits(q, repeat_heads(k, group), options)); // [batch, heads, queries, keys]
    let [_, _, queries, keys] = near.dims();
    let to_border = Attention { distances: 0..border, window: None, ..options.clone() };
    let is_far = to_border.hidden(queries, keys, &near.device()).unsqueeze::<4>().expand(near.dims());
    plain_softmax(near.mask_where(is_far, far)).matmul(repeat_heads(v, group))
}

#[test]
fn every_bias() {
    for kind in KINDS {
        PLAIN.check(kind);
    }
}

#[test]
fn every_bias_with_unequal_heads_and_odd_sizes() {
    let shape = Shape { batch: 2, heads: 6, key_heads: 2, queries: 33, keys: 33, head_dim: 5, value_dim: 7 };
    for kind in KINDS {
        Case { shape, ..PLAIN }.check(kind);
    }
}

#[test]
fn every_bias_with_window_and_sinks() {
    for kind in KINDS {
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
        Case { shape, offset: 7, window, sinks, ..PLAIN }.check(Kind::ByDistance);
    }
}

#[test]
fn every_bias_with_an_offset_and_a_query_scale() {
    for kind in KINDS {
        for (rows, window) in [(1, None), (2, Some(9))] {
            let shape = Shape { queries: 19, keys: 60, ..PLAIN.shape };
            Case { shape, offset: 41, window, sinks: 4, scaled: Some(rows), ..PLAIN }.check(kind);
        }
    }
}

#[test]
fn one_query() {
    for kind in KINDS {
        let shape = Shape { queries: 1, keys: 1, ..PLAIN.shape };
        Case { shape, ..PLAIN }.check(kind);
        let shape = Shape { queries: 1, keys: 50, ..PLAIN.shape };
        Case { shape, offset: 49, ..PLAIN }.check(kind);
    }
}

#[test]
fn every_bias_with_two_rotations() {
    for kind in KINDS {
        for border in [0, 1, 9, 36, 37, 1000, usize::MAX] {
            Case { border: Some(border), ..PLAIN }.check(kind);
        }
    }
}

#[test]
fn two_rotations_with_unequal_heads_and_odd_sizes() {
    for (kind, border) in KINDS.into_iter().zip([1, 31, 9, 33, 45, 76]) {
        // Slopes of few rows: far along, their gradient in the reference is off by more than what is allowed here.
        let rows = if matches!(kind, Kind::Slopes) { 21 } else { 77 };
        let shape =
            Shape { batch: 2, heads: 6, key_heads: 2, queries: rows, keys: rows, head_dim: 5, value_dim: 7 };
        Case { shape, border: Some(border), ..PLAIN }.check(kind);
    }
}

/// Borders of the two rotations before, at and past that of the window, and among the sinks.
#[test]
fn two_rotations_with_window_and_sinks() {
    let shape = Shape { batch: 1, queries: 70, keys: 70, ..PLAIN.shape };
    for (kind, border) in KINDS.into_iter().zip([1, 3, 20, 21, 40, 68]) {
        for (window, sinks) in [(1, 0), (20, 0), (20, 3), (40, 30), (1000, 1)] {
            Case { shape, window: Some(window), sinks, border: Some(border), ..PLAIN }.check(kind);
        }
    }
}

#[test]
fn two_rotations_with_an_offset_and_a_query_scale() {
    for kind in KINDS {
        for (rows, window, border) in [(1, None, 7), (2, Some(30), 12), (2, Some(9), 50)] {
            let shape = Shape { queries: 19, keys: 60, ..PLAIN.shape };
            let case = Case { shape, offset: 41, window, sinks: 4, scaled: Some(rows), border: Some(border) };
            case.check(kind);
        }
    }
}

#[test]
fn two_rotations_in_several_tasks_per_head() {
    for (window, sinks, border) in [(None, 0, 100), (Some(150), 7, 40), (None, 0, 3)] {
        let shape =
            Shape { batch: 1, heads: 2, key_heads: 1, queries: 300, keys: 310, head_dim: 4, value_dim: 4 };
        Case { shape, offset: 7, window, sinks, border: Some(border), ..PLAIN }.check(Kind::ByDistance);
    }
}

#[test]
fn one_query_with_two_rotations() {
    for (keys, border) in [(1, 0), (1, 1), (50, 1), (50, 20), (50, 49), (50, 50)] {
        let shape = Shape { queries: 1, keys, ..PLAIN.shape };
        Case { shape, offset: keys - 1, border: Some(border), ..PLAIN }.check(Kind::Slopes);
    }
}

/// One call that reads both ranges gives what two calls give that are merged, with all gradients.
#[test]
fn two_rotations_are_two_parts_that_are_merged() {
    let shape = Shape { batch: 1, queries: 90, keys: 100, ..PLAIN.shape };
    for (kind, border) in KINDS.into_iter().zip([1, 15, 16, 33, 64, 90]) {
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
            let (output, gradients) = differentiate(&device, &inputs, |inputs| case.fused(kind, inputs));
            let (expected, expected_gradients) = differentiate(&device, &inputs, merged);
            assert_close(&format!("{case:?} {kind:?}"), &output, &expected, 2e-6);
            for (index, (gradient, expected)) in gradients.iter().zip(&expected_gradients).enumerate() {
                assert_close(&format!("{case:?} {kind:?}, {index}"), gradient, expected, 5e-6);
            }
        }
    }
}

/// Distances that the options leave out are read by neither pair.
#[test]
fn the_options_limit_both_rotations() {
    let shape = Shape { batch: 1, queries: 70, keys: 70, ..PLAIN.shape };
    for (distances, border) in [(3..50, 20), (20..50, 9), (3..20, 40), (10..40, 10)] {
        let case = Case { shape, border: Some(border), ..PLAIN };
        let inputs = case.tensors(Kind::None);
        let ([q, k, v], options) = case.call(Kind::None, &inputs);
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
    let ([q, k, v], options) = case.call(Kind::None, &case.tensors(Kind::None));
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
    for (kind, distances) in KINDS.into_iter().cycle().zip(ranges) {
        for (window, sinks) in [(None, 0), (Some(5), 0), (Some(20), 3), (Some(30), 50)] {
            let shape = Shape { batch: 1, queries: 70, keys: 70, ..PLAIN.shape };
            Case { shape, window, sinks, ..PLAIN }.check_range(kind, distances.clone());
        }
        let shape = Shape { queries: 19, keys: 60, heads: 6, head_dim: 5, ..PLAIN.shape };
        Case { shape, offset: 41, scaled: Some(2), ..PLAIN }.check_range(kind, distances);
    }
}

#[test]
fn ranges_in_several_tasks_per_head() {
    let shape =
        Shape { batch: 1, heads: 2, key_heads: 1, queries: 300, keys: 310, head_dim: 4, value_dim: 4 };
    for distances in [0..100, 150..usize::MAX, 200..250] {
        Case { shape, offset: 7, ..PLAIN }.check_range(Kind::ByDistance, distances);
    }
}

#[test]
fn keys_after_the_last_query_get_no_gradient() {
    let shape = Shape { queries: 3, keys: 9, ..PLAIN.shape };
    let case = Case { shape, offset: 2, ..PLAIN };
    case.check(Kind::None);
    let (_, gradients) =
        differentiate(&Device::flex(), &case.inputs(Kind::None), |inputs| case.fused(Kind::None, inputs));
    let width = shape.key_heads * shape.head_dim;
    assert!(gradients[1][5 * width..9 * width].iter().all(|x| *x == 0.0));
}

#[test]
fn large_logits_do_not_overflow() {
    let device = Device::flex();
    let q = tensor::<4>(1, [1, 1, 20, 4], &device).mul_scalar(1e4);
    let k = tensor::<4>(2, [1, 1, 20, 4], &device);
    let v = tensor::<4>(3, [1, 1, 20, 4], &device);
    let options = Attention::causal(4);
    let shape = Shape::of(&q, &k, &v);
    let fused = list(attention(q.clone(), k.clone(), v.clone(), &options));
    assert_close("fused", &fused, &list(reference::attention([q, k, v], &options, &shape)), 2e-3);
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
    let shape = Shape::of(&q, &k, &v);
    let blocks = list(reference::attention([&q, &k, &v].map(Clone::clone), &options, &shape));
    let fused = list(attention(q, k, v, &options));
    assert_close("fused against reference in blocks", &fused, &blocks, 2e-6);
}

#[test]
fn rows_that_see_no_key_give_zeros() {
    rows_without_keys(&Device::flex());
}

/// Minus infinity throughout a row of a block of bias leaves nothing to see: the output of the row and all gradients
/// that come through it are 0, and other rows are as they would be without it.
pub(in crate::attention) fn rows_without_keys(device: &Device) {
    let Shape { queries, keys, value_dim, .. } = PLAIN.shape;
    let empty = |row: usize| row.is_multiple_of(7) || row + 1 == queries;
    let hidden = |index: usize| empty(index / keys % queries);
    for border in [None, Some(9)] {
        let case = Case { border, ..PLAIN };
        let mut inputs = case.inputs(Kind::Block);
        for (_, x) in inputs[3].iter_mut().enumerate().filter(|(index, _)| hidden(*index)) {
            *x = f32::NEG_INFINITY;
        }
        let (output, gradients) = differentiate(device, &inputs, |inputs| case.fused(Kind::Block, inputs));
        let (expected, expected_gradients) =
            differentiate(device, &inputs, |inputs| case.reference(Kind::Block, inputs));
        assert_close("output", &output, &expected, 2e-6);
        for (index, (gradient, expected)) in gradients.iter().zip(&expected_gradients).enumerate() {
            assert_close(&format!("gradient {index}"), gradient, expected, 5e-6);
        }
        let of_rows = output.iter().enumerate();
        assert!(of_rows.clone().all(|(index, x)| empty(index / value_dim % queries) == (*x == 0.0)));
        for gradients in [&gradients, &expected_gradients] {
            assert!(gradients.iter().flatten().all(|x| x.is_finite()));
            assert!(gradients[3].iter().enumerate().all(|(index, x)| !hidden(index) || *x == 0.0));
        }
    }
}

/// The same where everything is hidden: nothing to attend to, nothing to learn.
#[test]
fn nothing_to_see_gives_zeros_everywhere() {
    let case = Case { shape: Shape { queries: 33, keys: 33, ..PLAIN.shape }, ..PLAIN };
    let mut inputs = case.inputs(Kind::SharedBlock);
    inputs[3].fill(f32::NEG_INFINITY);
    let (output, gradients) =
        differentiate(&Device::flex(), &inputs, |inputs| case.fused(Kind::SharedBlock, inputs));
    assert!(output.iter().chain(gradients.iter().flatten()).all(|x| *x == 0.0));
}

#[test]
fn windows_of_any_size_hide_nothing() {
    let device = Device::flex();
    let [q, k, v] = [1, 2, 3].map(|seed| tensor::<4>(seed, [1, 2, 70, 4], &device));
    let shape = Shape::of(&q, &k, &v);
    let read = |window: Option<usize>, sinks: usize| {
        let options = Attention { window, sinks, ..Attention::causal(4) };
        let [q, k, v] = [&q, &k, &v].map(Clone::clone);
        let plain = reference::attention([&q, &k, &v].map(Clone::clone), &options, &shape);
        [attention(q, k, v, &options), plain].map(list)
    };
    let expected = read(None, 0);
    for window in [70, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, usize::MAX] {
        assert_eq!(read(Some(window), 0), expected, "{window}");
        assert_eq!(read(Some(1), window), expected, "sinks {window}");
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
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let shape = Shape { queries: 90, keys: 90, ..PLAIN.shape };
        let case = Case { shape, border: Some(40), ..PLAIN };
        pool.install(|| {
            let inputs = case.inputs(Kind::ByDistance);
            differentiate(&Device::flex(), &inputs, |inputs| case.fused(Kind::ByDistance, inputs))
        })
    };
    assert_eq!(run(1), run(3));
}

#[test]
#[should_panic(expected = "a bias table [2, 36] for 2 heads and 37 distances")]
fn a_short_table_is_rejected() {
    let ([q, k, v], mut options) = PLAIN.call(Kind::None, &PLAIN.tensors(Kind::None));
    options.bias = Bias::ByDistance(tensor(1, [2, 36], &Device::flex()));
    attention(q, k, v, &options);
}
