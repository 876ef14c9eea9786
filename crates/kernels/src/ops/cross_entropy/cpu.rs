//! The loss on the CPU, row by row: computed in f32, on logits of f32 or bf16.

use crate::machine::buffers::{GRAIN, written};
use crate::machine::simd::{Number, exp, exp_sum, largest, vectorised};
use rayon::prelude::*;
use std::mem::MaybeUninit;

/// Rows of a task.
fn rows_of_task(classes: usize) -> usize {
    GRAIN.div_ceil(classes)
}

/// The loss of each row, and the log of each row's sum of exp(logits).
pub(super) fn forward<T: Number>(logits: &[T], classes: usize, targets: &[usize]) -> (Vec<f32>, Vec<f32>) {
    let mut losses = vec![0.0; targets.len()];
    let mut log_sums = vec![0.0; targets.len()];
    let rows = rows_of_task(classes);
    losses
        .par_chunks_mut(rows)
        .zip(log_sums.par_chunks_mut(rows))
        .zip(logits.par_chunks(rows * classes))
        .zip(targets.par_chunks(rows))
        .for_each(|(((losses, log_sums), logits), targets)| {
            log_sum_rows(logits, classes, log_sums);
            for (row, (loss, target)) in losses.iter_mut().zip(targets).enumerate() {
                *loss = log_sums[row] - logits[row * classes + target].widen();
            }
        });
    (losses, log_sums)
}

/// The gradient of the logits: `gradient * (softmax - one-hot)`, row by row.
pub(super) fn backward<T: Number>(
    logits: &[T],
    classes: usize,
    targets: &[usize],
    log_sums: &[f32],
    gradient: &[f32],
) -> Vec<T> {
    let rows = rows_of_task(classes);
    written(logits.len(), rows * classes, |task, out| {
        let first = task * rows;
        let (log_sums, gradient) = (&log_sums[first..], &gradient[first..]);
        let logits = &logits[first * classes..][..out.len()];
        softmax_rows(logits, classes, log_sums, gradient, out);
        for (row, (out, target)) in out.chunks_mut(classes).zip(&targets[first..]).enumerate() {
            let x = logits[row * classes + target].widen();
            let share = gradient[row] * exp(x - log_sums[row]);
            out[*target].write(T::round(share - gradient[row]));
        }
    })
}

vectorised! {
    fn log_sum_rows<T: Number>(logits: &[T], classes: usize, log_sums: &mut [f32]) {
        for (row, log_sum) in logits.chunks_exact(classes).zip(log_sums) {
            let top = largest(row);
            *log_sum = top + exp_sum(row, top).ln();
        }
    }

    /// `factor * exp(logit - log sum)`, row by row.
    fn softmax_rows<T: Number>(
        logits: &[T],
        classes: usize,
        log_sums: &[f32],
        factors: &[f32],
        out: &mut [MaybeUninit<T>],
    ) {
        let rows = logits.chunks_exact(classes).zip(out.chunks_exact_mut(classes));
        for ((row, out), (log_sum, factor)) in rows.zip(log_sums.iter().zip(factors)) {
            for (out, x) in out.iter_mut().zip(row) {
                out.write(T::round(factor * exp(x.widen() - log_sum)));
            }
        }
    }
}
