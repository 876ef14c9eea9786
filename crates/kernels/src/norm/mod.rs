//! Normalisation over the last dimension.
//!
//! **Fused:** mean, variance, scaling, gain and bias of a row; backward, the gradients of x, gain and bias in
//! one pass over the rows, to which that of a residual stream is added. Plain operations write a tensor for each of these
//! steps.
//!
//! **Kept for the backward pass:** x, the gain, and two numbers for each row: its mean and its inverse scale.
//!
//! **Bytes:** for n numbers of x in rows of w, at least `8 n + 8 n / w` forward (x in, the output and what is
//! kept of each row out) and `12 n + 8 n / w` backward (x, the gradient and what was kept in, the gradient of
//! x out). Gain and bias are w numbers each. On the CPU their gradients are summed over 64 rows at a time first; on the GPU
//! `8 n` more are read for them, where one launch computes all (`cube/`).
//!
//! The width is that of a model (`[batch, length, width]`) or of a head (`qk_norm`, `[batch, heads, length, head_dim]`).
//! There the norm has earned its place: a step of the main job (width 128, 4 heads) takes 1.11 times as long with
//! `qk_norm = "rms"` as without, and took 1.3 times as long with plain operations (medians of 6 rounds in turn); with
//! `"key"` 1.10, and 1.17 before.
//!
//! **Not built:** the norm of q and k within the pass that splits and turns them. It would save one more reading and
//! writing of both, most of the tenth that is left.
//!
//! `flex.rs` says how it is done on the CPU, `cube/` on the GPU.

#[cfg(feature = "gpu")]
mod cube;
pub(crate) mod flex;
mod gradient;
mod reference;
#[cfg(test)]
mod tests;

use crate::autodiff::{self, CpuTensor};
use burn::tensor::Tensor;

/// `x / sqrt(mean(x²) + eps) * gain` over the last dimension (Zhang & Sennrich 2019).
///
/// x of any shape, such as `[batch, length, width]`, gain `[width]` -> the shape of x.
///
/// # Panics
/// The widths differ, or are 0.
pub fn rms_norm<const D: usize>(x: Tensor<D>, gain: Tensor<1>, eps: f64) -> Tensor<D> {
    let norm = Norm::new(&x, eps, Kind::Rms);
    normalised(x, Weights { gain: Some(gain), bias: None }, norm)
}

/// [`rms_norm`] of a residual stream, and the stream itself to go on from: the gradient of both arrives in one pass.
///
/// # Panics
/// The widths differ, or are 0.
pub fn rms_norm_residual<const D: usize>(x: Tensor<D>, gain: Tensor<1>, eps: f64) -> [Tensor<D>; 2] {
    let norm = Norm::new(&x, eps, Kind::Rms);
    normalised_residual(x, Weights { gain: Some(gain), bias: None }, norm)
}

/// `x / max(|x|, least)` over the last dimension: rows of length 1, but for those shorter than `least`.
///
/// x of any shape, such as `[batch, heads, length, head_dim]` -> the shape of x.
///
/// # Panics
/// The last dimension is 0.
pub fn unit_norm<const D: usize>(x: Tensor<D>, least: f64) -> Tensor<D> {
    let norm = Norm::new(&x, least, Kind::Unit);
    normalised(x, Weights { gain: None, bias: None }, norm)
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
    let norm = Norm::new(&x, eps, Kind::Layer);
    normalised(x, Weights { gain: Some(gain), bias }, norm)
}

/// [`layer_norm`] of a residual stream, and the stream itself to go on from: the gradient of both arrives in one pass.
///
/// # Panics
/// The widths differ, or are 0.
pub fn layer_norm_residual<const D: usize>(
    x: Tensor<D>,
    gain: Tensor<1>,
    bias: Option<Tensor<1>>,
    eps: f64,
) -> [Tensor<D>; 2] {
    let norm = Norm::new(&x, eps, Kind::Layer);
    normalised_residual(x, Weights { gain: Some(gain), bias }, norm)
}

/// What a row is divided by, after its mean is taken away or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// The root of its mean square and eps.
    Rms,
    /// The same of what is left without the mean.
    Layer,
    /// Its length, or eps if that is more.
    Unit,
}

/// What is done to each row.
#[derive(Clone, Copy, Debug)]
struct Norm {
    width: usize,
    eps: f64,
    kind: Kind,
}

impl Norm {
    fn new<const D: usize>(x: &Tensor<D>, eps: f64, kind: Kind) -> Self {
        Self { width: x.dims()[D - 1], eps, kind }
    }
}

/// The learned parts of a normalisation, `[width]` each.
struct Weights {
    gain: Option<Tensor<1>>,
    bias: Option<Tensor<1>>,
}

impl Weights {
    fn check(&self, norm: Norm) {
        assert!(norm.width > 0, "norm: a width of 0");
        for weights in self.all().map(|weights| weights.dims()[0]) {
            assert!(norm.width == weights, "norm: {weights} weights for a width of {}", norm.width);
        }
    }

    fn all(&self) -> impl Iterator<Item = &Tensor<1>> {
        self.gain.iter().chain(&self.bias)
    }
}

/// Where a normalisation is computed.
enum Place {
    Cpu,
    #[cfg(feature = "gpu")]
    Gpu,
    Reference,
}

fn place<const D: usize>(x: &Tensor<D>, weights: &Weights, norm: Norm) -> Place {
    weights.check(norm);
    if autodiff::cpu_kernel_applies(x) && weights.all().all(autodiff::cpu_kernel_applies) {
        return Place::Cpu;
    }
    #[cfg(feature = "gpu")]
    {
        let on_gpu = autodiff::gpu_kernel_applies(x) && weights.all().all(autodiff::gpu_kernel_applies);
        if on_gpu && cube::supports(x, norm) {
            return Place::Gpu;
        }
    }
    Place::Reference
}

fn normalised<const D: usize>(x: Tensor<D>, weights: Weights, norm: Norm) -> Tensor<D> {
    match place(&x, &weights, norm) {
        Place::Cpu => {
            let shape = x.dims();
            let (inputs, output, saved) = fused(x, weights, norm);
            let output = autodiff::tensor_of(output, shape);
            match &inputs[..] {
                [x, gain, bias] => autodiff::record(&[x, gain, bias].map(Clone::clone), output, || saved),
                _ => autodiff::record(&[&inputs[0], &inputs[1]].map(Clone::clone), output, || saved),
            }
        }
        #[cfg(feature = "gpu")]
        Place::Gpu => cube::normalised(x, weights, norm),
        Place::Reference => reference::norm(x, weights, norm),
    }
}

/// The normalised x, and x itself.
fn normalised_residual<const D: usize>(x: Tensor<D>, weights: Weights, norm: Norm) -> [Tensor<D>; 2] {
    match place(&x, &weights, norm) {
        Place::Cpu => {
            let shape = x.dims();
            let (inputs, output, saved) = fused(x, weights, norm);
            let outputs = [autodiff::tensor_of(output, shape), inputs[0].data().clone()];
            let outputs = match &inputs[..] {
                [x, gain, bias] => {
                    autodiff::record_joint(&[x, gain, bias].map(Clone::clone), outputs, || saved)
                }
                _ => autodiff::record_joint(&[&inputs[0], &inputs[1]].map(Clone::clone), outputs, || saved),
            };
            outputs.map(CpuTensor::into_tensor)
        }
        #[cfg(feature = "gpu")]
        Place::Gpu => cube::normalised_residual(x, weights, norm),
        Place::Reference => [reference::norm(x.clone(), weights, norm), x],
    }
}

/// The inputs (x, the gain and, if there is one, the bias), the output, and what the gradient needs.
fn fused<const D: usize>(
    x: Tensor<D>,
    weights: Weights,
    norm: Norm,
) -> (Vec<CpuTensor>, Vec<f32>, gradient::Saved<D>) {
    let gain = weights.gain.unwrap_or_else(|| Tensor::ones([norm.width], &x.device()));
    let (x, gain, bias) = (CpuTensor::new(x), CpuTensor::new(gain), weights.bias.map(CpuTensor::new));
    let x_values = autodiff::compact(x.data().clone());
    let gain_values = gain.data().clone();
    let bias_values = bias.as_ref().map(|bias| autodiff::values(bias.data()));
    let (output, stats) = flex::forward(
        norm,
        &autodiff::values(&x_values),
        &autodiff::values(&gain_values),
        bias_values.as_deref(),
    );
    drop(bias_values);
    let saved = gradient::Saved::<D> { norm, x: x_values, gain: gain_values, stats };
    ([Some(x), Some(gain), bias].into_iter().flatten().collect(), output, saved)
}
