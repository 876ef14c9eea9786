use super::*;
use crate::testing::{assert_close, differentiate, hold_against, list, numbers, tensor};
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
        };
        // q, k and v arrive with heads and rows exchanged, so that they do not lie contiguously.
        (
            input(0).reshape([batch, queries, heads, head_dim]).swap_dims(1, 2),
            input(1).reshape([batch, keys, key_heads, head_dim]).swap_dims(1, 2),
            input(2).reshape([batch, key_heads, value_dim, keys]).swap_dims(2, 3),
            options,
        )
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
        hold_against(&format!("{self:?} {kind:?}"), &self.inputs(kind), fused, reference);
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
            Case { shape, offset: 41, window, sinks: 4, scaled: Some(rows) }.hold(kind);
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
fn threads_change_no_bit() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let case = Case { shape: Shape { queries: 90, keys: 90, ..PLAIN.shape }, ..PLAIN };
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
#[should_panic(expected = "a bias table [2, 36] for 2 heads and 37 distances")]
fn a_short_table_is_refused() {
    let case = PLAIN;
    let inputs: Vec<Tensor<1>> =
        case.inputs(Kind::None).into_iter().map(|x| crate::testing::flat(x, &Device::flex())).collect();
    let (q, k, v, mut options) = case.call(Kind::None, &inputs);
    options.bias = Bias::ByDistance(tensor(1, [2, 36], &Device::flex()));
    attention(q, k, v, &options);
}
