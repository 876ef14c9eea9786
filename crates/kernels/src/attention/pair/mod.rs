//! Causal attention whose logits are a small network of all heads' scores and biases (DAPE).
//!
//! With `A = scale q.k` of a query and a key, B their bias, which a table has by distance, and one number of each for every
//! head, the logits of the pair are `A + B + leaky_relu([A; B] w1 + b1) w2 + b2` (Zheng et al. 2024, arXiv:2405.14722,
//! section 3), those of [`pair_network`](crate::pair_network()). The output is their softmax over the keys up to the query,
//! times v.
//!
//! **Fused:** all of it. The network reads a pair's scores of all heads, so a block is 32 queries of all heads. Nothing of size
//! queries x keys is kept.
//!
//! **Kept for the backward pass:** the inputs, and the log of the sum of exponentials of each query row and head. The
//! scores, the network and the probabilities are computed again.
//!
//! **Bytes:** those of [`attention`](crate::attention()). Time goes into its products, and into the network:
//! `3 heads * hidden` multiply-adds forward and `11 heads * hidden` backward for each pair.

mod backward;
mod cpu;
mod reference;

use crate::op::prelude::*;
use crate::ops::pair_network::PairNetwork;
use burn::tensor::Tensor;

/// What gives [`pair_attention`] its logits.
#[derive(Clone, Debug)]
pub struct PairAttention {
    /// Multiplies q.k.
    pub scale: f64,
    /// `[heads, distances]`: the bias of a key that many rows before its query.
    pub bias: Tensor<2>,
    /// The network of scores and biases.
    pub network: PairNetwork,
    /// The row of the first query among the keys.
    pub first: usize,
}

/// The sizes of one call.
#[derive(Clone, Copy, Debug)]
struct Shape {
    batch: usize,
    heads: usize,
    queries: usize,
    keys: usize,
    head_dim: usize,
    value_dim: usize,
    distances: usize,
    first: usize,
}

/// q `[batch, heads, queries, head_dim]`, k `[batch, heads, keys, head_dim]` and v `[batch, heads, keys, value_dim]` ->
/// `[batch, heads, queries, value_dim]`.
///
/// # Panics
/// The shapes do not agree, there are queries past the last key, or the table has fewer distances than there are.
pub fn pair_attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, options: &PairAttention) -> Tensor<4> {
    let shape = checked(&q, &k, &v, options);
    let PairNetwork { w1, b1, w2, b2 } = options.network.clone();
    let op = Fused { shape, scale: options.scale };
    let bias = options.bias.clone();
    let qkv_and_bias = [q.into(), k.into(), v.into(), bias.into()];
    let [q, k, v, bias] = qkv_and_bias;
    let [output] = run(op, [q, k, v, bias, w1.into(), b1.into(), w2.into(), b2.into()]);
    output.tensor()
}

#[derive(Clone)]
struct Fused {
    shape: Shape,
    scale: f64,
}

impl Op<8> for Fused {
    const NAME: &'static str = "pair attention";

    fn reference(self, [q, k, v, bias, w1, b1, w2, b2]: [Any; 8]) -> [Any; 1] {
        let network = PairNetwork { w1: w1.tensor(), b1: b1.tensor(), w2: w2.tensor(), b2: b2.tensor() };
        let options =
            PairAttention { scale: self.scale, bias: bias.tensor(), network, first: self.shape.first };
        [reference::pair_attention(&q.tensor(), k.tensor(), &v.tensor(), &options).into()]
    }

    fn cpu(self, inputs: [FlexTensor; 8], _: [bool; 8]) -> ([FlexTensor; 1], impl Gradient<Flex, 8>) {
        let call = cpu::Call { inputs, shape: self.shape, scale: self.scale as f32 };
        let (output, log_sums) = cpu::forward(&call);
        ([output], move |output, _| backward::gradients(&call, &log_sums, &only(output)).map(Some))
    }
}

fn checked(q: &Tensor<4>, k: &Tensor<4>, v: &Tensor<4>, options: &PairAttention) -> Shape {
    let ([batch, heads, queries, head_dim], [_, _, keys, _]) = (q.dims(), k.dims());
    let [_, _, _, value_dim] = v.dims();
    let ([rows, distances], first) = (options.bias.dims(), options.first);
    assert!(
        k.dims() == [batch, heads, keys, head_dim] && v.dims() == [batch, heads, keys, value_dim],
        "pair attention: q {:?}, k {:?} and v {:?}",
        q.dims(),
        k.dims(),
        v.dims()
    );
    assert!(first + queries <= keys, "pair attention: {queries} queries from {first} on, for {keys} keys");
    assert!(
        rows == heads && distances >= first + queries,
        "pair attention: a bias table [{rows}, {distances}] for {heads} heads and {} distances",
        first + queries
    );
    options.network.check(heads);
    Shape { batch, heads, queries, keys, head_dim, value_dim, distances, first }
}

#[cfg(test)]
mod tests;
