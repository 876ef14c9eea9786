//! `SwiGLU`, the activation of feed-forward layers with a gate.
//!
//! **Fused:** the whole formula, one pass that reads gate and up where the projection has left them side by side. Backward, the
//! derivatives and their products with the gradient. On the GPU one launch each way; plain operations take 5 and 9.
//!
//! **Kept for the backward pass:** the input, as it came; sigmoids are computed again.
//!
//! **Bytes:** for n numbers of output at least `12 n` forward (2 n in, n out) and `20 n` backward.

use crate::machine::autodiff::{Stored, stored, tensor_of, with_type};
use crate::machine::buffers::{filled, whole_rows};
use crate::machine::simd::{Number, sigmoid, vectorised};
use crate::op::PlainGradient;
use crate::op::prelude::*;
use burn::tensor::{Tensor, activation};
use std::mem::MaybeUninit;

/// `silu(gate) * up` with `silu(x) = x / (1 + exp(-x))` (Shazeer 2020, "GLU variants improve transformer").
///
/// packed `[batch, length, 2 hidden]` = `[gate | up]` -> `[batch, length, hidden]` of the same type.
///
/// # Panics
/// The last dimension is odd, or 0.
pub fn swiglu(packed: Tensor<3>) -> Tensor<3> {
    let [.., width] = packed.dims();
    assert!(width > 0 && width.is_multiple_of(2), "swiglu takes [gate | up], an even width, not {width}");
    let [y] = run(Swiglu, [packed.into()]);
    y.tensor()
}

#[derive(Clone)]
struct Swiglu;

impl Op<1> for Swiglu {
    const NAME: &'static str = "swiglu";
    const ON_GPU: bool = true;
    const TAKES_BF16: bool = true;
    const ROUNDED: Option<PlainGradient> =
        Some(|packed, output| plain_gradient(packed.tensor(), output.tensor()).into());

    fn reference(self, [packed]: [Any; 1]) -> [Any; 1] {
        let [gate, up] = halves(packed.tensor());
        [(activation::silu(gate) * up).into()]
    }

    fn cpu(self, [packed]: [FlexTensor; 1], _: [bool; 1]) -> ([FlexTensor; 1], impl Gradient<Flex, 1>) {
        let packed = stored(packed);
        let [batch, length, width] = packed.layout().shape().dims();
        let hidden = width / 2;
        let y = with_type!(packed, T => {
            tensor_of(forward(&T::numbers(&packed), hidden), [batch, length, hidden])
        });
        ([y], move |output, _| {
            let output = only(output);
            let gradient = with_type!(packed, T => {
                let gradient = backward(&T::numbers(&packed), &T::numbers(&output), hidden);
                tensor_of(gradient, [batch, length, width])
            });
            [Some(gradient)]
        })
    }

    #[cfg(feature = "gpu")]
    fn gpu(self, [packed]: [Primitive; 1], _: [bool; 1]) -> ([Primitive; 1], impl Gradient<Cube, 1>) {
        let y = gpu::swiglu(packed.clone());
        ([y], move |output, _| [Some(gpu::swiglu_backward(packed, only(output)))])
    }
}

/// gate and up.
fn halves(packed: Tensor<3>) -> [Tensor<3>; 2] {
    let [.., width] = packed.dims();
    [packed.clone().slice_dim(2, 0..width / 2), packed.slice_dim(2, width / 2..width)]
}

/// The gate receives `output up s (1 + gate (1 - s))`, s the sigmoid of the gate, up receives `output gate s`.
fn plain_gradient(packed: Tensor<3>, output: Tensor<3>) -> Tensor<3> {
    let [gate, up] = halves(packed);
    let s = activation::sigmoid(gate.clone());
    let slope = s.clone() * (gate.clone() * s.clone().neg().add_scalar(1.0)).add_scalar(1.0);
    Tensor::cat(vec![output.clone() * up * slope, output * gate * s], 2)
}

/// packed `[rows, 2 hidden]` -> `[rows, hidden]`.
fn forward<T: Number>(packed: &[T], hidden: usize) -> Vec<T> {
    let chunk = whole_rows(hidden);
    filled(packed.len() / 2, chunk, |from, out| map(&packed[2 * from..], hidden, out))
}

/// The gradient of packed `[rows, 2 hidden]`.
fn backward<T: Number>(packed: &[T], gradient: &[T], hidden: usize) -> Vec<T> {
    filled(packed.len(), 2 * whole_rows(hidden), |from, out| {
        map_back(&packed[from..], &gradient[from / 2..], hidden, out);
    })
}

vectorised! {
    /// Fills whole rows.
    fn map<T: Number>(packed: &[T], hidden: usize, out: &mut [MaybeUninit<T>]) {
        let packed = &packed[..2 * out.len()];
        for (packed, out) in packed.chunks_exact(2 * hidden).zip(out.chunks_exact_mut(hidden)) {
            let (gate, up) = packed.split_at(hidden);
            for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
                let gate = gate.widen();
                out.write(T::round(gate * sigmoid(gate) * up.widen()));
            }
        }
    }

    /// The gate receives `gradient * up * s * (1 + gate * (1 - s))`, s the sigmoid of the gate. Fills whole rows.
    fn map_back<T: Number>(packed: &[T], gradient: &[T], hidden: usize, out: &mut [MaybeUninit<T>]) {
        let (packed, gradient) = (&packed[..out.len()], &gradient[..out.len() / 2]);
        let rows = packed.chunks_exact(2 * hidden).zip(gradient.chunks_exact(hidden));
        for ((packed, gradient), out) in rows.zip(out.chunks_exact_mut(2 * hidden)) {
            let (gate, up) = packed.split_at(hidden);
            let (out_gate, out_up) = out.split_at_mut(hidden);
            let outputs = out_gate.iter_mut().zip(out_up);
            for ((out_gate, out_up), ((gate, up), gradient)) in outputs.zip(gate.iter().zip(up).zip(gradient)) {
                let (gate, up, gradient) = (gate.widen(), up.widen(), gradient.widen());
                let s = sigmoid(gate);
                out_gate.write(T::round(gradient * up * s * (1.0 + gate * (1.0 - s))));
                out_up.write(T::round(gradient * gate * s));
            }
        }
    }
}

#[cfg(feature = "gpu")]
#[allow(clippy::pedantic, reason = "what the macros make of kernels is theirs")]
mod gpu {
    use crate::machine::gpu::{empty, empty_like, launch_vectors};
    use burn::tensor::Shape;
    use burn_cubecl::cubecl;
    use burn_cubecl::kernel::into_contiguous;
    use burn_cubecl::tensor::CubeTensor;
    use cubecl::prelude::*;

    #[cube]
    fn sigmoid<N: Size>(x: Vector<f32, N>) -> Vector<f32, N> {
        Vector::new(1.0) / (Vector::new(1.0) + (-x).exp())
    }

    /// `[gate | up]` in rows of `2 hidden` vectors -> rows of `hidden`.
    #[cube(launch, launch_unchecked, address_type = "dynamic")]
    fn swiglu_kernel<N: Size>(
        packed: &[Vector<f32, N>],
        y: &mut [Vector<f32, N>],
        count: usize,
        hidden: usize,
    ) {
        if ABSOLUTE_POS >= count {
            terminate!();
        }
        let at = ABSOLUTE_POS / hidden * 2 * hidden + ABSOLUTE_POS % hidden;
        let gate = packed[at];
        y[ABSOLUTE_POS] = gate * sigmoid::<N>(gate) * packed[at + hidden];
    }

    #[cube(launch, launch_unchecked, address_type = "dynamic")]
    fn swiglu_gradient_kernel<N: Size>(
        packed: &[Vector<f32, N>],
        gradient: &[Vector<f32, N>],
        slope: &mut [Vector<f32, N>],
        count: usize,
        hidden: usize,
    ) {
        if ABSOLUTE_POS >= count {
            terminate!();
        }
        let at = ABSOLUTE_POS / hidden * 2 * hidden + ABSOLUTE_POS % hidden;
        let gate = packed[at];
        let up = packed[at + hidden];
        let given = gradient[ABSOLUTE_POS];
        let s = sigmoid::<N>(gate);
        slope[at] = given * up * s * (Vector::new(1.0) + gate * (Vector::new(1.0) - s));
        slope[at + hidden] = given * gate * s;
    }

    fn half_of(packed: &Shape) -> Shape {
        let [batch, length, width] = packed.dims();
        [batch, length, width / 2].into()
    }

    pub(super) fn swiglu(packed: CubeTensor) -> CubeTensor {
        let packed = into_contiguous(packed);
        let y = empty(&packed, half_of(packed.meta.shape()).dims::<3>());
        let hidden = y.meta.shape()[2];
        launch_vectors!(swiglu_kernel, hidden, y, [packed, y], width => hidden / width);
        y
    }

    pub(super) fn swiglu_backward(packed: CubeTensor, gradient: CubeTensor) -> CubeTensor {
        let [packed, gradient] = [packed, gradient].map(into_contiguous);
        let slope = empty_like(&packed);
        let hidden = gradient.meta.shape()[2];
        launch_vectors!(
            swiglu_gradient_kernel, hidden, gradient, [packed, gradient, slope], width => hidden / width
        );
        slope
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::activations;

    #[test]
    fn odd_shapes_agree_with_the_reference() {
        activations::agree_with_the_reference("swiglu", swiglu);
    }

    #[test]
    fn halves_are_computed_in_f32_and_rounded() {
        activations::halves_are_rounded(swiglu);
    }
}
