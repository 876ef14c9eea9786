//! GELU, the activation of feed-forward layers.
//!
//! **Fused:** the whole formula, one pass over the input; backward, the derivative and its product with the gradient. On the
//! GPU one launch each way.
//!
//! **Kept for the backward pass:** the input, as it came; the error function is computed again.
//!
//! **Bytes:** for n numbers at least `8 n` forward (n in, n out) and `12 n` backward (input and gradient in, gradient out).

use crate::machine::autodiff::{Stored, stored, tensor_of, with_type};
use crate::machine::buffers::{GRAIN, filled};
use crate::machine::simd::{Number, normal, vectorised};
use crate::op::PlainGradient;
use crate::op::prelude::*;
use burn::tensor::Tensor;
use std::f64::consts::{FRAC_1_SQRT_2, PI};
use std::mem::MaybeUninit;

/// `x Φ(x)`, with Φ the normal distribution function: GELU in its exact form, by the error function
/// (Hendrycks & Gimpel 2016; torch's default).
///
/// x `[batch, length, width]` -> the same shape and type.
pub fn gelu(x: Tensor<3>) -> Tensor<3> {
    let [y] = run(Gelu, [x.into()]);
    y.tensor()
}

#[derive(Clone)]
struct Gelu;

impl Op<1> for Gelu {
    const NAME: &'static str = "gelu";
    const ON_GPU: bool = true;
    const TAKES_BF16: bool = true;
    const ROUNDED: Option<PlainGradient> =
        Some(|x, output| plain_gradient(x.tensor(), output.tensor()).into());

    fn reference(self, [x]: [Any; 1]) -> [Any; 1] {
        let x = x.tensor::<3>();
        // The gradient of burn's own `gelu` is that of the tanh approximation on every device but the CPU.
        [(x.clone() * below(x)).into()]
    }

    fn cpu(self, [x]: [FlexTensor; 1], _: [bool; 1]) -> ([FlexTensor; 1], impl Gradient<Flex, 1>) {
        let x = stored(x);
        let y = with_type!(x, T => tensor_of(forward(&T::numbers(&x)), x.layout().shape().clone()));
        ([y], move |output, _| {
            let output = only(output);
            let gradient = with_type!(x, T => {
                tensor_of(backward(&T::numbers(&x), &T::numbers(&output)), x.layout().shape().clone())
            });
            [Some(gradient)]
        })
    }

    #[cfg(feature = "gpu")]
    fn gpu(self, [x]: [Primitive; 1], _: [bool; 1]) -> ([Primitive; 1], impl Gradient<Cube, 1>) {
        ([gpu::gelu(x.clone())], move |output, _| [Some(gpu::gelu_backward(x, only(output)))])
    }
}

/// The normal distribution function.
fn below(x: Tensor<3>) -> Tensor<3> {
    x.mul_scalar(FRAC_1_SQRT_2).erf().add_scalar(1.0).mul_scalar(0.5)
}

/// `output (Φ(x) + x φ(x))`, φ the normal density.
fn plain_gradient(x: Tensor<3>, output: Tensor<3>) -> Tensor<3> {
    let density = (x.clone() * x.clone()).mul_scalar(-0.5).exp().mul_scalar(1.0 / (2.0 * PI).sqrt());
    output * (below(x.clone()) + x * density)
}

fn forward<T: Number>(x: &[T]) -> Vec<T> {
    filled(x.len(), GRAIN, |from, out| map(&x[from..], out))
}

fn backward<T: Number>(x: &[T], gradient: &[T]) -> Vec<T> {
    filled(x.len(), GRAIN, |from, out| map_back(&x[from..], &gradient[from..], out))
}

vectorised! {
    fn map<T: Number>(x: &[T], out: &mut [MaybeUninit<T>]) {
        let x = &x[..out.len()];
        for (out, x) in out.iter_mut().zip(x) {
            let x = x.widen();
            out.write(T::round(x * normal(x).0));
        }
    }

    /// `gradient * (Φ(x) + x φ(x))`.
    fn map_back<T: Number>(x: &[T], gradient: &[T], out: &mut [MaybeUninit<T>]) {
        let (x, gradient) = (&x[..out.len()], &gradient[..out.len()]);
        for ((out, x), gradient) in out.iter_mut().zip(x).zip(gradient) {
            let x = x.widen();
            let (below, density) = normal(x);
            out.write(T::round(gradient.widen() * (below + x * density)));
        }
    }
}

#[cfg(feature = "gpu")]
#[allow(clippy::pedantic, reason = "what the macros make of kernels is theirs")]
mod gpu {
    use crate::machine::gpu::{empty_like, launch_vectors};
    use burn_cubecl::cubecl;
    use burn_cubecl::kernel::into_contiguous;
    use burn_cubecl::tensor::CubeTensor;
    use cubecl::prelude::*;
    use std::f32::consts::FRAC_1_SQRT_2;

    /// The normal density at 0.
    const DENSITY: f32 = 0.398_942_3;

    /// The normal distribution function.
    #[cube]
    fn below<N: Size>(x: Vector<f32, N>) -> Vector<f32, N> {
        ((x * Vector::new(FRAC_1_SQRT_2)).erf() + Vector::new(1.0)) * Vector::new(0.5)
    }

    #[cube(launch, launch_unchecked, address_type = "dynamic")]
    fn gelu_kernel<N: Size>(x: &[Vector<f32, N>], y: &mut [Vector<f32, N>], count: usize) {
        if ABSOLUTE_POS >= count {
            terminate!();
        }
        let value = x[ABSOLUTE_POS];
        y[ABSOLUTE_POS] = value * below::<N>(value);
    }

    #[cube(launch, launch_unchecked, address_type = "dynamic")]
    fn gelu_gradient_kernel<N: Size>(
        x: &[Vector<f32, N>],
        gradient: &[Vector<f32, N>],
        slope: &mut [Vector<f32, N>],
        count: usize,
    ) {
        if ABSOLUTE_POS >= count {
            terminate!();
        }
        let value = x[ABSOLUTE_POS];
        let density = (value * value * Vector::new(-0.5)).exp() * Vector::new(DENSITY);
        slope[ABSOLUTE_POS] = gradient[ABSOLUTE_POS] * (below::<N>(value) + value * density);
    }

    pub(super) fn gelu(x: CubeTensor) -> CubeTensor {
        let x = into_contiguous(x);
        let y = empty_like(&x);
        launch_vectors!(gelu_kernel, y.meta.num_elements(), y, [x, y]);
        y
    }

    pub(super) fn gelu_backward(x: CubeTensor, gradient: CubeTensor) -> CubeTensor {
        let [x, gradient] = [x, gradient].map(into_contiguous);
        let slope = empty_like(&x);
        launch_vectors!(gelu_gradient_kernel, slope.meta.num_elements(), slope, [x, gradient, slope]);
        slope
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{activations, assert_close, flat, list};
    use burn::tensor::Device;

    #[test]
    fn odd_shapes_agree_with_the_reference() {
        activations::agree_with_the_reference("gelu", gelu);
    }

    #[test]
    fn halves_are_computed_in_f32_and_rounded() {
        activations::halves_are_rounded(gelu);
    }

    /// At points, by scipy's erf in f64.
    #[test]
    fn it_is_the_exact_form() {
        let x = flat(vec![-3.0, -1.0, -0.1, 0.0, 0.5, 2.0], &Device::flex()).reshape([1, 1, 6]);
        let expected = [-0.004_049_694, -0.158_655_25, -0.046_017_216, 0.0, 0.345_731_23, 1.954_499_7];
        assert_close("gelu", &list(gelu(x)), &expected, 1e-7);
    }
}
