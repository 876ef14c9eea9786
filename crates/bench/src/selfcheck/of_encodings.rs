//! The fused operations of single encodings, and of attention without a softmax.

use super::operation::{Operation, flat};
use burn::tensor::activation::sigmoid;
use burn::tensor::{Device, Tensor};
use longwave_kernels::{
    Attention, Layout, PairNetwork, PairTerms, PathAttention, Reflections, RotationTable, attention,
    linear_attention, path_attention, polar,
};
use longwave_position::Positions;
use longwave_position::frequency::{Frequencies, Rotation};

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
                let bias = inputs[3].clone().reshape([HEADS, length]);
                let terms = PairTerms { bias, network: network_of(&inputs[4..]) }.into();
                flat(attention(q, k, v, &Attention { terms, scale: 0.3, ..Attention::causal(1) }))
            },
        )
        .summing_pairs(),
        Operation::new(
            "attention, keys reflected, gates",
            &[&[rows; 4][..], &[2 * HEADS * length; 3]].concat(),
            move |inputs| {
                let [q, k, v, w] = [0, 1, 2, 3].map(|index| inputs[index].clone().reshape(shape));
                let [strengths, query, key] =
                    [4, 5, 6].map(|index| inputs[index].clone().reshape([2, HEADS, length]));
                let norms = w.clone().square().sum_dim(3).add_scalar(0.1).sqrt();
                let strengths = sigmoid(strengths).mul_scalar(2.0);
                let options = PathAttention {
                    scale: 0.3,
                    reflections: Reflections { directions: w / norms, strengths },
                    gates: Some([query, key]),
                    first: 0,
                };
                flat(path_attention(q, k, v, &options))
            },
        ),
        Operation::new("channels as vectors in the plane", &[rows, table, table], move |inputs| {
            let tables = [1, HEADS, length, CHANNELS];
            let [cos, sin] = [1, 2].map(|index| inputs[index].clone().reshape(tables));
            flat(polar(inputs[0].clone().reshape(shape), cos, sin))
        }),
        Operation::new("attention, linear and rotated", &[rows; 3], move |inputs| {
            let [q, k, v] = [0, 1, 2].map(|index| inputs[index].clone().reshape(shape));
            let table = turns(length, &q.device());
            flat(linear_attention(q, k, v, Some(&[table.clone(), table]), 0))
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

fn turns(length: usize, device: &Device) -> RotationTable {
    let rotation = Rotation::new(Frequencies::geometric(10_000.0, CHANNELS), Layout::Half);
    let [table, _] = rotation.tables(&Positions::range(0..length), device);
    table
}
