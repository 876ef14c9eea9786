//! Fused attention on the autodiff tape.

use super::Kind;
use super::launch::{Attend, Call, Inputs};
use crate::attention::{Attention, Bias, Shape, inputs, record};
use crate::tape::{Gradient, Parts};
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
        let [q, k, v, first, second, scale] = self.inputs;
        let mut call = self.call;
        call.learned = wanted[3..].contains(&true);
        let (q, k, v, first, second) =
            Cube::backward(q, k, v, first, second, scale, self.output, self.log_sums, gradient, call);
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
        let mut all = [q, k, v, first, second].into_iter();
        wanted.map(|wanted| all.next().filter(|_| wanted))
    }
}

/// [`attention`](crate::attention()) of tensors on the GPU that [`takes`](super::takes) accepts.
pub(in crate::attention) fn attention(qkv: [Tensor<4>; 3], options: &Attention, shape: Shape) -> Tensor<4> {
    let inputs: Vec<Parts<Cube>> = inputs(qkv, options);
    let call = Call::new(options, shape);
    let data = |index: usize| inputs.get(index).unwrap_or(&inputs[0]).data().clone();
    let scale =
        options.query_scale.clone().map_or_else(|| data(0), |scale| Parts::<Cube>::new(scale).into_data());
    let [q, k, v, first, second] = std::array::from_fn(data);
    let shared = matches!(&options.bias, Bias::Block(block) if block.dims()[0] == 1);
    let saved: Inputs<Cube> = [q, k, v, first, second, scale];
    let [q, k, v, first, second, scale] = saved.clone();
    let (output, log_sums) = Cube::forward(q, k, v, first, second, scale, call);
    let result = output.clone();
    record(&inputs, result, || Saved { inputs: saved, output, log_sums, call, shared })
}
