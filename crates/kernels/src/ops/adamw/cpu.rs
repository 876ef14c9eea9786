//! The update on the CPU: one pass over the four tensors of every parameter.

use super::{AdamW, Factors};
use crate::machine::autodiff::{compact, values};
use crate::machine::buffers::GRAIN;
use crate::machine::simd::vectorised;
use burn_flex::FlexTensor;
use rayon::prelude::*;

/// The new parameters, m and v of each; written in place where nothing else holds the tensors. Each comes as parameter,
/// gradient, m and v. All are cut into tasks of one loop: a small parameter alone has work for one thread.
pub(super) fn adamw_all(given: Vec<([FlexTensor; 4], AdamW)>) -> Vec<[FlexTensor; 3]> {
    let (mut updated, others): (Vec<[FlexTensor; 3]>, Vec<_>) = given
        .into_iter()
        .map(|([parameter, gradient, m, v], options)| {
            ([parameter, m, v].map(compact), (gradient, options.factors()))
        })
        .unzip();
    let gradients: Vec<_> = others.iter().map(|(gradient, factors)| (values(gradient), *factors)).collect();
    let mut tasks = Vec::new();
    for (state, (gradient, factors)) in updated.iter_mut().zip(&gradients) {
        let [parameter, m, v] = state.each_mut().map(|tensor| tensor.storage_mut::<f32>().chunks_mut(GRAIN));
        let chunks = parameter.zip(gradient.chunks(GRAIN)).zip(m.zip(v));
        tasks.extend(chunks.map(|((parameter, gradient), (m, v))| (*factors, parameter, gradient, m, v)));
    }
    tasks
        .into_par_iter()
        .for_each(|(factors, parameter, gradient, m, v)| update(factors, parameter, gradient, m, v));
    updated
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
fn flushed(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0.0 } else { x }
}
