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
use crate::attention::terms::Terms;
use crate::testing::{
    ROUNDING, assert_alike, assert_close, assert_matches, assert_matches_on, assert_matches_reference_on,
    assert_threads_change_no_bit, bits, by_reference, differentiate, flat, list, numbers, on_threads, padded,
    tensor,
};
use burn::tensor::{Device, Tensor};
use std::ops::Range;
use std::sync::Arc;

/// The sizes and settings of one test.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) shape: Shape,
    pub(super) offset: usize,
    pub(super) window: Option<usize>,
    pub(super) sinks: usize,
    /// Rows of the query scale.
    pub(super) scaled: Option<usize>,
    /// The first distance that is read with a second q and k.
    pub(super) border: Option<usize>,
    pub(super) lie: Lie,
    pub(super) precision: Precision,
}

/// How inputs lie: q and k always with heads and rows swapped, so that they are not contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "gpu"), allow(dead_code, reason = "the CPU's tests turn v"))]
pub(super) enum Lie {
    /// v with rows and channels swapped.
    Turned,
    /// v as it is.
    Plain,
    /// Everything in rows that lie apart.
    Apart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BiasKind {
    None,
    ByDistance,
    Slopes,
    Pair,
    Block,
    SharedBlock,
}

pub(super) const BIAS_KINDS: [BiasKind; 6] = [
    BiasKind::None,
    BiasKind::ByDistance,
    BiasKind::Slopes,
    BiasKind::Pair,
    BiasKind::Block,
    BiasKind::SharedBlock,
];

pub(super) const PLAIN: Case = Case {
    shape: Shape { batch: 2, heads: 2, key_heads: 2, queries: 37, keys: 37, head_dim: 8, value_dim: 8 },
    offset: 0,
    window: None,
    sinks: 0,
    scaled: None,
    border: None,
    lie: Lie::Turned,
    precision: Precision::F32,
};

impl Case {
    pub(super) fn inputs(&self, kind: BiasKind) -> Vec<Vec<f32>> {
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
    pub(super) fn tensors(&self, kind: BiasKind) -> Vec<Tensor<1>> {
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

    pub(super) fn call(&self, kind: BiasKind, inputs: &[Tensor<1>]) -> ([Tensor<4>; 3], Attention) {
        let Shape { batch, heads, key_heads, queries, keys, value_dim, .. } = self.shape;
        let input = |index: usize| inputs[index].clone();
        let device = input(0).without_autodiff().device();
        let bias = match kind {
            BiasKind::None => Bias::None,
            BiasKind::ByDistance => Bias::ByDistance(self.lay(input(3).reshape([heads, self.distances()]))),
            BiasKind::Slopes => Bias::Slopes(self.lay(input(3))),
            BiasKind::Pair => Bias::Pair {
                query: self.lay(input(3).reshape([batch, heads, queries])),
                key: self.lay(input(4).reshape([batch, heads, keys])),
            },
            BiasKind::Block => Bias::Block(self.lay(input(3).reshape([batch, heads, queries, keys]))),
            BiasKind::SharedBlock => Bias::Block(self.lay(input(3).reshape([1, heads, queries, keys]))),
        };
        let scale = self.scaled.map(|rows| self.lay(tensor(5, [rows, queries], &device).add_scalar(1.5)));
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
            precision: self.precision,
        };
        let v = match self.lie {
            Lie::Turned => input(2).reshape([batch, key_heads, value_dim, keys]).swap_dims(2, 3),
            _ => self.lay(input(2).reshape([batch, key_heads, keys, value_dim])),
        };
        let [q, k] = self.query_and_key([input(0), input(1)]);
        ([q, k, v], options)
    }

    fn lay<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        if self.lie == Lie::Apart { padded(x) } else { x }
    }

    fn query_and_key(&self, [q, k]: [Tensor<1>; 2]) -> [Tensor<4>; 2] {
        let Shape { batch, heads, key_heads, queries, keys, head_dim, .. } = self.shape;
        [(q, queries, heads), (k, keys, key_heads)]
            .map(|(x, rows, heads)| self.lay(x.reshape([batch, rows, heads, head_dim])).swap_dims(1, 2))
    }

    pub(super) fn fused(&self, kind: BiasKind, inputs: &[Tensor<1>]) -> Tensor<4> {
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
    pub(super) fn far(&self, inputs: &[Tensor<1>]) -> [Tensor<4>; 2] {
        let [.., q, k] = inputs else { panic!("the inputs of a case with a border") };
        self.query_and_key([q.clone(), k.clone()])
    }

    #[track_caller]
    fn check(&self, kind: BiasKind) {
        self.check_on(&Device::flex(), kind);
    }

    #[track_caller]
    pub(super) fn check_on(&self, device: &Device, kind: BiasKind) {
        let (fused, reference) =
            (|x: &[Tensor<1>]| self.fused(kind, x), |x: &[Tensor<1>]| self.reference(kind, x));
        assert_matches_on(device, &format!("{self:?} {kind:?}"), &self.inputs(kind), fused, reference);
    }

    /// One range of distances, output and log sums, against the reference.
    #[track_caller]
    pub(super) fn check_range(&self, device: &Device, kind: BiasKind, distances: Range<usize>) {
        self.beside(kind, Vec::new(), |_| Terms::default()).check_range(device, distances);
    }

    /// The same beside terms that are made of further inputs.
    fn beside(
        &self,
        kind: BiasKind,
        own: Vec<Vec<f32>>,
        terms: impl Fn(&[Tensor<1>]) -> Terms + Sync + 'static,
    ) -> Beside {
        Beside { case: *self, kind, own, terms: Box::new(terms) }
    }
}

/// From further inputs to terms.
type MakeTerms = Box<dyn Fn(&[Tensor<1>]) -> Terms + Sync>;

/// A case beside terms.
struct Beside {
    case: Case,
    kind: BiasKind,
    /// What the terms are made of.
    own: Vec<Vec<f32>>,
    terms: MakeTerms,
}

impl Beside {
    fn inputs(&self) -> Vec<Vec<f32>> {
        self.case.inputs(self.kind).into_iter().chain(self.own.clone()).collect()
    }

    fn call(&self, inputs: &[Tensor<1>]) -> ([Tensor<4>; 3], Attention) {
        let (qkv, options) = self.case.call(self.kind, inputs);
        (qkv, Attention { terms: (self.terms)(&inputs[inputs.len() - self.own.len()..]), ..options })
    }

    fn fused(&self, inputs: &[Tensor<1>]) -> Tensor<4> {
        let ([q, k, v], options) = self.call(inputs);
        attention(q, k, v, &options)
    }

    fn reference(&self, inputs: &[Tensor<1>]) -> Tensor<4> {
        let (qkv, options) = self.call(inputs);
        reference::attention(qkv, &options, &self.case.shape)
    }

    #[track_caller]
    fn check(&self, what: &str) {
        let what = format!("{:?} {:?} {what}", self.case, self.kind);
        assert_matches(&what, &self.inputs(), |x| self.fused(x), |x| self.reference(x));
    }

    /// As far as can be said where there are kinks.
    #[track_caller]
    fn check_with_kinks(&self, what: &str) {
        let what = format!("{:?} {:?} {what}", self.case, self.kind);
        let (fused, reference) = (|x: &[Tensor<1>]| self.fused(x), |x: &[Tensor<1>]| self.reference(x));
        assert_matches_reference_on(&Device::flex(), &what, &self.inputs(), fused, reference);
    }

    /// One range of distances, output and log sums, against the reference.
    #[track_caller]
    fn check_range(&self, device: &Device, distances: Range<usize>) {
        let read = |inputs: &[Tensor<1>], read: &dyn Fn([Tensor<4>; 3], &Attention) -> PartialAttention| {
            let (qkv, options) = self.call(inputs);
            flat_part(read(qkv, &Attention { distances: distances.clone(), ..options }))
        };
        assert_matches_on(
            device,
            &format!("{:?} {:?} {distances:?}", self.case, self.kind),
            &self.inputs(),
            |x| read(x, &|[q, k, v], options| partial_attention(q, k, v, options)),
            |x| read(x, &|qkv, options| reference::partial_attention(qkv, options, &self.case.shape)),
        );
    }

    #[track_caller]
    fn check_threads(&self) {
        assert_threads_change_no_bit(&format!("{:?}", self.case), &self.inputs(), |x| self.fused(x));
    }
}

/// Output and log sums side by side. Log sums of rows that see no key are cut off, to numbers of usual size.
pub(super) fn flat_part(part: PartialAttention) -> Tensor<1> {
    let log_sums = part.log_sums.clamp_min(-50.0);
    Tensor::cat(vec![part.output.flatten::<1>(0, 3), log_sums.flatten::<1>(0, 2)], 0)
}

/// Two rotations as they were published: the scores of both in full, a choice by distance, and one softmax.
pub(super) fn two_rotations(
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
