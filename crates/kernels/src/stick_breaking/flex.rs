//! Stick-breaking on the CPU, row by row.
//!
//! Sums along a row are taken in groups of [`LANES`]: those inside a group by doubling, so that one addition a group waits
//! for the one before.

use super::LEAST;
use crate::buffers::{GRAIN, computed, zeros};
use crate::pieces::{note, up_to};
use crate::simd::{LANES, exp, ln_1p_exp, vectorised};
use rayon::prelude::*;

/// As [`pieces`](crate::pieces) names calls.
const NAME: &str = "stick-breaking";

/// Logits in rows of `width` -> weights of the same shape, and the rest of each row.
pub(super) fn forward(logits: &[f32], width: usize) -> (Vec<f32>, Vec<f32>) {
    let rows = GRAIN.div_ceil(width);
    note(NAME, || up_to(rows, logits.len() / width));
    let mut weights = zeros(logits.len());
    let mut rest = zeros(logits.len() / width);
    let tasks = weights.par_chunks_mut(rows * width).zip(rest.par_chunks_mut(rows));
    tasks.zip(logits.par_chunks(rows * width)).for_each_init(
        || vec![0.0; width],
        |scratch, ((weights, rest), logits)| shares(logits, width, scratch, weights, rest),
    );
    (weights, rest)
}

/// The gradient of the logits, from the logits, the weights and the rests, and the gradients of both.
pub(super) fn backward(
    [logits, weights, rest]: [&[f32]; 3],
    of_weights: Option<&[f32]>,
    of_rest: Option<&[f32]>,
    width: usize,
) -> Vec<f32> {
    let rows = GRAIN.div_ceil(width);
    note(NAME, || up_to(rows, logits.len() / width));
    let none = vec![0.0; if of_weights.is_none() { width } else { 0 }];
    computed(logits.len(), rows * width, |task, out| {
        for (row, out) in out.chunks_exact_mut(width).enumerate() {
            let row = task * rows + row;
            let of_row = row * width..(row + 1) * width;
            let of_rest = of_rest.map_or(0.0, |of_rest| of_rest[row] * rest[row]);
            let of_weights = of_weights.map_or(&none[..], |of_weights| &of_weights[of_row.clone()]);
            shares_backward(&logits[of_row.clone()], &weights[of_row], of_weights, of_rest, out);
        }
    })
}

/// The part of a row after which all keys are hidden.
fn seen(logits: &[f32]) -> usize {
    logits.iter().rposition(|z| *z != f32::NEG_INFINITY).map_or(0, |last| last + 1)
}

/// The logit that is computed with: NaN stays NaN.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn bounded(z: f32) -> f32 {
    if z < LEAST { LEAST } else { z }
}

/// `ln sigmoid(-z)`, what the key leaves, from the [`ln_1p_exp`] of z.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn left(z: f32, tail: f32) -> f32 {
    -(if z < 0.0 { tail } else { z + tail })
}

/// `ln sigmoid(z)`, what the key takes, from the [`ln_1p_exp`] of z.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn taken(z: f32, tail: f32) -> f32 {
    if z < 0.0 { z - tail } else { -tail }
}

/// Each number plus all that follow it.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn with_following(mut x: [f32; LANES]) -> [f32; LANES] {
    let mut step = 1;
    while step < LANES {
        let before = x;
        for at in 0..LANES - step {
            x[at] += before[at + step];
        }
        step *= 2;
    }
    x
}

/// Each number plus all before it.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn with_previous(mut x: [f32; LANES]) -> [f32; LANES] {
    let mut step = 1;
    while step < LANES {
        let before = x;
        for at in step..LANES {
            x[at] += before[at - step];
        }
        step *= 2;
    }
    x
}

vectorised! {
    /// `weights` hold zeros; `scratch` is a row.
    fn shares(logits: &[f32], width: usize, scratch: &mut [f32], weights: &mut [f32], rest: &mut [f32]) {
        let rows = logits.chunks_exact(width).zip(weights.chunks_exact_mut(width));
        for ((logits, weights), rest) in rows.zip(rest) {
            let end = seen(logits);
            let (logits, weights, tails) = (&logits[..end], &mut weights[..end], &mut scratch[..end]);
            for (out, z) in tails.iter_mut().zip(logits) {
                *out = ln_1p_exp(bounded(*z));
            }
            // The log of what newer keys leave, the newest key first.
            let mut newer = 0.0;
            let (tail_groups, tail_rest) = tails.as_chunks::<LANES>();
            let (z_groups, z_rest) = logits.as_chunks::<LANES>();
            let (groups, others) = weights.as_chunks_mut::<LANES>();
            for ((weight, z), tail) in others.iter_mut().zip(z_rest).zip(tail_rest).rev() {
                *weight = newer;
                newer += left(bounded(*z), *tail);
            }
            for ((weights, z), tails) in groups.iter_mut().zip(z_groups).zip(tail_groups).rev() {
                let mut sums = [0.0_f32; LANES];
                for ((sum, z), tail) in sums.iter_mut().zip(z).zip(tails) {
                    *sum = left(bounded(*z), *tail);
                }
                let sums = with_following(sums);
                for at in 0..LANES - 1 {
                    weights[at] = newer + sums[at + 1];
                }
                weights[LANES - 1] = newer;
                newer += sums[0];
            }
            *rest = exp(newer);
            for ((weight, z), tail) in weights.iter_mut().zip(logits).zip(tails.iter()) {
                *weight = exp(taken(bounded(*z), *tail) + *weight);
            }
        }
    }

    /// One row; `of_rest` is the rest times its gradient.
    fn shares_backward(logits: &[f32], weights: &[f32], of_weights: &[f32], of_rest: f32, out: &mut [f32]) {
        let (groups, others) = out.as_chunks_mut::<LANES>();
        let (z_groups, z_others) = logits.as_chunks::<LANES>();
        let (weight_groups, weight_others) = weights.as_chunks::<LANES>();
        let (gradient_groups, gradient_others) = of_weights.as_chunks::<LANES>();
        // What comes to older keys, the oldest first.
        let mut older = of_rest;
        let inputs = z_groups.iter().zip(weight_groups).zip(gradient_groups);
        for (out, ((z, weights), gradients)) in groups.iter_mut().zip(inputs) {
            let mut own = [0.0_f32; LANES];
            for ((own, weight), gradient) in own.iter_mut().zip(weights).zip(gradients) {
                *own = weight * gradient;
            }
            let sums = with_previous(own);
            for at in 0..LANES {
                let before = if at == 0 { older } else { older + sums[at - 1] };
                out[at] = through_share(z[at], own[at], before);
            }
            older += sums[LANES - 1];
        }
        let inputs = z_others.iter().zip(weight_others).zip(gradient_others);
        for (out, ((z, weight), gradient)) in others.iter_mut().zip(inputs) {
            let own = weight * gradient;
            *out = through_share(*z, own, older);
            older += own;
        }
    }
}

/// `own (1 - sigmoid(z)) - sigmoid(z) older`.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn through_share(z: f32, own: f32, older: f32) -> f32 {
    let e = exp(-z.abs());
    let d = 1.0 / (1.0 + e);
    let (taken, left) = if z < 0.0 { (e * d, d) } else { (d, e * d) };
    own * left - taken * older
}
