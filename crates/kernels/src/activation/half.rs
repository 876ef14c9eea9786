//! The activations of half-precision numbers: computed in f32, kept in half.
//!
//! Plain operations would keep several tensors in f32 for the backward pass; what is kept here is the input, as it
//! came, and everything else is computed again.

use super::reference::{gelu_gradient, swiglu_gradient};
use crate::autodiff::{self, FusedBackend, Gradient, OpTensor};
#[cfg(feature = "gpu")]
use burn::backend::Cube;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{DType, Tensor};

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
