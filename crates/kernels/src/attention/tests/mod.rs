//! Attention against its reference: the cases, and what runs them.

mod biases;
mod counted;
mod cut;
mod distances;
mod edges;
mod gated_slopes;
mod network;
mod normalisers;
mod relative;
mod rounded;

#[cfg(feature = "gpu")]
pub(in crate::attention) use edges::{distances_without_keys, rows_without_keys};

use super::spec::Shape;
use super::*;
use crate::Precision;
use crate::attention::normaliser::softmax::plain as plain_softmax;
use crate::testing::{
    assert_close, assert_matches, assert_matches_reference_on, by_reference, differentiate, flat, list,
    numbers, tensor,
};
use burn::tensor::{Device, Tensor};
use std::ops::Range;
use std::sync::Arc;

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
enum BiasKind {
    None,
    ByDistance,
    Slopes,
    Pair,
    Block,
    SharedBlock,
}

const BIAS_KINDS: [BiasKind; 6] = [
    BiasKind::None,
    BiasKind::ByDistance,
    BiasKind::Slopes,
    BiasKind::Pair,
    BiasKind::Block,
    BiasKind::SharedBlock,
];

const PLAIN: Case = Case {
    shape: Shape { batch: 2, heads: 2, key_heads: 2, queries: 37, keys: 37, head_dim: 8, value_dim: 8 },
    offset: 0,
    window: None,
    sinks: 0,
    scaled: None,
    border: None,
};

impl Case {
    fn inputs(&self, kind: BiasKind) -> Vec<Vec<f32>> {
        let Shape { batch, heads, key_heads, queries, keys, head_dim, value_dim } = self.shape;
        let mut sizes = vec![
            batch * heads * queries * head_dim,
            batch * key_heads * keys * head_dim,
            batch * key_heads * keys * value_dim,
        ];
        match kind {
            BiasKind::None => {}
            BiasKind::ByDistance => sizes.push(heads * self.distances()),
            BiasKind::Slopes => sizes.push(heads),
            BiasKind::Pair => sizes.extend([batch * heads * queries, batch * heads * keys]),
            BiasKind::Block => sizes.push(batch * heads * queries * keys),
            BiasKind::SharedBlock => sizes.push(heads * queries * keys),
        }
        if self.border.is_some() {
            sizes.extend([sizes[0], sizes[1]]);
        }
        sizes.into_iter().zip(1..).map(|(size, seed)| numbers(seed, size)).collect()
    }

    /// The inputs on the CPU.
    fn tensors(&self, kind: BiasKind) -> Vec<Tensor<1>> {
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

    fn call(&self, kind: BiasKind, inputs: &[Tensor<1>]) -> ([Tensor<4>; 3], Attention) {
        let Shape { batch, heads, key_heads, queries, keys, value_dim, .. } = self.shape;
        let input = |index: usize| inputs[index].clone();
        let bias = match kind {
            BiasKind::None => Bias::None,
            BiasKind::ByDistance => Bias::ByDistance(input(3).reshape([heads, self.distances()])),
            BiasKind::Slopes => Bias::Slopes(input(3)),
            BiasKind::Pair => Bias::Pair {
                query: input(3).reshape([batch, heads, queries]),
                key: input(4).reshape([batch, heads, keys]),
            },
            BiasKind::Block => Bias::Block(input(3).reshape([batch, heads, queries, keys])),
            BiasKind::SharedBlock => Bias::Block(input(3).reshape([1, heads, queries, keys])),
        };
        let scale = self.scaled.map(|rows| tensor(5, [rows, queries], &Device::flex()).add_scalar(1.5));
        let options = Attention {
            normaliser: Arc::new(Softmax),
            scale: 0.7,
            bias,
            terms: Terms::default(),
            window: self.window,
            sinks: self.sinks,
            query_scale: scale,
            query_offset: self.offset,
            distances: 0..usize::MAX,
            precision: Precision::F32,
        };
        // v arrives with rows and channels swapped, so that it is not contiguous.
        let v = input(2).reshape([batch, key_heads, value_dim, keys]).swap_dims(2, 3);
        let [q, k] = self.query_and_key([input(0), input(1)]);
        ([q, k, v], options)
    }

    /// q and k with heads and rows swapped, so that they are not contiguous.
    fn query_and_key(&self, [q, k]: [Tensor<1>; 2]) -> [Tensor<4>; 2] {
        let Shape { batch, heads, key_heads, queries, keys, head_dim, .. } = self.shape;
        [(q, queries, heads), (k, keys, key_heads)]
            .map(|(x, rows, heads)| x.reshape([batch, rows, heads, head_dim]).swap_dims(1, 2))
    }

    fn fused(&self, kind: BiasKind, inputs: &[Tensor<1>]) -> Tensor<4> {
        let ([q, k, v], options) = self.call(kind, inputs);
        let Some(border) = self.border else { return attention(q, k, v, &options) };
        attention_by_distance([q, k], self.far(inputs), v, border, &options)
    }

    fn reference(&self, kind: BiasKind, inputs: &[Tensor<1>]) -> Tensor<4> {
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
    fn check(&self, kind: BiasKind) {
        let what = format!("{self:?} {kind:?}");
        assert_matches(&what, &self.inputs(kind), |x| self.fused(kind, x), |x| self.reference(kind, x));
    }

    /// One range of distances, output and log sums, against the reference.
    #[track_caller]
    fn check_range(&self, kind: BiasKind, distances: Range<usize>) {
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
