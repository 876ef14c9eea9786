//! What the normalisations compute, in plain tensor operations.

use burn::tensor::Tensor;

pub(super) fn rms_norm<const D: usize>(x: Tensor<D>, gain: Tensor<1>, eps: f64) -> Tensor<D> {
    let scale = (x.clone() * x.clone()).mean_dim(D - 1).add_scalar(eps).sqrt();
    x / scale * gain.unsqueeze()
}

pub(super) fn unit_norm<const D: usize>(x: Tensor<D>, least: f64) -> Tensor<D> {
    let length = (x.clone() * x.clone()).sum_dim(D - 1).sqrt().clamp_min(least);
    x / length
}

pub(super) fn layer_norm<const D: usize>(
    x: Tensor<D>,
    gain: Tensor<1>,
    bias: Option<Tensor<1>>,
    eps: f64,
) -> Tensor<D> {
    let centred = x.clone() - x.mean_dim(D - 1);
    let scale = (centred.clone() * centred.clone()).mean_dim(D - 1).add_scalar(eps).sqrt();
    let y = centred / scale * gain.unsqueeze();
    match bias {
        Some(bias) => y + bias.unsqueeze(),
        None => y,
    }
}
