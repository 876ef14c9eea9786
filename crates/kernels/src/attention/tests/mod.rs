//! Attention against its reference: the cases, and what runs them.

mod biases;
mod counted;
mod cut;
mod distances;
mod gated_slopes;
mod network;
mod normalisers;
mod relative;
mod rounded;

use super::spec::Shape;
use super::*;
use crate::Precision;
use crate::attention::terms::Terms;
use crate::testing::{
    ROUNDING, assert_alike, assert_close, assert_fused_on, assert_matches_reference_on,
    assert_threads_change_no_bit, bits, by_reference, differentiate, differentiate_in, flat, list, numbers,
    on_threads, padded, tensor,
};
use burn::tensor::{DType, Device, Tensor};
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

/// What every bias, border and term is tried at, with the kinds of bias that it is for; terms take the first of them.
fn cases() -> Vec<(Case, Vec<BiasKind>)> {
    let from = |first: BiasKind| {
        let mut kinds = BIAS_KINDS.to_vec();
        kinds.sort_by_key(|kind| *kind != first);
        kinds
    };
    let unequal = |rows| {
        let shape =
            Shape { batch: 2, heads: 6, key_heads: 2, queries: rows, keys: rows, head_dim: 5, value_dim: 7 };
        Case { shape, ..PLAIN }
    };
    // As a cache and a memory read: the queries are the last rows.
    let last = |queries, keys| Case {
        shape: Shape { queries, keys, ..PLAIN.shape },
        offset: keys - queries,
        ..PLAIN
    };
    let masked = [(1, 0), (5, 0), (5, 3), (20, 0), (20, 3), (33, 0), (40, 30), (1000, 1)];
    let masked = masked.map(|(window, sinks)| {
        let shape = Shape { batch: 1, queries: 70, keys: 70, ..PLAIN.shape };
        (Case { shape, window: Some(window), sinks, ..PLAIN }, from(BiasKind::ByDistance))
    });
    // Several tasks per head.
    let long =
        Shape { batch: 1, key_heads: 1, queries: 300, keys: 310, head_dim: 4, value_dim: 4, ..PLAIN.shape };
    let several = [(None, 0), (Some(20), 0), (Some(20), 3), (Some(150), 7)].map(|(window, sinks)| {
        let kinds = vec![BiasKind::None, BiasKind::ByDistance, BiasKind::Pair];
        (Case { shape: long, offset: 7, window, sinks, ..PLAIN }, kinds)
    });
    // So many that all of them share the transposed keys.
    let many = Case { shape: Shape { queries: 530, keys: 530, ..long }, ..PLAIN };
    let others = [
        (PLAIN, from(BiasKind::None)),
        (unequal(53), from(BiasKind::None)),
        (last(1, 1), from(BiasKind::None)),
        (last(1, 50), from(BiasKind::None)),
        (Case { sinks: 4, scaled: Some(1), ..last(19, 60) }, from(BiasKind::Slopes)),
        (Case { window: Some(9), sinks: 4, scaled: Some(2), ..last(19, 60) }, from(BiasKind::Slopes)),
        (many, vec![BiasKind::None, BiasKind::ByDistance]),
    ];
    others.into_iter().chain(masked).chain(several).collect()
}

/// Those with few rows.
fn short_cases() -> impl Iterator<Item = (Case, BiasKind)> {
    cases().into_iter().filter(|(case, _)| case.shape.keys <= 70).map(|(case, kinds)| (case, kinds[0]))
}

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
        let mut inputs: Vec<_> = sizes.into_iter().zip(1..).map(|(size, seed)| numbers(seed, size)).collect();
        if kind == BiasKind::Slopes {
            // As those of ALiBi: logits of hundreds would be rounded by more than is allowed.
            inputs[3].iter_mut().for_each(|slope| *slope *= 0.125);
        }
        inputs
    }

    /// The inputs on the CPU.
    pub(super) fn tensors(&self, kind: BiasKind) -> Vec<Tensor<1>> {
        self.inputs(kind).into_iter().map(|x| flat(x, &Device::flex())).collect()
    }

    /// A table as short as it may be.
    pub(super) fn distances(&self) -> usize {
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
        let dtype = input(0).dtype();
        let scale =
            self.scaled.map(|rows| self.lay(tensor(5, [rows, queries], &device).add_scalar(1.5).cast(dtype)));
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
        assert_fused_on(device, &format!("{self:?} {kind:?}"), &self.inputs(kind), |x| self.fused(kind, x));
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

    #[track_caller]
    fn check(&self, what: &str) {
        let what = format!("{:?} {:?} {what}", self.case, self.kind);
        assert_fused_on(&Device::flex(), &what, &self.inputs(), |x| self.fused(x));
    }

    /// As far as can be said where there are kinks.
    #[track_caller]
    fn check_with_kinks(&self, what: &str) {
        let what = format!("{:?} {:?} {what}", self.case, self.kind);
        let fused = |x: &[Tensor<1>]| self.fused(x);
        let reference = |x: &[Tensor<1>]| by_reference(|| self.fused(x));
        assert_matches_reference_on(&Device::flex(), &what, &self.inputs(), fused, reference);
    }

    /// One range of distances, output and log sums, against the reference.
    #[track_caller]
    fn check_range(&self, device: &Device, distances: Range<usize>) {
        let what = format!("{:?} {:?} {distances:?}", self.case, self.kind);
        assert_fused_on(device, &what, &self.inputs(), |x| {
            let ([q, k, v], options) = self.call(x);
            flat_part(partial_attention(q, k, v, &Attention { distances: distances.clone(), ..options }))
        });
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
