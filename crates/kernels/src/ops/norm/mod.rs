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
//! `8 n` more are read for them, where one launch computes all (`gpu/`).
//!
//! The width is that of a model (`[batch, length, width]`) or of a head (`qk_norm`, `[batch, heads, length, head_dim]`).
//! There the norm has earned its place: a step of the main job (width 128, 4 heads) takes 1.11 times as long with
//! `qk_norm = "rms"` as without, and took 1.3 times as long with plain operations (medians of 6 rounds in turn); with
//! `"key"` 1.10, and 1.17 before.
//!
//! **Not built:** the norm of q and k within the pass that splits and turns them. It would save one more reading and
//! writing of both, most of the tenth that is left.
//!
//! `cpu.rs` says how it is done on the CPU, `gpu/` on the GPU.

pub(crate) mod cpu;
#[cfg(feature = "gpu")]
mod gpu;
#[cfg(test)]
mod tests;

use crate::machine::autodiff::{compact, tensor_of, values};
use crate::op::prelude::*;
use burn::tensor::Tensor;

/// `x / sqrt(mean(x²) + eps) * gain` over the last dimension (Zhang & Sennrich 2019).
///
/// x of any shape, such as `[batch, length, width]`, gain `[width]` -> the shape of x.
///
/// # Panics
/// The widths differ, or are 0.
pub fn rms_norm<const D: usize>(x: Tensor<D>, gain: Tensor<1>, eps: f64) -> Tensor<D> {
    let norm = Norm::new(&x, eps, RowNorm::Rms);
    let [y, _] = normalised(x, Weights { gain: Some(gain), bias: None }, norm);
    y
}

/// [`rms_norm`] of a residual stream, and the stream itself to go on from: the gradient of both arrives in one pass.
///
/// # Panics
/// The widths differ, or are 0.
pub fn rms_norm_residual<const D: usize>(x: Tensor<D>, gain: Tensor<1>, eps: f64) -> [Tensor<D>; 2] {
    let norm = Norm::new(&x, eps, RowNorm::Rms);
    normalised(x, Weights { gain: Some(gain), bias: None }, norm)
}

/// `x / max(|x|, least)` over the last dimension: rows of length 1, but for those shorter than `least`.
///
/// x of any shape, such as `[batch, heads, length, head_dim]` -> the shape of x.
///
/// # Panics
/// The last dimension is 0.
pub fn unit_norm<const D: usize>(x: Tensor<D>, least: f64) -> Tensor<D> {
    let norm = Norm::new(&x, least, RowNorm::Unit);
    let [y, _] = normalised(x, Weights { gain: None, bias: None }, norm);
    y
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
    let norm = Norm::new(&x, eps, RowNorm::Layer);
    let [y, _] = normalised(x, Weights { gain: Some(gain), bias }, norm);
    y
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
    let norm = Norm::new(&x, eps, RowNorm::Layer);
    normalised(x, Weights { gain: Some(gain), bias }, norm)
}

/// What a row is divided by, after its mean is taken away or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RowNorm {
    /// The root of its mean square and eps.
    Rms,
    /// The same of what is left without the mean.
    Layer,
    /// Its length, or eps if that is more.
    Unit,
}

#[derive(Clone, Copy, Debug)]
struct Norm {
    width: usize,
    eps: f64,
    kind: RowNorm,
}

impl Norm {
    fn new<const D: usize>(x: &Tensor<D>, eps: f64, kind: RowNorm) -> Self {
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

/// The normalised x, and x itself.
fn normalised<const D: usize>(x: Tensor<D>, weights: Weights, norm: Norm) -> [Tensor<D>; 2] {
    weights.check(norm);
    let op = Fused::<D> { norm, gain: weights.gain.is_some(), bias: weights.bias.is_some() };
    run(op, [x.into(), weights.gain.into(), weights.bias.into()]).map(Any::tensor)
}

/// A normalisation with its weights, in plain tensor operations.
fn plain<const D: usize>(x: Tensor<D>, weights: Weights, norm: Norm) -> Tensor<D> {
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

/// A normalisation of x with the gain and the bias that are there; its second output is x.
#[derive(Clone)]
struct Fused<const D: usize> {
    norm: Norm,
    gain: bool,
    bias: bool,
}

impl<const D: usize> Op<3, 2> for Fused<D> {
    const NAME: &'static str = "norm";
    const TAKES_EMPTY: bool = true;
    const ON_GPU: bool = true;

    fn reference(self, [x, gain, bias]: [Any; 3]) -> [Any; 2] {
        let x = x.tensor::<D>();
        let weights =
            Weights { gain: self.gain.then(|| gain.tensor()), bias: self.bias.then(|| bias.tensor()) };
        [plain(x.clone(), weights, self.norm).into(), x.into()]
    }

    fn cpu(
        self,
        [given, gain, bias]: [FlexTensor; 3],
        _: [bool; 3],
    ) -> ([FlexTensor; 2], impl Gradient<Flex, 3, 2>) {
        let x = compact(given.clone());
        let gain = if self.gain { values(&gain).into_owned() } else { vec![1.0; self.norm.width] };
        let bias = self.bias.then(|| values(&bias));
        let (y, stats) = cpu::forward(self.norm, &values(&x), &gain, bias.as_deref());
        let y = tensor_of(y, x.layout().shape().clone());
        let kept = cpu::Kept { norm: self.norm, x, gain, stats };
        ([y, given], move |[output, residual], _| match output {
            Some(output) => kept.gradients(&output, residual.as_ref()).map(Some),
            // Nothing depends on the norm.
            None => [residual, None, None],
        })
    }

    #[cfg(feature = "gpu")]
    fn suits_gpu(&self, [x, ..]: &[Any; 3]) -> bool {
        gpu::supports(x, self.norm)
    }

    #[cfg(feature = "gpu")]
    fn gpu(self, inputs: [Primitive; 3], _: [bool; 3]) -> ([Primitive; 2], impl Gradient<Cube, 3, 2>) {
        let x = inputs[0].clone();
        let (y, kept) = gpu::forward(inputs, self.norm, [self.gain, self.bias]);
        ([y, x], move |[output, residual], wanted| match output {
            Some(output) => kept.gradients(output, residual, wanted).map(Some),
            None => [residual, None, None],
        })
    }
}
