//! Attention as a fused operation.

use super::backward::backward;
use super::call::Call;
#[cfg(feature = "gpu")]
use super::gpu;
use super::gradient::Rows;
use super::{
    Attention, Bias, MOST_RANGES, PartialAttention, QkRange, Shape, cpu, merge, partial_attention, reference,
};
use crate::op::Input;
use crate::op::prelude::*;
use burn::tensor::Tensor;
use std::ops::Range;

/// What a call is differentiated by: q and k of two ranges of distances, v, two tensors of a bias, four of vectors by distance
/// and one of vectors by count.
pub(super) const INPUTS: usize = 12;

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
        let [first_bias, second_bias] = self.options.bias.inputs();
        let [keys, key_bias, queries, values] = self.options.relative.inputs();
        let counted = self.options.counted.as_ref().map(|counted| counted.vectors.clone());
        let mut qk = ranges.into_iter().flat_map(|range| [range.q, range.k]);
        let mut next = || Input::from(qk.next());
        let [q, k, far_q, far_k] = [next(), next(), next(), next()];
        let inputs = [
            q,
            k,
            far_q,
            far_k,
            v.into(),
            first_bias,
            second_bias,
            keys,
            key_bias,
            queries,
            values,
            counted.into(),
        ];
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
        if partial {
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
        let call = Call::new(inputs, self.ranges, &self.options, self.shape);
        let [output, log_sums] = cpu::forward(&call);
        let kept = log_sums.clone();
        ([output, log_sums], move |[output, log_sums], wanted| {
            let bias_wanted = wanted[5] || wanted[6];
            Rows::with(&call, &kept, output, log_sums, |rows| backward(&call, rows, bias_wanted))
        })
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
        let (outputs, kept) = gpu::forward([q, k, v], [first_bias, second_bias], &options, self.shape, tiles);
        (outputs, move |gradients, wanted| {
            let [q, k, v, first, second] = kept.gradients(gradients, wanted[5] || wanted[6]).map(Some);
            [q, k, None, None, v, first, second, None, None, None, None, None]
        })
    }
}

impl Bias {
    /// Its tensors.
    pub(super) fn inputs(&self) -> [Input; 2] {
        let (first, second): (Option<Any>, Option<Tensor<3>>) = match self.clone() {
            Self::None => (None, None),
            Self::ByDistance(table) => (Some(table.into()), None),
            Self::Slopes(slopes) => (Some(slopes.into()), None),
            Self::Pair { query, key } => (Some(query.into()), Some(key)),
            Self::Block(block) => (Some(block.into()), None),
        };
        [first.into(), second.into()]
    }
}
