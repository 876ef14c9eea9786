//! Fused attention in the autodiff graph.

use super::Kind;
use super::launch::{Attend, Call, Gradients, Inputs};
use crate::attention::{Attention, Bias, Shape, inputs, record};
use crate::autodiff::{Gradient, OpTensor};
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, TensorMetadata};
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

impl<const N: usize> Gradient<N, Cube> for Saved {
    fn gradients(self, gradient: Primitive, wanted: [bool; N]) -> [Option<Primitive>; N] {
        let mut call = self.call;
        let before_bias = if call.near.is_some() { 5 } else { 3 };
        call.learned = wanted[before_bias..].contains(&true);
        let Gradients { q, k, v, far_q, far_k, first_bias: first, second_bias: second } =
            Cube::backward(self.inputs, self.output, self.log_sums, gradient, call);
        let Shape { heads, queries, keys, .. } = call.shape;
        let first = match call.kind {
            _ if !call.learned => first,
            Kind::Slopes => {
                Cube::float_reshape(Cube::float_sum_dim(Cube::float_sum_dim(first, 2), 0), [heads].into())
            }
            Kind::ByDistance => {
                let sum = Cube::float_sum_dim(first, 0);
                let distances = sum.shape()[2];
                Cube::float_reshape(sum, [heads, distances].into())
            }
            Kind::Block if self.shared => {
                Cube::float_reshape(Cube::float_sum_dim(first, 0), [1, heads, queries, keys].into())
            }
            _ => first,
        };
        let far = call.near.is_some().then_some([far_q, far_k]).into_iter().flatten();
        let mut all = [q, k, v].into_iter().chain(far).chain([first, second]);
        wanted.map(|wanted| all.next().filter(|_| wanted))
    }
}

/// [`attention`](crate::attention()) of tensors on the GPU that [`takes`](super::takes) accepts.
pub(in crate::attention) fn attention(qkv: [Tensor<4>; 3], options: &Attention, shape: Shape) -> Tensor<4> {
    let inputs: Vec<OpTensor<Cube>> = inputs(qkv, options);
    let call = Call::new(options, shape);
    let mut given = inputs.iter().map(|input| input.data().clone());
    let mut next = || given.next().unwrap_or_else(|| inputs[0].data().clone());
    let [q, k, v] = [next(), next(), next()];
    let [far_q, far_k] = if call.near.is_some() { [next(), next()] } else { [q.clone(), k.clone()] };
    let [first_bias, second_bias] = [next(), next()];
    let scale = options.query_scale.clone().map(|scale| OpTensor::<Cube>::new(scale).into_data());
    let query_scale = scale.unwrap_or_else(|| q.clone());
    let read = Inputs { q, k, v, far_q, far_k, first_bias, second_bias, query_scale };
    let shared = matches!(&options.bias, Bias::Block(block) if block.dims()[0] == 1);
    let (output, log_sums) = Cube::forward(read.clone(), call);
    let result = output.clone();
    record(&inputs, result, || Saved { inputs: read, output, log_sums, call, shared })
}
