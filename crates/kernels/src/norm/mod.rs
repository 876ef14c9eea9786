//! Normalisation over the last dimension.
//!
//! **Fused:** mean, variance, scaling, gain and bias of a row; backward, the gradients of x, gain and bias in
//! one pass over the rows. Plain operations write a tensor for each of these steps.
//!
//! **Kept for the backward pass:** x, the gain, and two numbers for each row: its mean and its inverse scale.
//!
//! **Bytes:** for n numbers of x in rows of w, at least `8 n + 8 n / w` forward (x in, the output and what is
//! kept of each row out) and `12 n + 8 n / w` backward (x, the gradient and what was kept in, the gradient of
//! x out). Gain and bias are w numbers each, and their gradients are summed over 64 rows at a time first.
//!
//! The width is that of a model (`[batch, length, width]`) or of a head (`qk_norm`, `[batch, heads, length, head_dim]`).
//! There the norm has earned its place: a step of the main job (width 128, 4 heads) takes 1.11 times as long with
//! `qk_norm = "rms"` as without, and took 1.3 times as long with plain operations (medians of 6 rounds in turn); with
//! `"key"` 1.10, and 1.17 before.
//!
//! **Not built:** the norm of q and k within the pass that splits and turns them. It would save one more reading and
//! writing of both, most of the tenth that is left.

mod flex;
mod gradient;
mod reference;

use crate::autodiff::{self, CpuTensor};
use burn::tensor::Tensor;
use flex::Kind;

/// `x / sqrt(mean(x²) + eps) * gain` over the last dimension (Zhang & Sennrich 2019).
///
/// x of any shape, such as `[batch, length, width]`, gain `[width]` -> the shape of x.
///
/// # Panics
/// The widths differ, or are 0.
pub fn rms_norm<const D: usize>(x: Tensor<D>, gain: Tensor<1>, eps: f64) -> Tensor<D> {
    check("rms_norm", &x, &gain);
    if autodiff::cpu_kernel_applies(&x) && autodiff::cpu_kernel_applies(&gain) {
        return fused(x, gain, None, eps, Kind::Rms);
    }
    reference::rms_norm(x, gain, eps)
}

/// `x / max(|x|, least)` over the last dimension: rows of length 1, but for those shorter than `least`.
///
/// x of any shape, such as `[batch, heads, length, head_dim]` -> the shape of x.
///
/// # Panics
/// The last dimension is 0.
pub fn unit_norm<const D: usize>(x: Tensor<D>, least: f64) -> Tensor<D> {
    let width = x.dims()[D - 1];
    assert!(width > 0, "unit_norm: a width of 0");
    if autodiff::cpu_kernel_applies(&x) {
        let gain = Tensor::ones([width], &x.device());
        return fused(x, gain, None, least, Kind::Unit);
    }
    reference::unit_norm(x, least)
}

/// `(x - mean) / sqrt(variance + eps) * gain + bias` over the last dimension, with the biased
/// variance (Ba et al. 2016).
///
/// x of any shape, such as `[batch, length, width]`, gain `[width]`, bias `[width]` -> the shape of x.
///
/// # Panics
/// The widths differ, or are 0.
pub fn layer_norm<const D: usize>(
    x: Tensor<D>,
    gain: Tensor<1>,
    bias: Option<Tensor<1>>,
    eps: f64,
) -> Tensor<D> {
    check("layer_norm", &x, &gain);
    if let Some(bias) = &bias {
        check("layer_norm", &x, bias);
    }
    if autodiff::cpu_kernel_applies(&x)
        && autodiff::cpu_kernel_applies(&gain)
        && bias.as_ref().is_none_or(autodiff::cpu_kernel_applies)
    {
        return fused(x, gain, bias, eps, Kind::Layer);
    }
    reference::layer_norm(x, gain, bias, eps)
}

fn check<const D: usize>(operation: &str, x: &Tensor<D>, weight: &Tensor<1>) {
    let (width, weights) = (x.dims()[D - 1], weight.dims()[0]);
    assert!(width > 0 && width == weights, "{operation}: {weights} weights for a width of {width}");
}

fn fused<const D: usize>(
    x: Tensor<D>,
    gain: Tensor<1>,
    bias: Option<Tensor<1>>,
    eps: f64,
    kind: Kind,
) -> Tensor<D> {
    let shape = x.dims();
    let norm = flex::Norm { width: shape[D - 1], eps: eps as f32, kind };
    let (x, gain, bias) = (CpuTensor::new(x), CpuTensor::new(gain), bias.map(CpuTensor::new));
    let x_values = autodiff::compact(x.data().clone());
    let gain_values = gain.data().clone();
    let bias_values = bias.as_ref().map(|bias| autodiff::values(bias.data()));
    let (output, stats) = flex::forward(
        norm,
        &autodiff::values(&x_values),
        &autodiff::values(&gain_values),
        bias_values.as_deref(),
    );
    let output = autodiff::tensor_of(output, shape);
    drop(bias_values);
    let saved = || gradient::Saved::<D> { norm, x: x_values, gain: gain_values, stats };
    match bias {
        Some(bias) => autodiff::record(&[x, gain, bias], output, saved),
        None => autodiff::record(&[x, gain], output, saved),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_matches, numbers};

    const SHAPES: [[usize; 3]; 4] = [[1, 1, 1], [2, 37, 5], [3, 50, 16], [2, 41, 130]];

    fn inputs([batch, length, width]: [usize; 3]) -> Vec<Vec<f32>> {
        vec![numbers(1, batch * length * width), numbers(2, width), numbers(3, width)]
    }

    /// x arrives with its first two dimensions exchanged, so that it does not lie contiguously.
    fn x(inputs: &[Tensor<1>], [batch, length, width]: [usize; 3]) -> Tensor<3> {
        inputs[0].clone().reshape([length, batch, width]).swap_dims(0, 1)
    }

    #[test]
    fn rms_norm_agrees_with_the_reference() {
        for shape in SHAPES {
            assert_matches(
                &format!("rms {shape:?}"),
                &inputs(shape)[..2],
                |inputs| rms_norm(x(inputs, shape), inputs[1].clone(), 1e-2),
                |inputs| reference::rms_norm(x(inputs, shape), inputs[1].clone(), 1e-2),
            );
        }
    }

    #[test]
    fn unit_norm_agrees_with_the_reference() {
        for shape in SHAPES {
            // The whole range of lengths lies above the least one, or below.
            for least in [1e-6, 1e3] {
                assert_matches(
                    &format!("unit {shape:?} {least}"),
                    &inputs(shape)[..1],
                    |inputs| unit_norm(x(inputs, shape), least),
                    |inputs| reference::unit_norm(x(inputs, shape), least),
                );
            }
        }
    }

    #[test]
    fn rows_of_heads_get_length_1_and_empty_ones_stay() {
        let device = burn::tensor::Device::flex();
        let x = crate::testing::tensor::<4>(1, [2, 3, 5, 8], &device);
        let [rows, zeros] = [x.clone(), x.zeros_like()].map(|x| unit_norm(x, 1e-6));
        let lengths = rows.square().sum_dim(3).sqrt();
        assert!((lengths - 1.0).abs().max().into_scalar::<f32>() < 1e-6);
        assert!(zeros.abs().max().into_scalar::<f32>() == 0.0);
    }

    #[test]
    fn layer_norm_agrees_with_the_reference() {
        for shape in SHAPES {
            for biased in [false, true] {
                let bias = |inputs: &[Tensor<1>]| biased.then(|| inputs[2].clone());
                assert_matches(
                    &format!("layer {shape:?} {biased}"),
                    &inputs(shape)[..2 + usize::from(biased)],
                    |inputs| layer_norm(x(inputs, shape), inputs[1].clone(), bias(inputs), 1e-2),
                    |inputs| reference::layer_norm(x(inputs, shape), inputs[1].clone(), bias(inputs), 1e-2),
                );
            }
        }
    }

    #[test]
    fn a_frozen_gain_receives_nothing() {
        let device = burn::tensor::Device::flex().autodiff();
        let x = crate::testing::tensor::<3>(1, [2, 3, 4], &device).require_grad();
        let gain = crate::testing::tensor::<1>(2, [4], &device);
        let gradients = rms_norm(x.clone(), gain.clone(), 1e-5).sum().backward();
        assert!(x.grad(&gradients).is_some());
        assert!(gain.grad(&gradients).is_none());
    }
}
