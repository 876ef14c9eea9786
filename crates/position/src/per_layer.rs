//! Parameters that every layer has of its own: tensors with a leading `[layers]` axis.

use crate::init::Init;
use burn::module::Param;
use burn::tensor::Tensor;

/// The slice of one layer: `[layers, ..]` -> `[..]`.
pub fn at_layer<const D: usize, const E: usize>(parameter: &Param<Tensor<D>>, layer: usize) -> Tensor<E> {
    parameter.val().slice_dim(0, layer..layer + 1).squeeze_dim::<E>(0)
}

/// Weight `[layers, inputs, outputs]` and bias `[layers, outputs]` of a linear map for every layer,
/// uniform within `1 / sqrt(inputs)`, as the published small networks start.
pub fn linear(
    init: &Init,
    name: [&str; 2],
    [layers, inputs, outputs]: [usize; 3],
) -> (Param<Tensor<3>>, Param<Tensor<2>>) {
    let reach = 1.0 / (inputs as f64).sqrt();
    let weight = init.uniform(&format!("position.{}", name[0]), [layers, inputs, outputs], [-reach, reach]);
    let bias = init.uniform(&format!("position.{}", name[1]), [layers, outputs], [-reach, reach]);
    (weight, bias)
}
