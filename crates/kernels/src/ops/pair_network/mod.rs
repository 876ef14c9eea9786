//! A small network of all heads' scores and biases of a query and a key (DAPE).
//!
//! With A the scores and B the biases of a pair, one number of each for every head,
//! `A + B + leaky_relu([A; B] w1 + b1) w2 + b2`, slope 0.01 (Zheng et al. 2024, arXiv:2405.14722, section 3). Keys ahead of
//! their query are hidden from it: they get 0 here, and no gradient.
//!
//! **Fused:** all of it. Pairs are read in tiles of 128, of as many rows as it takes, four hidden units at a time, and the
//! hidden layer is never kept: plain operations hold it for all pairs, `hidden / heads` times as many numbers as scores, and
//! several times over.
//!
//! **Kept for the backward pass:** the inputs.
//!
//! **Bytes:** for n scores at least `8 n` forward and `12 n` backward. Time goes into the arithmetic:
//! `3 heads * hidden` multiply-adds forward and 8 `heads * hidden` backward for each pair.

mod cpu;
pub(crate) mod tile;

use crate::machine::autodiff::{tensor_of, values};
use crate::op::prelude::*;
use burn::tensor::{Bool, Tensor, TensorData, activation::leaky_relu};

/// The weights of [`pair_network`].
#[derive(Clone, Debug)]
pub struct PairNetwork {
    /// `[2 heads, hidden]`: the rows of scores, and those of biases.
    pub w1: Tensor<2>,
    /// `[hidden]`.
    pub b1: Tensor<1>,
    /// `[hidden, heads]`.
    pub w2: Tensor<2>,
    /// `[heads]`.
    pub b2: Tensor<1>,
}

impl PairNetwork {
    /// Panics where the weights are not those of so many heads.
    pub(crate) fn check(&self, heads: usize) {
        let [hidden] = self.b1.dims();
        assert!(
            self.w1.dims() == [2 * heads, hidden]
                && self.w2.dims() == [hidden, heads]
                && self.b2.dims() == [heads],
            "pair network: weights of other shapes"
        );
    }
}

/// The slope of negative hidden numbers.
const SLOPE: f32 = 0.01;

#[derive(Clone, Copy, Debug)]
struct Shape {
    batch: usize,
    /// Batch rows of the biases: 1 or as many.
    bias_batch: usize,
    heads: usize,
    queries: usize,
    keys: usize,
    hidden: usize,
    /// The row of the first query among the keys.
    first: usize,
}

/// Scores `[batch, heads, queries, keys]` and biases `[1 or batch, heads, queries, keys]` of the queries from row `first`
/// of the keys on -> `[batch, heads, queries, keys]`; 0 where the key lies ahead of the query.
///
/// # Panics
/// The shapes do not agree, or there are queries past the last key.
pub fn pair_network(scores: Tensor<4>, bias: Tensor<4>, network: &PairNetwork, first: usize) -> Tensor<4> {
    let [batch, heads, queries, keys] = scores.dims();
    let [bias_batch, ..] = bias.dims();
    let [_, hidden] = network.w1.dims();
    let shape = Shape { batch, bias_batch, heads, queries, keys, hidden, first };
    assert!(
        (bias_batch == 1 || bias_batch == batch) && bias.dims()[1..] == [heads, queries, keys],
        "pair network: biases {:?} for scores {:?}",
        bias.dims(),
        scores.dims()
    );
    network.check(heads);
    assert!(first + queries <= keys, "pair network: {queries} queries from {first} on, for {keys} keys");
    let PairNetwork { w1, b1, w2, b2 } = network.clone();
    let [output] = run(shape, [scores.into(), bias.into(), w1.into(), b1.into(), w2.into(), b2.into()]);
    output.tensor()
}

/// The same in plain tensor operations.
pub(crate) fn plain_pair_network(
    scores: Tensor<4>,
    bias: Tensor<4>,
    network: &PairNetwork,
    first: usize,
) -> Tensor<4> {
    let PairNetwork { w1, b1, w2, b2 } = network.clone();
    let [batch, heads, queries, keys] = scores.dims();
    let bias = bias.expand([batch, heads, queries, keys]);
    let pairs = Tensor::cat(vec![scores.clone(), bias.clone()], 1)
        .permute([0, 2, 3, 1])
        .reshape([batch * queries * keys, 2 * heads]);
    let hidden = leaky_relu(pairs.matmul(w1) + b1.unsqueeze(), f64::from(SLOPE)); // [pairs, hidden]
    let mixed = hidden.matmul(w2) + b2.unsqueeze();
    let ahead: Vec<bool> =
        (first..first + queries).flat_map(|query| (0..keys).map(move |key| key > query)).collect();
    let ahead = Tensor::<4, Bool>::from_data(TensorData::new(ahead, [1, 1, queries, keys]), &scores.device());
    let all = scores + bias + mixed.reshape([batch, queries, keys, heads]).permute([0, 3, 1, 2]);
    let shape = all.dims();
    all.mask_fill(ahead.expand(shape), 0.0)
}

impl Op<6> for Shape {
    const NAME: &'static str = "pair network";

    fn reference(self, [scores, bias, w1, b1, w2, b2]: [Any; 6]) -> [Any; 1] {
        let network = PairNetwork { w1: w1.tensor(), b1: b1.tensor(), w2: w2.tensor(), b2: b2.tensor() };
        [plain_pair_network(scores.tensor(), bias.tensor(), &network, self.first).into()]
    }

    fn cpu(self, inputs: [FlexTensor; 6], _: [bool; 6]) -> ([FlexTensor; 1], impl Gradient<Flex, 6>) {
        let Shape { batch, bias_batch, heads, queries, keys, hidden, .. } = self;
        let output = cpu::forward(&cpu::Numbers::new(&inputs), self);
        let gradient = move |output, _: [bool; 6]| {
            let cpu::Gradients { scores, bias, weights: [w1, b1, w2, b2] } =
                cpu::backward(&cpu::Numbers::new(&inputs), &values(&only(output)), self);
            let gradients = [
                tensor_of(scores, [batch, heads, queries, keys]),
                tensor_of(bias, [bias_batch, heads, queries, keys]),
                tensor_of(w1, [2 * heads, hidden]),
                tensor_of(b1, [hidden]),
                tensor_of(w2, [hidden, heads]),
                tensor_of(b2, [heads]),
            ];
            gradients.map(Some)
        };
        ([tensor_of(output, [batch, heads, queries, keys])], gradient)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        ROUNDING, assert_alike, assert_fused_on, assert_threads_change_no_bit, by_reference, differentiate,
        numbers,
    };
    use burn::tensor::Device;

    const PLAIN: Shape =
        Shape { batch: 3, bias_batch: 1, heads: 2, queries: 21, keys: 21, hidden: 5, first: 0 };

    fn inputs(shape: Shape) -> Vec<Vec<f32>> {
        let Shape { batch, bias_batch, heads, queries, keys, hidden, .. } = shape;
        let pairs = heads * queries * keys;
        let sizes = [batch * pairs, bias_batch * pairs, 2 * heads * hidden, hidden, hidden * heads, heads];
        let mut inputs: Vec<_> = sizes.into_iter().zip(1..).map(|(size, seed)| numbers(seed, size)).collect();
        // Hidden numbers of one sign each, near no kink that a central difference would step over.
        for (n, x) in inputs[3].iter_mut().enumerate() {
            *x = (0.1 * *x + 2.0 * heads as f32 + 1.0) * if n % 2 == 0 { 1.0 } else { -1.0 };
        }
        inputs
    }

    fn call(shape: Shape, inputs: &[Tensor<1>]) -> Tensor<4> {
        let Shape { batch, bias_batch, heads, queries, keys, hidden, first } = shape;
        // Keys and queries swapped, so that the scores do not lie contiguously.
        let scores = inputs[0].clone().reshape([batch, heads, keys, queries]).swap_dims(2, 3);
        let bias = inputs[1].clone().reshape([bias_batch, heads, queries, keys]);
        let weights = PairNetwork {
            w1: inputs[2].clone().reshape([2 * heads, hidden]),
            b1: inputs[3].clone(),
            w2: inputs[4].clone().reshape([hidden, heads]),
            b2: inputs[5].clone(),
        };
        pair_network(scores, bias, &weights, first)
    }

    #[test]
    fn agrees_with_the_reference() {
        let shapes = [
            PLAIN,
            Shape { batch: 1, heads: 1, queries: 1, keys: 1, hidden: 1, ..PLAIN },
            Shape { bias_batch: 3, queries: 7, keys: 40, first: 33, ..PLAIN },
            Shape { heads: 3, queries: 5, keys: 50, first: 20, hidden: 17, ..PLAIN },
        ];
        for shape in shapes {
            assert_fused_on(&Device::flex(), &format!("{shape:?}"), &inputs(shape), |x| call(shape, x));
        }
    }

    #[test]
    fn hidden_numbers_of_both_signs() {
        let mut inputs = inputs(PLAIN);
        inputs[3] = numbers(9, PLAIN.hidden);
        let read = || differentiate(&Device::flex(), &inputs, |inputs| call(PLAIN, inputs));
        assert_alike("both signs", &read(), &by_reference(read), ROUNDING);
    }

    #[test]
    fn threads_change_no_bit() {
        assert_threads_change_no_bit("a network", &inputs(PLAIN), |inputs| call(PLAIN, inputs));
    }
}
