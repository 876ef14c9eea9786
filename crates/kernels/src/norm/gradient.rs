//! The gradient of the fused normalisations.

use super::flex::{self, Norm};
use crate::autodiff::{Gradient, tensor_of, values};
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

/// x, the gain and, if there is one, the bias.
impl<const N: usize, const D: usize> Gradient<N> for Saved<D> {
    fn gradients(self, output: FlexTensor, wanted: [bool; N]) -> [Option<FlexTensor>; N] {
        let shape = self.x.layout().shape().dims::<D>();
        let [x, gain, bias] =
            flex::backward(self.norm, &values(&self.x), &values(&self.gain), &self.stats, &values(&output));
        let width = self.norm.width;
        let mut all = [tensor_of(x, shape), tensor_of(gain, [width]), tensor_of(bias, [width])].into_iter();
        wanted.map(|wanted| all.next().filter(|_| wanted))
    }
}
