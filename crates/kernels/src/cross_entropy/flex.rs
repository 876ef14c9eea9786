//! The loss on the CPU, row by row.

use crate::buffers::{GRAIN, computed};
use crate::simd::{exp, exp_sum, largest, vectorised};
use rayon::prelude::*;

/// The loss of each row, and the log of each row's sum of exp(logits).
pub(super) fn forward(logits: &[f32], classes: usize, targets: &[usize]) -> (Vec<f32>, Vec<f32>) {
    let mut losses = vec![0.0; targets.len()];
    let mut log_sums = vec![0.0; targets.len()];
    let rows = GRAIN.div_ceil(classes);
    losses
        .par_chunks_mut(rows)
        .zip(log_sums.par_chunks_mut(rows))
        .zip(logits.par_chunks(rows * classes))
        .zip(targets.par_chunks(rows))
        .for_each(|(((losses, log_sums), logits), targets)| {
            log_sum_rows(logits, classes, log_sums);
            for (row, (loss, target)) in losses.iter_mut().zip(targets).enumerate() {
                *loss = log_sums[row] - logits[row * classes + target];
            }
        });
    (losses, log_sums)
}

/// The gradient of the logits: `gradient * (softmax - one-hot)`, row by row.
pub(super) fn backward(
    logits: &[f32],
    classes: usize,
    targets: &[usize],
    log_sums: &[f32],
    gradient: &[f32],
) -> Vec<f32> {
    let rows = GRAIN.div_ceil(classes);
    computed(logits.len(), rows * classes, |task, out| {
        let first = task * rows;
        let logits = &logits[first * classes..];
        softmax_rows(out, logits, classes, &log_sums[first..], &gradient[first..]);
        for (row, out) in out.chunks_mut(classes).enumerate() {
            out[targets[first + row]] -= gradient[first + row];
        }
    })
}

vectorised! {
    fn log_sum_rows(logits: &[f32], classes: usize, log_sums: &mut [f32]) {
        for (row, log_sum) in logits.chunks_exact(classes).zip(log_sums) {
            let top = largest(row);
            *log_sum = top + exp_sum(row, top).ln();
        }
    }

    /// `factor * exp(logit - log sum)`, row by row.
    fn softmax_rows(out: &mut [f32], logits: &[f32], classes: usize, log_sums: &[f32], factors: &[f32]) {
        let rows = out.chunks_exact_mut(classes).zip(logits.chunks_exact(classes));
        for ((out, row), (log_sum, factor)) in rows.zip(log_sums.iter().zip(factors)) {
            for (out, x) in out.iter_mut().zip(row) {
                *out = factor * exp(x - log_sum);
            }
        }
    }
}
