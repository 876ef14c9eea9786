//! What attention keeps on the GPU, and its gradients.

use super::BiasKind;
use super::call::{Call, Gradients, Inputs, Results};
use super::launch;
use super::plan::Tiles;
use crate::attention::options::Attention;
use crate::attention::spec::{Bias, Shape};
use crate::machine::autodiff::{OpTensor, Primitive};
use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;

/// What the gradient needs.
#[derive(Clone)]
pub(in crate::attention) struct Kept {
    inputs: Inputs,
    output: Primitive,
    log_sums: Primitive,
    call: Call,
    /// Whether the batch shares a block of bias.
    shared: bool,
}

impl Kept {
    /// The gradients of q, k, v and the two tensors of a bias.
    pub(in crate::attention) fn gradients(
        self,
        [output_gradient, log_sums_gradient]: [Option<Primitive>; 2],
        bias_wanted: bool,
    ) -> [Primitive; 5] {
        let Self { inputs, output, log_sums, mut call, shared } = self;
        call.learned = bias_wanted;
        call.log_sums_given = log_sums_gradient.is_some();
        let output_gradient =
            output_gradient.unwrap_or_else(|| Cube::float_mul_scalar(output.clone(), 0.0.into()));
        let log_sums_gradient = log_sums_gradient.unwrap_or_else(|| log_sums.clone());
        let results = Results { output, log_sums, output_gradient, log_sums_gradient };
        let Gradients { q, k, v, first_bias, second_bias } = launch::backward(inputs, results, call);
        [q, k, v, summed(first_bias, &call, shared), second_bias]
    }
}

/// The first part of a bias' gradient, summed over what shares the bias.
fn summed(first: Primitive, call: &Call, shared: bool) -> Primitive {
    let Shape { heads, queries, keys, .. } = call.shape;
    match call.kind {
        _ if !call.learned => first,
        BiasKind::Slopes => {
            Cube::float_reshape(Cube::float_sum_dim(Cube::float_sum_dim(first, 2), 0), [heads].into())
        }
        BiasKind::Block if shared => {
            Cube::float_reshape(Cube::float_sum_dim(first, 0), [1, heads, queries, keys].into())
        }
        _ => first,
    }
}

/// The output and the log sums of tensors that [`supports`](super::supports) accepts.
pub(in crate::attention) fn forward(
    [q, k, v]: [Primitive; 3],
    [first_bias, second_bias]: [Primitive; 2],
    options: &Attention,
    shape: Shape,
    tiles: Tiles,
) -> ([Primitive; 2], Kept) {
    let call = Call::new(options, shape, tiles);
    let inputs = Inputs { query_scale: query_scale(options, &q), q, k, v, first_bias, second_bias };
    let (output, log_sums) = launch::forward(inputs.clone(), call);
    let outputs = [output.clone(), log_sums.clone()];
    (outputs, Kept { inputs, output, log_sums, call, shared: shares_block(options) })
}

/// The scale of queries; without one, what stands in its place.
fn query_scale(options: &Attention, stand_in: &Primitive) -> Primitive {
    let scale = options.query_scale.clone().map(|scale| OpTensor::<Cube>::new(scale).into_data());
    scale.unwrap_or_else(|| stand_in.clone())
}

/// Whether the batch shares a block of bias.
fn shares_block(options: &Attention) -> bool {
    matches!(&options.bias, Bias::Block(block) if block.dims()[0] == 1)
}
