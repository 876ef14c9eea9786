//! What the normalisations compute, in plain tensor operations.

use super::{Norm, RowNorm, Weights};
use burn::tensor::Tensor;

/// A normalisation with its weights.
pub(super) fn norm<const D: usize>(x: Tensor<D>, weights: Weights, norm: Norm) -> Tensor<D> {
    let y = match norm.kind {
        RowNorm::Rms => divided(x, norm.eps),
        RowNorm::Layer => divided(x.clone() - x.mean_dim(D - 1), norm.eps),
        RowNorm::Unit => {
            let length = (x.clone() * x.clone()).sum_dim(D - 1).sqrt().clamp_min(norm.eps);
            x / length
        }
    };
    let y = match weights.gain {
        Some(gain) => y * gain.unsqueeze(),
        None => y,
    };
    match weights.bias {
        Some(bias) => y + bias.unsqueeze(),
        None => y,
    }
}

/// x over the root of its rows' mean square and eps.
fn divided<const D: usize>(x: Tensor<D>, eps: f64) -> Tensor<D> {
    let scale = (x.clone() * x.clone()).mean_dim(D - 1).add_scalar(eps).sqrt();
    x / scale
}
