use super::*;
use crate::testing::{assert_close, assert_matches, differentiate, list, numbers, tensor};
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
    /// The first distance that is read with the far q and k.
    near: Option<usize>,
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
    near: None,
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
        if self.near.is_some() {
            sizes.extend([sizes[0], sizes[1]]);
        }
        sizes.into_iter().zip(1..).map(|(size, seed)| numbers(seed, size)).collect()
    }

    /// A table as short as it may be.
    fn distances(&self) -> usize {
        let all = self.offset + self.shape.queries;
        match self.window {
            Some(window) if self.sinks == 0 => all.min(window),
            _ => all,
        }
    }

    fn call(&self, kind: Kind, inputs: &[Tensor<1>]) -> (Tensor<4>, Tensor<4>, Tensor<4>, Attention) {
        let Shape { batch, heads, key_heads, queries, keys, head_dim, value_dim } = self.shape;
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
            far: None,
        };
        // q, k and v arrive with heads and rows exchanged, so that they do not lie contiguously.
        let query = |index: usize| input(index).reshape([batch, queries, heads, head_dim]).swap_dims(1, 2);
        let key = |index: usize| input(index).reshape([batch, keys, key_heads, head_dim]).swap_dims(1, 2);
        let far = self.near.map(|near| Far { q: query(inputs.len() - 2), k: key(inputs.len() - 1), near });
        let v = input(2).reshape([batch, key_heads, value_dim, keys]).swap_dims(2, 3);
        (query(0), key(1), v, Attention { far, ..options })
    }

    #[track_caller]
    fn hold(&self, kind: Kind) {
        let fused = |inputs: &[Tensor<1>]| {
            let (q, k, v, options) = self.call(kind, inputs);
            attention(q, k, v, &options)
        };
        let reference = |inputs: &[Tensor<1>]| {
            let (q, k, v, options) = self.call(kind, inputs);
            reference::attention(q, k, v, &options, &self.shape)
        };
        assert_matches(&format!("{self:?} {kind:?}"), &self.inputs(kind), fused, reference);
    }
}

#[test]
fn every_bias() {
    for kind in KINDS {
        PLAIN.hold(kind);
    }
}

#[test]
fn every_bias_with_unequal_heads_and_odd_sizes() {
    let shape = Shape { batch: 2, heads: 6, key_heads: 2, queries: 33, keys: 33, head_dim: 5, value_dim: 7 };
    for kind in KINDS {
        Case { shape, ..PLAIN }.hold(kind);
    }
}

#[test]
fn every_bias_with_window_and_sinks() {
    for kind in KINDS {
        for (window, sinks) in [(1, 0), (5, 0), (5, 3), (40, 2), (1000, 1)] {
            let shape = Shape { queries: 70, keys: 70, ..PLAIN.shape };
            Case { shape, window: Some(window), sinks, ..PLAIN }.hold(kind);
        }
    }
}

#[test]
fn several_tasks_per_head() {
    for (window, sinks) in [(None, 0), (Some(20), 0), (Some(20), 3), (Some(150), 7)] {
        let shape =
            Shape { batch: 1, heads: 2, key_heads: 1, queries: 300, keys: 310, head_dim: 4, value_dim: 4 };
        Case { shape, offset: 7, window, sinks, ..PLAIN }.hold(Kind::ByDistance);
    }
}

#[test]
fn every_bias_with_an_offset_and_a_query_scale() {
    for kind in KINDS {
        for (rows, window) in [(1, None), (2, Some(9))] {
            let shape = Shape { queries: 19, keys: 60, ..PLAIN.shape };
            Case { shape, offset: 41, window, sinks: 4, scaled: Some(rows), ..PLAIN }.hold(kind);
        }
    }
}

#[test]
fn one_query() {
    for kind in KINDS {
        let shape = Shape { queries: 1, keys: 1, ..PLAIN.shape };
        Case { shape, ..PLAIN }.hold(kind);
        let shape = Shape { queries: 1, keys: 50, ..PLAIN.shape };
        Case { shape, offset: 49, ..PLAIN }.hold(kind);
    }
}

#[test]
fn every_bias_with_two_rotations() {
    for kind in KINDS {
        for near in [0, 1, 9, 36, 37, 1000, usize::MAX] {
            Case { near: Some(near), ..PLAIN }.hold(kind);
        }
    }
}

#[test]
fn two_rotations_with_unequal_heads_and_odd_sizes() {
    for (kind, near) in KINDS.into_iter().zip([1, 31, 9, 33, 45, 76]) {
        // Slopes of few rows: far along, their gradient in the reference is off by more than what is allowed here.
        let rows = if matches!(kind, Kind::Slopes) { 21 } else { 77 };
        let shape =
            Shape { batch: 2, heads: 6, key_heads: 2, queries: rows, keys: rows, head_dim: 5, value_dim: 7 };
        Case { shape, near: Some(near), ..PLAIN }.hold(kind);
    }
}

/// Borders of the two rotations before, at and past that of the window, and among the sinks.
#[test]
fn two_rotations_with_window_and_sinks() {
    let shape = Shape { batch: 1, queries: 70, keys: 70, ..PLAIN.shape };
    for (kind, near) in KINDS.into_iter().zip([1, 3, 20, 21, 40, 68]) {
        for (window, sinks) in [(1, 0), (20, 0), (20, 3), (40, 30), (1000, 1)] {
            Case { shape, window: Some(window), sinks, near: Some(near), ..PLAIN }.hold(kind);
        }
    }
}

#[test]
fn two_rotations_with_an_offset_and_a_query_scale() {
    for kind in KINDS {
        for (rows, window, near) in [(1, None, 7), (2, Some(30), 12), (2, Some(9), 50)] {
            let shape = Shape { queries: 19, keys: 60, ..PLAIN.shape };
            let case = Case { shape, offset: 41, window, sinks: 4, scaled: Some(rows), near: Some(near) };
            case.hold(kind);
        }
    }
}

#[test]
fn two_rotations_in_several_tasks_per_head() {
    for (window, sinks, near) in [(None, 0, 100), (Some(150), 7, 40), (None, 0, 3)] {
        let shape =
            Shape { batch: 1, heads: 2, key_heads: 1, queries: 300, keys: 310, head_dim: 4, value_dim: 4 };
        Case { shape, offset: 7, window, sinks, near: Some(near), ..PLAIN }.hold(Kind::ByDistance);
    }
}

#[test]
fn one_query_with_two_rotations() {
    for (keys, near) in [(1, 0), (1, 1), (50, 1), (50, 20), (50, 49), (50, 50)] {
        let shape = Shape { queries: 1, keys, ..PLAIN.shape };
        Case { shape, offset: keys - 1, near: Some(near), ..PLAIN }.hold(Kind::Slopes);
    }
}

/// The same q and k twice are plain attention, wherever the border lies.
#[test]
fn two_equal_rotations_are_one() {
    let case = Case { shape: Shape { queries: 600, keys: 600, ..PLAIN.shape }, ..PLAIN };
    let inputs: Vec<Tensor<1>> =
        case.inputs(Kind::None).into_iter().map(|x| crate::testing::flat(x, &Device::flex())).collect();
    let (q, k, v, options) = case.call(Kind::None, &inputs);
    let plain = list(attention(q.clone(), k.clone(), v.clone(), &options));
    for near in [0, 1, 100, 599, 600] {
        let far = Some(Far { q: q.clone(), k: k.clone(), near });
        let twice = attention(q.clone(), k.clone(), v.clone(), &Attention { far, ..options.clone() });
        assert_close(&format!("near {near}"), &list(twice), &plain, 1e-6);
    }
}

#[test]
fn keys_after_the_last_query_get_no_gradient() {
    let shape = Shape { queries: 3, keys: 9, ..PLAIN.shape };
    let case = Case { shape, offset: 2, ..PLAIN };
    case.hold(Kind::None);
    let (_, gradients) = differentiate(&Device::flex(), &case.inputs(Kind::None), |inputs| {
        let (q, k, v, options) = case.call(Kind::None, inputs);
        attention(q, k, v, &options)
    });
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
    assert_close("fused", &fused, &list(reference::attention(q, k, v, &options, &shape)), 2e-3);
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
    let blocks = list(reference::attention(q.clone(), k.clone(), v.clone(), &options, &shape));
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
    for near in [None, Some(9)] {
        let case = Case { near, ..PLAIN };
        let mut inputs = case.inputs(Kind::Block);
        for (_, x) in inputs[3].iter_mut().enumerate().filter(|(index, _)| hidden(*index)) {
            *x = f32::NEG_INFINITY;
        }
        let (output, gradients) = differentiate(device, &inputs, |inputs| {
            let (q, k, v, options) = case.call(Kind::Block, inputs);
            attention(q, k, v, &options)
        });
        let (expected, expected_gradients) = differentiate(device, &inputs, |inputs| {
            let (q, k, v, options) = case.call(Kind::Block, inputs);
            reference::attention(q, k, v, &options, &case.shape)
        });
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
    let (output, gradients) = differentiate(&Device::flex(), &inputs, |inputs| {
        let (q, k, v, options) = case.call(Kind::SharedBlock, inputs);
        attention(q, k, v, &options)
    });
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
        let plain = reference::attention(q.clone(), k.clone(), v.clone(), &options, &shape);
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
        let case = Case { shape, near: Some(40), ..PLAIN };
        pool.install(|| {
            differentiate(&Device::flex(), &case.inputs(Kind::ByDistance), |inputs| {
                let (q, k, v, options) = case.call(Kind::ByDistance, inputs);
                attention(q, k, v, &options)
            })
        })
    };
    assert_eq!(run(1), run(3));
}

#[test]
#[should_panic(expected = "attention: the far k")]
fn far_keys_of_other_shapes_are_rejected() {
    let case = Case { near: Some(3), ..PLAIN };
    let inputs: Vec<Tensor<1>> =
        case.inputs(Kind::None).into_iter().map(|x| crate::testing::flat(x, &Device::flex())).collect();
    let (q, k, v, mut options) = case.call(Kind::None, &inputs);
    let far = options.far.take().unwrap();
    options.far = Some(Far { k: far.k.slice_dim(2, 0..36), ..far });
    attention(q, k, v, &options);
}

#[test]
#[should_panic(expected = "a bias table [2, 36] for 2 heads and 37 distances")]
fn a_short_table_is_rejected() {
    let case = PLAIN;
    let inputs: Vec<Tensor<1>> =
        case.inputs(Kind::None).into_iter().map(|x| crate::testing::flat(x, &Device::flex())).collect();
    let (q, k, v, mut options) = case.call(Kind::None, &inputs);
    options.bias = Bias::ByDistance(tensor(1, [2, 36], &Device::flex()));
    attention(q, k, v, &options);
}
