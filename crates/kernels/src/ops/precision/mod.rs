//! The precision of a model's linear maps: f32, or half with everything around the products in f32.
//!
//! Mixed precision as in Micikevicius et al. (2018, arXiv:1710.03740): weights, their gradients as the optimizer sees
//! them and its moments are f32, and each product takes both factors rounded to half, adds in f32 and rounds its
//! result to half. So the numbers that flow between a product and the next operation are of half the size; what comes
//! from a product and enters a norm, a rotation, attention or the loss is made f32 again there, and activations
//! compute in f32 what they keep in half. The residual stream is f32.
//!
//! Backward, gradients are rounded where values were: that of the result and that of x to half, that of the weights
//! to half and then to f32.
//!
//! On the GPU the products are burn's, on half numbers. On the CPU those of bf16 are ours ([`crate::machine::bf16`]): by the
//! processor's own dot products where it has them, about twice as fast as f32. It has no such products of f16, and those
//! under burn-flex round their sums to f16 every few hundred terms; so for f16 the CPU rounds the factors, multiplies in
//! f32 as always, and rounds the result. That is no faster than f32, but it computes the same and repeats bit for bit.
//!
//! Attention's own products take their factors rounded too, as autocast and `FlashAttention` do, in bf16 on CPUs with the dot
//! products and in either on GPUs with matrix units for it; their sums, the softmax and all else in attention are f32.

use crate::machine::autodiff::{CpuTensor, bf16_kernel_applies, bf16_values, rounded_tensor};
use crate::machine::bf16;
use crate::op::{only, record};
use crate::ops::linear::{into_stream, linear_in};
use burn::tensor::{Bytes, DType, Device, Tensor};
use burn_flex::{FlexTensor, Layout};
use longwave_core::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What the products of linear maps are computed in, and those of attention where the processor or GPU multiplies such numbers
/// itself. Weights, optimizer, norms, the softmax, loss and the residual stream are f32 in any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 24 bits, as everything else.
    #[default]
    F32,
    /// 11 bits, up to 65,504: the loss is scaled so that small gradients do not vanish, and a step whose gradients
    /// overflow is skipped.
    F16,
    /// 8 bits with the range of f32; nothing is scaled.
    Bf16,
}

impl Precision {
    /// Every precision, the widest first.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Bf16];

    /// As it stands in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }

    /// The type of the numbers that enter and leave a product.
    pub fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::Bf16 => DType::BF16,
        }
    }

    /// The largest relative error of a rounding, half a unit in the last place: 2^-24, 2^-11 or 2^-8.
    pub fn unit_roundoff(self) -> f64 {
        match self {
            Self::F32 => 2.0_f64.powi(-24),
            Self::F16 => 2.0_f64.powi(-11),
            Self::Bf16 => 2.0_f64.powi(-8),
        }
    }

    /// [`linear`](crate::linear()) in this precision, `x W`.
    ///
    /// x `[batch, length, in]` of f32 or of this precision, weight `[in, out]` of f32 -> `[batch, length, out]` of this
    /// precision.
    ///
    /// # Panics
    /// The sizes do not fit each other.
    pub fn linear(self, x: Tensor<3>, weight: Tensor<2>) -> Tensor<3> {
        linear_in(self, x, weight)
    }

    /// The same for what joins the residual stream: `x W` made f32, or `onto + x W`.
    ///
    /// x and weight as in [`linear`](Self::linear), onto `[batch, length, out]` of f32 -> `[batch, length, out]` of f32.
    ///
    /// # Panics
    /// The sizes do not fit each other.
    pub fn into_stream(self, x: Tensor<3>, weight: Tensor<2>, onto: Option<Tensor<3>>) -> Tensor<3> {
        into_stream(self, x, weight, onto)
    }

    /// Every precision that a device computes in, the widest first.
    pub fn of(device: &Device) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|precision| precision.computed_by(device).is_ok())
    }

    /// Whether a device computes in this precision; `key` is what asks for it.
    ///
    /// # Errors
    /// It has no such numbers, or its f16 does not become infinite past its range, so that an overflow would go
    /// unseen.
    pub fn check(self, key: &str, device: &Device) -> Result<()> {
        let Err(why) = self.computed_by(device) else { return Ok(()) };
        let allowed: Vec<String> = Self::of(device).map(|other| format!("\"{other}\"")).collect();
        Err(Error::value(
            key,
            format!("\"{self}\""),
            format!("{why}; it computes in {}", allowed.join(" or ")),
        )
        .hint(format!("set `{key}` to one of these, or use `--device cpu`")))
    }

    fn computed_by(self, device: &Device) -> std::result::Result<(), &'static str> {
        if self == Self::F32 {
            return Ok(());
        }
        if !device.supports_dtype(self.dtype()) {
            return Err("the device has no arithmetic for such numbers");
        }
        if self == Self::F16 {
            let past = Tensor::<1>::from_floats([1e6, -1e6], device).cast(DType::F16).cast(DType::F32);
            let past = past.into_data().iter::<f32>().collect::<Vec<_>>();
            if past != [f32::INFINITY, f32::NEG_INFINITY] {
                return Err("on the device, numbers past 65,504 do not become infinite");
            }
        }
        Ok(())
    }
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|precision| precision.name() == text)
            .ok_or_else(|| Error::value("precision", text, "it must be `f32`, `f16` or `bf16`"))
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether the numbers of a tensor are of half precision.
fn is_half<const D: usize>(tensor: &Tensor<D>) -> bool {
    matches!(tensor.dtype(), DType::F16 | DType::BF16)
}

/// The same numbers in f32 if they are of half precision: for what does not compute in that. The gradient is rounded to that again.
pub(crate) fn widened<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    if !bf16_kernel_applies(&tensor) {
        return if is_half(&tensor) { tensor.cast(DType::F32) } else { tensor };
    }
    let input = [CpuTensor::new(tensor)];
    let x = rounded_tensor(input[0].data().clone());
    let layout = Layout::contiguous(x.layout().shape().clone());
    let wide = FlexTensor::new(Bytes::from_elems(bf16::widened(bf16_values(&x))), layout, DType::F32);
    let [wide] = record(&input, [true], [wide], |output, _| [Some(rounded_tensor(only(output)))]);
    wide.into_tensor()
}

#[cfg(test)]
mod tests;
