//! What a linear map computes, in plain tensor operations.

use burn::tensor::Tensor;

pub(crate) fn linear(x: Tensor<3>, weight: Tensor<2>, onto: Option<Tensor<3>>) -> Tensor<3> {
    let [batch, length, inputs] = x.dims();
    let outputs = weight.dims()[1];
    let product = x.reshape([batch * length, inputs]).matmul(weight).reshape([batch, length, outputs]);
    match onto {
        Some(onto) => onto + product,
        None => product,
    }
}
