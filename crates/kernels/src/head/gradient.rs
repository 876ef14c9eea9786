//! The gradient of the head and its loss: computed with the loss, for the gradient 1 of that.

use super::rows::{round_in_place, scale};
use crate::autodiff::{Gradient, values};
use crate::buffers::GRAIN;
use burn_flex::FlexTensor;
use rayon::prelude::*;

/// The gradients themselves.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    /// `[batch, length, width]`, and the weights' as they lie: what was wanted.
    pub(super) gradients: [Option<FlexTensor>; 2],
    /// Whether they are rounded to bf16 in the end.
    pub(super) rounds: bool,
}

impl Gradient<2> for Saved {
    fn gradients(self, output: FlexTensor, wanted: [bool; 2]) -> [Option<FlexTensor>; 2] {
        let factor = values(&output)[0];
        let mut wanted = wanted.into_iter();
        self.gradients.map(|gradient| {
            let is_wanted = wanted.next().unwrap_or_default();
            gradient.filter(|_| is_wanted).map(|gradient| times(gradient, factor, self.rounds))
        })
    }
}

/// `factor * x`, rounded if asked to. The numbers of x are all of its storage, in any order.
fn times(mut x: FlexTensor, factor: f32, rounds: bool) -> FlexTensor {
    let is_one = factor.to_bits() == 1.0_f32.to_bits();
    if is_one && !rounds {
        return x;
    }
    x.storage_mut::<f32>().par_chunks_mut(GRAIN).for_each(|x| {
        scale(x, factor);
        if rounds {
            round_in_place(x);
        }
    });
    x
}
