//! Attention with a network of pairs in plain tensor operations.

use super::PairAttention;
use crate::attention::normaliser::softmax::plain as plain_softmax;
use crate::attention::{Attention, Bias};
use crate::ops::pair_network::plain_pair_network;
use burn::tensor::Tensor;

/// Numbers of pairs that are computed at once; more queries are read one block after the other.
const AT_ONCE: usize = 1 << 24;

pub(super) fn pair_attention(
    q: &Tensor<4>,
    k: Tensor<4>,
    v: &Tensor<4>,
    options: &PairAttention,
) -> Tensor<4> {
    let [batch, heads, queries, _] = q.dims();
    let ([_, _, keys, _], [hidden], device) = (k.dims(), options.network.b1.dims(), q.device());
    let held = batch * keys * (4 * heads + 2 * hidden);
    let rows = (AT_ONCE / held.max(1)).clamp(1, queries.max(1));
    let k = k.swap_dims(2, 3);
    let block = |start: usize| {
        let end = queries.min(start + rows);
        let causal = Attention {
            bias: Bias::ByDistance(options.bias.clone()),
            query_offset: options.first + start,
            ..Attention::causal(1)
        };
        let scores = q.clone().slice_dim(2, start..end).matmul(k.clone()).mul_scalar(options.scale);
        let bias = causal.bias_block(end - start, keys, &device).expect("it has a bias");
        let logits = plain_pair_network(scores, bias, &options.network, options.first + start);
        let hidden = causal.hidden(end - start, keys, &device).unsqueeze::<4>().expand(logits.dims());
        plain_softmax(logits.mask_fill(hidden, f32::NEG_INFINITY)).matmul(v.clone())
    };
    match queries {
        0 => Tensor::zeros([batch, heads, 0, v.dims()[3]], &device),
        _ => Tensor::cat((0..queries).step_by(rows).map(block).collect(), 2),
    }
}
