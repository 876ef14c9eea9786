//! Fused attention in the autodiff graph.

use super::Kind;
use super::call::{Call, Gradients, Inputs, Results};
use super::launch::Attend;
use super::plan::Tiles;
use crate::attention::{Attention, Bias, PartialAttention, QkRange, Shape, inputs, record};
use crate::autodiff::{JointGradient, OpTensor};
use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::tensor::Tensor;

type Primitive = FloatTensor<Cube>;

/// What the gradient needs.
#[derive(Clone, Debug)]
struct Saved {
    inputs: Inputs<Cube>,
    output: Primitive,
    log_sums: Primitive,
    call: Call,
    /// Whether the batch shares a block of bias.
    shared: bool,
}

impl<const N: usize> JointGradient<N, 2, Cube> for Saved {
    fn gradients(
        self,
        [output_gradient, log_sums_gradient]: [Option<Primitive>; 2],
        wanted: [bool; N],
    ) -> [Option<Primitive>; N] {
        let Self { inputs, output, log_sums, mut call, shared } = self;
        call.learned = wanted[3..].contains(&true);
        call.log_sums_given = log_sums_gradient.is_some();
        let output_gradient =
            output_gradient.unwrap_or_else(|| Cube::float_mul_scalar(output.clone(), 0.0.into()));
        let log_sums_gradient = log_sums_gradient.unwrap_or_else(|| log_sums.clone());
        let results = Results { output, log_sums, output_gradient, log_sums_gradient };
        let Gradients { q, k, v, first_bias: first, second_bias: second } =
            Cube::backward(inputs, results, call);
        let first = summed(first, &call, shared);
        let mut all = [q, k, v, first, second].into_iter();
        wanted.map(|wanted| all.next().filter(|_| wanted))
    }
}

/// The first part of a bias' gradient, summed over what shares the bias.
pub(super) fn summed(first: Primitive, call: &Call, shared: bool) -> Primitive {
    let Shape { heads, queries, keys, .. } = call.shape;
    match call.kind {
        _ if !call.learned => first,
        Kind::Slopes => {
            Cube::float_reshape(Cube::float_sum_dim(Cube::float_sum_dim(first, 2), 0), [heads].into())
        }
        Kind::Block if shared => {
            Cube::float_reshape(Cube::float_sum_dim(first, 0), [1, heads, queries, keys].into())
        }
        _ => first,
    }
}

/// Attention of tensors on the GPU that [`supports`](super::supports) accepts.
pub(in crate::attention) fn attention(
    range: &QkRange<Tensor<4>>,
    v: &Tensor<4>,
    options: &Attention,
    shape: Shape,
    tiles: Tiles,
) -> PartialAttention {
    let inputs: Vec<OpTensor<Cube>> = inputs(std::slice::from_ref(range), v, options);
    let call = Call::new(options, shape, tiles);
    let mut given = inputs.iter().map(|input| input.data().clone());
    let mut next = || given.next().unwrap_or_else(|| inputs[0].data().clone());
    let [q, k, v, first_bias, second_bias] = [next(), next(), next(), next(), next()];
    let scale = options.query_scale.clone().map(|scale| OpTensor::<Cube>::new(scale).into_data());
    let query_scale = scale.unwrap_or_else(|| q.clone());
    let read = Inputs { q, k, v, first_bias, second_bias, query_scale };
    let shared = matches!(&options.bias, Bias::Block(block) if block.dims()[0] == 1);
    let (output, log_sums) = Cube::forward(read.clone(), call);
    let outputs = [output.clone(), log_sums.clone()];
    record(&inputs, outputs, || Saved { inputs: read, output, log_sums, call, shared })
}
