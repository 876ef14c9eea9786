//! The network of pairs in plain tensor operations.

use super::{PairNetwork, SLOPE};
use burn::tensor::{Bool, Tensor, TensorData, activation::leaky_relu};

pub(crate) fn pair_network(
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
