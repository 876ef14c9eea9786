//! What the update computes, in plain tensor operations.

use super::{AdamW, AdamWState, Tensors};
use burn::tensor::Tensor;

pub(super) fn adamw([parameter, gradient, m, v]: Tensors, options: &AdamW) -> AdamWState {
    let (correction1, root_correction2) = options.corrections();
    // Most steps are not clipped, and on a GPU every operation is a launch.
    #[allow(clippy::float_cmp, reason = "exactly 1 where nothing is scaled")]
    let gradient =
        if options.gradient_scale == 1.0 { gradient } else { gradient.mul_scalar(options.gradient_scale) };
    let m = m.mul_scalar(options.beta1) + gradient.clone().mul_scalar(1.0 - options.beta1);
    let v = v.mul_scalar(options.beta2) + (gradient.clone() * gradient).mul_scalar(1.0 - options.beta2);
    let denominator = v.clone().sqrt().div_scalar(root_correction2).add_scalar(options.factors().eps);
    let update = m.clone().mul_scalar(options.learning_rate / correction1) / denominator;
    let decayed = parameter.mul_scalar(1.0 - options.learning_rate * options.weight_decay);
    AdamWState { parameter: decayed - update, m: flushed(m), v: flushed(v) }
}

/// x with 0 in the place of subnormal numbers.
fn flushed(x: Tensor<1>) -> Tensor<1> {
    let subnormal = x.clone().abs().lower_elem(f32::MIN_POSITIVE);
    x.mask_fill(subnormal, 0.0)
}
