//! The fused normalisations in the autodiff graph.

use super::launch::{Call, Gradients, Normalise};
use crate::autodiff::{self, Gradient, JointGradient, OpTensor};
use crate::norm::{Norm, Weights};
use burn::backend::Cube;
use burn::backend::tensor::FloatTensor;
use burn::tensor::Tensor;

type Primitive = FloatTensor<Cube>;

/// What the gradient needs.
#[derive(Clone, Debug)]
struct Saved {
    x: Primitive,
    gain: Primitive,
    stats: Primitive,
    call: Call,
}

impl Saved {
    /// The gradients of x, the gain and the bias that are wanted; x also receives that of the residual stream.
    fn all<const N: usize>(
        self,
        output: Primitive,
        residual: Option<Primitive>,
        wanted: [bool; N],
    ) -> [Option<Primitive>; N] {
        let Self { x, gain, stats, mut call } = self;
        call.learned = wanted[1..].contains(&true);
        call.residual = residual.is_some();
        let residual = residual.unwrap_or_else(|| x.clone());
        let Gradients { x, gain, bias } = Cube::normalise_backward(x, gain, stats, output, residual, call);
        let mut all = [x, gain, bias].into_iter();
        wanted.map(|wanted| all.next().filter(|_| wanted))
    }
}

impl<const N: usize> Gradient<N, Cube> for Saved {
    fn gradients(self, output: Primitive, wanted: [bool; N]) -> [Option<Primitive>; N] {
        self.all(output, None, wanted)
    }
}

impl<const N: usize> JointGradient<N, 2, Cube> for Saved {
    fn gradients(
        self,
        [output, residual]: [Option<Primitive>; 2],
        wanted: [bool; N],
    ) -> [Option<Primitive>; N] {
        let Some(output) = output else {
            // Nothing depends on the norm.
            let mut all = std::iter::once(residual);
            return wanted.map(|wanted| all.next().flatten().filter(|_| wanted));
        };
        self.all(output, residual, wanted)
    }
}

/// The inputs (x, and the gain and the bias that are there), the output, and what the gradient needs.
fn fused<const D: usize>(
    x: Tensor<D>,
    weights: Weights,
    norm: Norm,
) -> (Vec<OpTensor<Cube>>, Primitive, Saved) {
    let x = OpTensor::<Cube>::new(x);
    let [gain, bias] = [weights.gain, weights.bias].map(|weights| weights.map(OpTensor::<Cube>::new));
    let call = Call { norm, gain: gain.is_some(), bias: bias.is_some(), learned: false, residual: false };
    let given = |weights: &Option<OpTensor<Cube>>| weights.as_ref().unwrap_or(&x).data().clone();
    let [gain_values, bias_values] = [&gain, &bias].map(given);
    let (y, stats) = Cube::normalise(x.data().clone(), gain_values.clone(), bias_values, call);
    let saved = Saved { x: x.data().clone(), gain: gain_values, stats, call };
    ([Some(x), gain, bias].into_iter().flatten().collect(), y, saved)
}

/// A normalisation of a tensor on the GPU that [`supports`](super::supports) accepts.
pub(in crate::norm) fn normalised<const D: usize>(x: Tensor<D>, weights: Weights, norm: Norm) -> Tensor<D> {
    let (inputs, y, saved) = fused(x, weights, norm);
    match &inputs[..] {
        [x] => autodiff::record(std::array::from_ref(x), y, || saved),
        [x, gain] => autodiff::record(&[x, gain].map(Clone::clone), y, || saved),
        _ => autodiff::record(&[0, 1, 2].map(|input| inputs[input].clone()), y, || saved),
    }
}

/// The same, and x itself.
pub(in crate::norm) fn normalised_residual<const D: usize>(
    x: Tensor<D>,
    weights: Weights,
    norm: Norm,
) -> [Tensor<D>; 2] {
    let (inputs, y, saved) = fused(x, weights, norm);
    let outputs = [y, inputs[0].data().clone()];
    match &inputs[..] {
        [x] => autodiff::record_joint(std::array::from_ref(x), outputs, || saved),
        [x, gain] => autodiff::record_joint(&[x, gain].map(Clone::clone), outputs, || saved),
        _ => autodiff::record_joint(&[0, 1, 2].map(|input| inputs[input].clone()), outputs, || saved),
    }
    .map(OpTensor::into_tensor)
}
