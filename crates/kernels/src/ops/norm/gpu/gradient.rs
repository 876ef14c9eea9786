//! What a normalisation keeps on the GPU, and its gradients.

use super::launch::{Call, Gradients, normalise, normalise_backward};
use crate::machine::autodiff::Primitive;
use crate::ops::norm::Norm;

/// What the gradient needs.
#[derive(Clone)]
pub(in crate::ops::norm) struct Kept {
    x: Primitive,
    gain: Primitive,
    stats: Primitive,
    call: Call,
}

impl Kept {
    /// The gradients of x, the gain and the bias; x also receives that of the residual stream.
    pub(in crate::ops::norm) fn gradients(
        self,
        output: Primitive,
        residual: Option<Primitive>,
        wanted: [bool; 3],
    ) -> [Primitive; 3] {
        let Self { x, gain, stats, mut call } = self;
        call.learned = wanted[1..].contains(&true);
        call.residual = residual.is_some();
        let residual = residual.unwrap_or_else(|| x.clone());
        let Gradients { x, gain, bias } = normalise_backward(x, gain, stats, output, residual, call);
        [x, gain, bias]
    }
}

/// x, the gain and the bias, of which the latter two may not be `given` -> y.
pub(in crate::ops::norm) fn forward(
    [x, gain, bias]: [Primitive; 3],
    norm: Norm,
    given: [bool; 2],
) -> (Primitive, Kept) {
    let call = Call { norm, gain: given[0], bias: given[1], learned: false, residual: false };
    let (y, stats) = normalise(x.clone(), gain.clone(), bias, call);
    (y, Kept { x, gain, stats, call })
}
