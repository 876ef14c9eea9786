//! Parameters that every layer has of its own: tensors with a leading `[layers]` axis.

use crate::init::Init;
use burn::module::Param;
use burn::tensor::Tensor;

/// The slice of one layer: `[layers, ..]` -> `[..]`.
pub fn at_layer<const D: usize, const E: usize>(parameter: &Param<Tensor<D>>, layer: usize) -> Tensor<E> {
    parameter.val().slice_dim(0, layer..layer + 1).squeeze_dim::<E>(0)
}

/// `x w + b` of every row by the slices of a layer, `[batch, length, inputs]` -> `[batch, length, outputs]`.
pub(crate) fn map_rows(
    x: &Tensor<3>,
    weight: &Param<Tensor<3>>,
    bias: Option<&Param<Tensor<2>>>,
    layer: usize,
) -> Tensor<3> {
    let [batch, length, inputs] = x.dims();
    let rows = x.clone().reshape([batch * length, inputs]).matmul(at_layer(weight, layer));
    let rows = match bias {
        Some(bias) => rows + at_layer::<2, 1>(bias, layer).unsqueeze(),
        None => rows,
    };
    let outputs = rows.dims()[1];
    rows.reshape([batch, length, outputs])
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
