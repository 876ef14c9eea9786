//! The fused operations of single encodings.

use super::kernels::{Operation, flat};
use burn::tensor::Tensor;
use longwave_kernels::{PairAttention, PairNetwork, pair_attention, polar};

const HEADS: usize = 3;
const CHANNELS: usize = 10;
const HIDDEN: usize = 6;

/// Operations on texts of so many tokens.
pub(super) fn operations(length: usize) -> Vec<Operation> {
    let rows = 2 * HEADS * length * CHANNELS;
    let shape = [2, HEADS, length, CHANNELS];
    let network = [HEADS * length, 2 * HEADS * HIDDEN, HIDDEN, HIDDEN * HEADS, HEADS];
    let table = HEADS * length * CHANNELS;
    vec![
        Operation::new(
            "attention, a network of scores and biases",
            &[&[rows; 3][..], &network].concat(),
            move |inputs| {
                let [q, k, v] = [0, 1, 2].map(|index| inputs[index].clone().reshape(shape));
                let options = PairAttention {
                    scale: 0.3,
                    bias: inputs[3].clone().reshape([HEADS, length]),
                    network: network_of(&inputs[4..]),
                    first: 0,
                };
                flat(pair_attention(q, k, v, &options))
            },
        ),
        Operation::new("channels as vectors in the plane", &[rows, table, table], move |inputs| {
            let tables = [1, HEADS, length, CHANNELS];
            let [cos, sin] = [1, 2].map(|index| inputs[index].clone().reshape(tables));
            flat(polar(inputs[0].clone().reshape(shape), cos, sin))
        }),
    ]
}

/// A network whose hidden numbers have one sign each: at the kink, devices that round otherwise have other slopes.
fn network_of(weights: &[Tensor<1>]) -> PairNetwork {
    let signs: Vec<f32> = (0..HIDDEN).map(|unit| if unit % 2 == 0 { 8.0 } else { -8.0 }).collect();
    let signs = Tensor::<1>::from_floats(&signs[..], &weights[1].device());
    PairNetwork {
        w1: weights[0].clone().reshape([2 * HEADS, HIDDEN]),
        b1: weights[1].clone() + signs,
        w2: weights[2].clone().reshape([HIDDEN, HEADS]),
        b2: weights[3].clone(),
    }
}
