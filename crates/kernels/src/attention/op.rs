//! Attention as a fused operation.

use super::cpu::{self, Call, INPUTS};
#[cfg(feature = "gpu")]
use super::gpu;
use super::merge::merge;
use super::options::Attention;
use super::reference;
use super::spec::{MOST_RANGES, PartialAttention, QkRange, Shape};
use crate::op::Input;
use crate::op::prelude::*;
use burn::tensor::Tensor;
use std::ops::Range;
use std::sync::Arc;

/// Causal attention: `softmax(scale * query_scale * q·k + bias) v` over the visible keys, or with another normaliser in its place.
///
/// q `[batch, heads, queries, head_dim]`, k `[batch, key_heads, keys, head_dim]`, v
/// `[batch, key_heads, keys, value_dim]` -> `[batch, heads, queries, value_dim]`; `key_heads` divides
/// `heads`, and query head h reads key head `h / (heads / key_heads)`. The softmax is in f32. A row that sees no key,
/// since all its logits are minus infinity, gives zeros and takes part in no gradient.
///
/// The fused form keeps nothing of size queries x keys: it works on blocks of queries, and its
/// gradient recomputes the probabilities from one number per query row.
///
/// # Panics
/// The shapes do not agree, a query is past the last key, a distance is past the end of the bias table, or the
/// window is 0. No config leads there: a model's queries are rows of its keys, a window of 0 is an error when a config
/// is read, and encodings make their tables for the positions at hand.
pub fn attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, options: &Attention) -> Tensor<4> {
    let shape = Shape::of(&q, &k, &v);
    options.check(&shape);
    alone(q, k, v, options, shape, false).output
}

/// [`attention`] with the log of each row's sum of exp(logits), which has a gradient too.
///
/// # Panics
/// As [`attention`], or the normaliser is not the softmax.
pub fn partial_attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, options: &Attention) -> PartialAttention {
    let shape = Shape::of(&q, &k, &v);
    options.check(&shape);
    assert!(options.normaliser.is_softmax(), "attention: parts of {:?}", options.normaliser);
    alone(q, k, v, options, shape, true)
}

/// Attention to one range of distances.
fn alone(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    options: &Attention,
    shape: Shape,
    partial: bool,
) -> PartialAttention {
    let distances = options.distances.clone();
    let op = Attend { options: options.clone(), ranges: vec![distances.clone()], shape, partial };
    op.run(vec![QkRange { q, k, distances }], v)
}

/// Attention to all ranges, in place of the distances of the options. Whether its log sums are read says `partial`.
#[derive(Clone)]
pub(super) struct Attend {
    pub(super) options: Attention,
    pub(super) ranges: Vec<Range<usize>>,
    pub(super) shape: Shape,
    pub(super) partial: bool,
}

impl Attend {
    pub(super) fn run(self, ranges: Vec<QkRange<Tensor<4>>>, v: Tensor<4>) -> PartialAttention {
        assert!(ranges.len() <= MOST_RANGES, "attention: {} ranges of distances", ranges.len());
        let mut qk = ranges.into_iter().flat_map(|range| [range.q, range.k]).map(Any::from);
        let mut of_terms = self.options.score_terms().into_iter().flat_map(|term| term.inputs());
        let inputs = std::array::from_fn(|index| match index {
            _ if index < 2 * MOST_RANGES => Input::from(qk.next()),
            _ if index == 2 * MOST_RANGES => v.clone().into(),
            _ => of_terms.next().into(),
        });
        assert!(of_terms.next().is_none(), "attention: too many terms");
        let [output, log_sums] = run(self, inputs);
        PartialAttention { output: output.tensor(), log_sums: log_sums.tensor() }
    }
}

impl Op<INPUTS, 2> for Attend {
    const NAME: &'static str = "attention";
    const TAKES_EMPTY: bool = true;
    const ON_GPU: bool = true;

    fn constants(&self) -> Vec<Any> {
        self.options.query_scale.iter().cloned().map(Any::from).collect()
    }

    fn reference(self, [q, k, other_q, other_k, v, ..]: [Any; INPUTS]) -> [Any; 2] {
        let Self { options, ranges, shape, partial } = self;
        let v = v.tensor();
        if let [distances, other] = &ranges[..]
            && options.normaliser.is_softmax()
        {
            let part = |q: Any, k: Any, distances: &Range<usize>| {
                let options = Attention { distances: distances.clone(), ..options.clone() };
                partial_attention(q.tensor(), k.tensor(), v.clone(), &options)
            };
            let PartialAttention { output, log_sums } =
                merge(part(q, k, distances), part(other_q, other_k, other));
            return [output.into(), log_sums.into()];
        }
        let qkv = [q.tensor(), k.tensor(), v];
        if let [distances, other] = &ranges[..] {
            let of = |distances: &Range<usize>| Attention { distances: distances.clone(), ..options.clone() };
            let far = [other_q.tensor(), other_k.tensor()];
            let output = Any::from(reference::attention_in_two(qkv, far, [of(distances), of(other)], &shape));
            return [output.clone(), output];
        }
        let options = Attention { distances: ranges[0].clone(), ..options };
        // Nobody asks another normaliser for log sums, but two pairs of q and k of which one is out of reach are partial too.
        if partial && options.normaliser.is_softmax() {
            let PartialAttention { output, log_sums } = reference::partial_attention(qkv, &options, &shape);
            return [output.into(), log_sums.into()];
        }
        let output = Any::from(reference::attention(qkv, &options, &shape));
        // Nobody reads the log sums.
        [output.clone(), output]
    }

    fn cpu(
        self,
        inputs: [FlexTensor; INPUTS],
        _: [bool; INPUTS],
    ) -> ([FlexTensor; 2], impl Gradient<Flex, INPUTS, 2>) {
        let call = Arc::new(Call::new(inputs, self.ranges, &self.options, self.shape));
        let outputs = cpu::forward(&call);
        let log_sums = outputs[1].clone();
        (outputs, move |gradients, wanted| cpu::backward(&call, gradients, &log_sums, &wanted))
    }

    #[cfg(feature = "gpu")]
    fn suits_gpu(&self, [q, ..]: &[Any; INPUTS]) -> bool {
        self.ranges.len() == 1
            && self.options.suits_gpu()
            && gpu::supports(q, &self.shape, self.options.precision).is_some()
    }

    #[cfg(feature = "gpu")]
    fn gpu(
        self,
        [q, k, _, _, v, first_bias, second_bias, ..]: [Primitive; INPUTS],
        _: [bool; INPUTS],
    ) -> ([Primitive; 2], impl Gradient<Cube, INPUTS, 2>) {
        let tiles = gpu::supports(&Any::of_gpu(q.clone()), &self.shape, self.options.precision);
        let [distances] = <[_; 1]>::try_from(self.ranges).expect("one range on the GPU");
        let options = Attention { distances, ..self.options };
        let tiles = tiles.expect("the device has tiles for it");
        let (outputs, kept) = gpu::forward([q, k, v], [first_bias, second_bias], options, self.shape, tiles);
        (outputs, move |gradients, wanted| {
            let [q, k, v, first, second] = kept.gradients(gradients, wanted[5] || wanted[6]).map(Some);
            [q, k, None, None, v, first, second, None, None, None, None, None]
        })
    }
}
