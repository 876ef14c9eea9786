//! The gradient of the fused normalisations.

use super::{Norm, flex};
use crate::autodiff::{Gradient, JointGradient, tensor_of, values};
use burn_flex::FlexTensor;

/// What the gradient needs.
#[derive(Clone, Debug)]
pub(super) struct Saved<const D: usize> {
    pub(super) norm: Norm,
    /// Rows of the width.
    pub(super) x: FlexTensor,
    /// `[width]`.
    pub(super) gain: FlexTensor,
    /// Each row's mean and inverse scale.
    pub(super) stats: Vec<[f32; 2]>,
}

impl<const D: usize> Saved<D> {
    /// The gradients of x, the gain and, if there is one, the bias; x also receives that of the residual stream.
    fn all(&self, output: &FlexTensor, residual: Option<&FlexTensor>) -> [FlexTensor; 3] {
        let shape = self.x.layout().shape().dims::<D>();
        let residual = residual.map(values);
        let [x, gain, bias] = flex::backward(
            self.norm,
            &values(&self.x),
            &values(&self.gain),
            &self.stats,
            &values(output),
            residual.as_deref(),
        );
        let width = self.norm.width;
        [tensor_of(x, shape), tensor_of(gain, [width]), tensor_of(bias, [width])]
    }
}

impl<const N: usize, const D: usize> Gradient<N> for Saved<D> {
    fn gradients(self, output: FlexTensor, wanted: [bool; N]) -> [Option<FlexTensor>; N] {
        let mut all = self.all(&output, None).into_iter();
        wanted.map(|wanted| all.next().filter(|_| wanted))
    }
}

impl<const N: usize, const D: usize> JointGradient<N, 2> for Saved<D> {
    fn gradients(
        self,
        [output, residual]: [Option<FlexTensor>; 2],
        wanted: [bool; N],
    ) -> [Option<FlexTensor>; N] {
        let Some(output) = output else {
            // Nothing depends on the norm.
            let mut all = std::iter::once(residual);
            return wanted.map(|wanted| all.next().flatten().filter(|_| wanted));
        };
        let mut all = self.all(&output, residual.as_ref()).into_iter();
        wanted.map(|wanted| all.next().filter(|_| wanted))
    }
}
