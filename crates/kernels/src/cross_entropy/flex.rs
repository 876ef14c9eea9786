//! The loss on the CPU, row by row.

use crate::bf16::{made, widen_all, widened_part};
use crate::buffers::{GRAIN, computed};
use crate::simd::{exp, exp_sum, largest, vectorised};
use burn::tensor::bf16;
use rayon::prelude::*;

/// Rows of a task.
fn rows_of_task(classes: usize) -> usize {
    GRAIN.div_ceil(classes)
}

/// The tasks of so many rows, forward and backward.
pub(crate) fn tasks(rows: usize, classes: usize) -> usize {
    rows.div_ceil(rows_of_task(classes))
}

/// The loss of each row, and the log of each row's sum of exp(logits).
pub(super) fn forward(logits: &[f32], classes: usize, targets: &[usize]) -> (Vec<f32>, Vec<f32>) {
    row_by_row(logits, classes, targets, losses_of_rows)
}

/// The same of logits in bf16.
pub(super) fn forward_bf16(logits: &[bf16], classes: usize, targets: &[usize]) -> (Vec<f32>, Vec<f32>) {
    row_by_row(logits, classes, targets, |logits, classes, targets, losses, log_sums| {
        losses_of_rows(&widened_part(logits), classes, targets, losses, log_sums);
    })
}

/// Losses and log sums, which `compute` makes from the rows of a task.
fn row_by_row<T: Sync>(
    logits: &[T],
    classes: usize,
    targets: &[usize],
    compute: impl Fn(&[T], usize, &[usize], &mut [f32], &mut [f32]) + Sync,
) -> (Vec<f32>, Vec<f32>) {
    let mut losses = vec![0.0; targets.len()];
    let mut log_sums = vec![0.0; targets.len()];
    let rows = rows_of_task(classes);
    losses
        .par_chunks_mut(rows)
        .zip(log_sums.par_chunks_mut(rows))
        .zip(logits.par_chunks(rows * classes))
        .zip(targets.par_chunks(rows))
        .for_each(|(((losses, log_sums), logits), targets)| {
            compute(logits, classes, targets, losses, log_sums);
        });
    (losses, log_sums)
}

fn losses_of_rows(
    logits: &[f32],
    classes: usize,
    targets: &[usize],
    losses: &mut [f32],
    log_sums: &mut [f32],
) {
    log_sum_rows(logits, classes, log_sums);
    for (row, (loss, target)) in losses.iter_mut().zip(targets).enumerate() {
        *loss = log_sums[row] - logits[row * classes + target];
    }
}

/// The gradient of the logits: `gradient * (softmax - one-hot)`, row by row.
pub(super) fn backward(
    logits: &[f32],
    classes: usize,
    targets: &[usize],
    log_sums: &[f32],
    gradient: &[f32],
) -> Vec<f32> {
    let rows = rows_of_task(classes);
    computed(logits.len(), rows * classes, |task, out| {
        let first = task * rows;
        out.copy_from_slice(&logits[first * classes..][..out.len()]);
        gradient_in_place(out, classes, &targets[first..], &log_sums[first..], &gradient[first..]);
    })
}

/// The same of logits in bf16: computed in f32, rounded to bf16.
pub(super) fn backward_bf16(
    logits: &[bf16],
    classes: usize,
    targets: &[usize],
    log_sums: &[f32],
    gradient: &[f32],
) -> Vec<bf16> {
    let rows = rows_of_task(classes);
    made(logits.len(), rows * classes, |task, out| {
        let first = task * rows;
        widen_all(&logits[first * classes..], out);
        gradient_in_place(out, classes, &targets[first..], &log_sums[first..], &gradient[first..]);
    })
}

/// Replaces logits by their gradient.
fn gradient_in_place(
    logits: &mut [f32],
    classes: usize,
    targets: &[usize],
    log_sums: &[f32],
    gradient: &[f32],
) {
    softmax_rows(logits, classes, log_sums, gradient);
    for ((row, target), gradient) in logits.chunks_mut(classes).zip(targets).zip(gradient) {
        row[*target] -= gradient;
    }
}

vectorised! {
    fn log_sum_rows(logits: &[f32], classes: usize, log_sums: &mut [f32]) {
        for (row, log_sum) in logits.chunks_exact(classes).zip(log_sums) {
            let top = largest(row);
            *log_sum = top + exp_sum(row, top).ln();
        }
    }

    /// `factor * exp(logit - log sum)` in place, row by row.
    fn softmax_rows(logits: &mut [f32], classes: usize, log_sums: &[f32], factors: &[f32]) {
        for (row, (log_sum, factor)) in logits.chunks_exact_mut(classes).zip(log_sums.iter().zip(factors)) {
            for x in row {
                *x = factor * exp(*x - log_sum);
            }
        }
    }
}
