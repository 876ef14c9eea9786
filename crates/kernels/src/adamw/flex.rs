//! The update on the CPU: one pass over the four tensors.

use super::{AdamW, Factors};
use crate::autodiff::{compact, values};
use crate::buffers::GRAIN;
use crate::simd::vectorised;
use burn_flex::FlexTensor;
use rayon::prelude::*;

/// The tasks of the update of a parameter of so many numbers.
pub(crate) fn tasks(numbers: usize) -> usize {
    numbers.div_ceil(GRAIN)
}

/// The new parameter, m and v; written in place where nothing else holds the tensor.
pub(super) fn adamw(
    [parameter, gradient, m, v]: [FlexTensor; 4],
    options: &AdamW,
) -> (FlexTensor, FlexTensor, FlexTensor) {
    let factors = options.factors();
    let gradient = values(&gradient);
    let [mut parameter, mut m, mut v] = [parameter, m, v].map(compact);
    parameter
        .storage_mut::<f32>()
        .par_chunks_mut(GRAIN)
        .zip(m.storage_mut::<f32>().par_chunks_mut(GRAIN))
        .zip(v.storage_mut::<f32>().par_chunks_mut(GRAIN))
        .zip(gradient.par_chunks(GRAIN))
        .for_each(|(((parameter, m), v), gradient)| update(factors, parameter, gradient, m, v));
    (parameter, m, v)
}

vectorised! {
    fn update(factors: Factors, parameter: &mut [f32], gradient: &[f32], m: &mut [f32], v: &mut [f32]) {
        for ((p, g), (m, v)) in parameter.iter_mut().zip(gradient).zip(m.iter_mut().zip(v)) {
            let g = g * factors.gradient_scale;
            let first = *m * factors.betas[0] + g * factors.rests[0];
            let second = *v * factors.betas[1] + g * g * factors.rests[1];
            let denominator = second.sqrt() * factors.inverse_root_correction + factors.eps;
            *p = *p * factors.decay - first * factors.learning_rate / denominator;
            *m = flushed(first);
            *v = flushed(second);
        }
    }
}

/// x, or 0 where x is subnormal.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn flushed(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0.0 } else { x }
}
