//! The activations of half-precision numbers: computed in f32, kept in half.
//!
//! Plain operations would keep several tensors in f32 for the backward pass; what is kept here is the input, as it
//! came, and everything else is computed again.

use super::flex;
use super::reference::{gelu_gradient, swiglu_gradient};
use crate::autodiff::{self, CpuTensor, FusedBackend, Gradient, OpTensor};
#[cfg(feature = "gpu")]
use burn::backend::Cube;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{DType, Tensor};
use burn_flex::FlexTensor;

/// Which activation, of f32.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Gelu,
    Swiglu,
}

impl Kind {
    fn of(self, x: Tensor<3>) -> Tensor<3> {
        match self {
            Self::Gelu => super::gelu(x),
            Self::Swiglu => super::swiglu(x),
        }
    }

    /// The gradient of x from that of the output.
    fn gradient(self, x: Tensor<3>, output: Tensor<3>) -> Tensor<3> {
        match self {
            Self::Gelu => gelu_gradient(x, output),
            Self::Swiglu => swiglu_gradient(x, output),
        }
    }
}

/// What the gradient needs.
#[derive(Clone, Debug)]
struct Saved<B: FusedBackend> {
    x: FloatTensor<B>,
    kind: Kind,
}

impl<B: FusedBackend> Gradient<1, B> for Saved<B> {
    fn gradients(self, output: FloatTensor<B>, _: [bool; 1]) -> [Option<FloatTensor<B>>; 1] {
        let half = self.x.dtype();
        let [x, output] = [self.x, output].map(|tensor| B::from_plain::<3>(tensor).cast(DType::F32));
        [Some(B::plain(self.kind.gradient(x, output).cast(half)))]
    }
}

/// The activation of half-precision numbers.
pub(super) fn activation(x: Tensor<3>, kind: Kind) -> Tensor<3> {
    if autodiff::bf16_kernel_applies(&x) {
        return fused_bf16(x, kind);
    }
    if autodiff::kernels_enabled() && autodiff::is_on_cpu(&x) {
        return recorded::<Flex>(x, kind);
    }
    #[cfg(feature = "gpu")]
    if autodiff::kernels_enabled() && autodiff::is_on_gpu(&x) {
        return recorded::<Cube>(x, kind);
    }
    let half = x.dtype();
    kind.of(x.cast(DType::F32)).cast(half)
}

fn recorded<B: FusedBackend>(x: Tensor<3>, kind: Kind) -> Tensor<3> {
    let input = [OpTensor::<B>::new(x)];
    let x = input[0].data().clone();
    let output = kind.of(B::from_plain::<3>(x.clone()).cast(DType::F32)).cast(x.dtype());
    autodiff::record(&input, B::plain(output), || Saved { x, kind })
}

/// On the CPU in bf16, in one pass.
fn fused_bf16(x: Tensor<3>, kind: Kind) -> Tensor<3> {
    let [batch, length, width] = x.dims();
    let input = [CpuTensor::new(x)];
    let x = autodiff::rounded_tensor(input[0].data().clone());
    let values = autodiff::bf16_values(&x);
    let output = match kind {
        Kind::Gelu => autodiff::bf16_tensor_of(flex::gelu(values), [batch, length, width]),
        Kind::Swiglu => autodiff::bf16_tensor_of(flex::swiglu(values, width / 2), [batch, length, width / 2]),
    };
    autodiff::record(&input, output, || SavedBf16 { x, kind })
}

/// What the gradient needs, of bf16.
#[derive(Clone, Debug)]
struct SavedBf16 {
    x: FlexTensor,
    kind: Kind,
}

impl Gradient<1> for SavedBf16 {
    fn gradients(self, output: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let shape = self.x.layout().shape().dims::<3>();
        let output = autodiff::rounded_tensor(output);
        let (x, output) = (autodiff::bf16_values(&self.x), autodiff::bf16_values(&output));
        let gradient = match self.kind {
            Kind::Gelu => flex::gelu_backward(x, output),
            Kind::Swiglu => flex::swiglu_backward(x, output, shape[2] / 2),
        };
        [Some(autodiff::bf16_tensor_of(gradient, shape))]
    }
}
