//! The softmax on the CPU, row by row.

use crate::buffers::{GRAIN, computed};
use crate::pieces::{note, up_to};
use crate::simd::{dot, exp_in_place, largest, vectorised};

/// As [`pieces`](crate::pieces) names calls.
const NAME: &str = "softmax";

/// x in rows of `width` -> the same.
pub(super) fn forward(x: &[f32], width: usize) -> Vec<f32> {
    let chunk = GRAIN.div_ceil(width) * width;
    note(NAME, || up_to(chunk, x.len()));
    computed(x.len(), chunk, |task, out| softmax_rows(&x[task * chunk..], width, out))
}

/// The gradient of x from the output p and its gradient.
pub(super) fn backward(p: &[f32], gradient: &[f32], width: usize) -> Vec<f32> {
    let chunk = GRAIN.div_ceil(width) * width;
    note(NAME, || up_to(chunk, p.len()));
    computed(p.len(), chunk, |task, out| {
        let from = task * chunk;
        softmax_rows_backward(&p[from..], &gradient[from..], width, out);
    })
}

vectorised! {
    fn softmax_rows(x: &[f32], width: usize, out: &mut [f32]) {
        for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            out.copy_from_slice(x);
            let top = largest(x);
            let sum = exp_in_place(out, if top == f32::NEG_INFINITY { 0.0 } else { top });
            let inverse = if sum == 0.0 { 0.0 } else { 1.0 / sum };
            for out in out {
                *out *= inverse;
            }
        }
    }

    fn softmax_rows_backward(p: &[f32], gradient: &[f32], width: usize, out: &mut [f32]) {
        let rows = p.chunks_exact(width).zip(gradient.chunks_exact(width));
        for ((p, gradient), out) in rows.zip(out.chunks_exact_mut(width)) {
            let mean = dot(p, gradient);
            for ((out, p), gradient) in out.iter_mut().zip(p).zip(gradient) {
                *out = p * (gradient - mean);
            }
        }
    }
}
