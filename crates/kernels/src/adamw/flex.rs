//! The update on the CPU: one pass over the four tensors.

use super::AdamW;
use crate::buffers::GRAIN;
use crate::lanes::vectorised;
use crate::tape::{compact, values};
use burn_flex::FlexTensor;
use rayon::prelude::*;

/// The numbers of one update, in f32.
#[derive(Clone, Copy)]
struct Step {
    gradient_scale: f32,
    betas: [f32; 2],
    /// 1 - beta, rounded from f64.
    rests: [f32; 2],
    learning_rate: f32,
    inverse_root_correction: f32,
    eps: f32,
    decay: f32,
}

/// The new parameter, m and v; written in place where nothing else holds the tensor.
pub(super) fn adamw(
    [parameter, gradient, m, v]: [FlexTensor; 4],
    options: &AdamW,
) -> (FlexTensor, FlexTensor, FlexTensor) {
    let (correction1, root_correction2) = options.corrections();
    let step = Step {
        gradient_scale: options.gradient_scale as f32,
        betas: [options.beta1 as f32, options.beta2 as f32],
        rests: [(1.0 - options.beta1) as f32, (1.0 - options.beta2) as f32],
        learning_rate: (options.learning_rate / correction1) as f32,
        inverse_root_correction: (1.0 / root_correction2) as f32,
        eps: options.eps as f32,
        decay: (1.0 - options.learning_rate * options.weight_decay) as f32,
    };
    let gradient = values(&gradient);
    let [mut parameter, mut m, mut v] = [parameter, m, v].map(compact);
    parameter
        .storage_mut::<f32>()
        .par_chunks_mut(GRAIN)
        .zip(m.storage_mut::<f32>().par_chunks_mut(GRAIN))
        .zip(v.storage_mut::<f32>().par_chunks_mut(GRAIN))
        .zip(gradient.par_chunks(GRAIN))
        .for_each(|(((parameter, m), v), gradient)| update(step, parameter, gradient, m, v));
    (parameter, m, v)
}

vectorised! {
    fn update(step: Step, parameter: &mut [f32], gradient: &[f32], m: &mut [f32], v: &mut [f32]) {
        for ((p, g), (m, v)) in parameter.iter_mut().zip(gradient).zip(m.iter_mut().zip(v)) {
            let g = g * step.gradient_scale;
            *m = *m * step.betas[0] + g * step.rests[0];
            *v = *v * step.betas[1] + g * g * step.rests[1];
            let denominator = v.sqrt() * step.inverse_root_correction + step.eps;
            *p = *p * step.decay - *m * step.learning_rate / denominator;
        }
    }
}
