//! What the normalisations compute, in plain tensor operations.

use burn::tensor::Tensor;

pub(super) fn rms_norm(x: Tensor<3>, gain: Tensor<1>, eps: f64) -> Tensor<3> {
    let scale = (x.clone() * x.clone()).mean_dim(2).add_scalar(eps).sqrt();
    x / scale * gain.unsqueeze()
}

pub(super) fn layer_norm(x: Tensor<3>, gain: Tensor<1>, bias: Option<Tensor<1>>, eps: f64) -> Tensor<3> {
    let centred = x.clone() - x.mean_dim(2);
    let scale = (centred.clone() * centred.clone()).mean_dim(2).add_scalar(eps).sqrt();
    let y = centred / scale * gain.unsqueeze();
    match bias {
        Some(bias) => y + bias.unsqueeze(),
        None => y,
    }
}
