//! What is made of the logits of a row.

use crate::machine::simd::{LANES, Number, exp, exp_sum, fold_sum, largest, vectorised};
use burn::tensor::bf16;

vectorised! {
    /// The loss of each row of logits. Rows lie `stride` apart.
    pub(super) fn losses_of_rows<T: Number>(
        logits: &[T],
        stride: usize,
        classes: usize,
        targets: &[usize],
        losses: &mut [f32],
    ) {
        for ((row, target), loss) in logits.chunks_exact(stride).zip(targets).zip(losses) {
            let row = &row[..classes];
            let top = largest(row);
            *loss = top + exp_sum(row, top).ln() - row[*target].widen();
        }
    }

    /// The class of the largest logit of each row, the first of those alike.
    pub(super) fn largest_of_rows<T: Number>(logits: &[T], stride: usize, classes: usize, out: &mut [i32]) {
        for (row, out) in logits.chunks_exact(stride).zip(out) {
            let row = &row[..classes];
            *out = first_of(row, largest(row)) as i32;
        }
    }

    /// The loss of each row of logits, which become its gradient times the row's share: `share * (softmax - one-hot)`.
    /// `exponentials` has room for a row.
    pub(super) fn slopes<T: Number>(
        logits: &mut [T],
        stride: usize,
        classes: usize,
        targets: &[usize],
        shares: &[f32],
        losses: &mut [f32],
        exponentials: &mut [f32],
    ) {
        let given = targets.iter().zip(shares);
        for ((row, (target, share)), loss) in logits.chunks_exact_mut(stride).zip(given).zip(losses) {
            let row = &mut row[..classes];
            let picked = row[*target].widen();
            let top = largest(row);
            let total = exponentials_of(row, top, exponentials);
            *loss = top + total.ln() - picked;
            let factor = share / total;
            T::round_scaled(exponentials, factor, row);
            row[*target] = T::round(exponentials[*target] * factor - share);
        }
    }

    /// Every number times a factor.
    pub(super) fn scale(x: &mut [f32], factor: f32) {
        for x in x {
            *x *= factor;
        }
    }

    /// Every number rounded to bf16.
    pub(super) fn round_in_place(x: &mut [f32]) {
        for x in x {
            *x = bf16::round(*x).widen();
        }
    }
}

/// Writes exp(x - shift) and returns their sum, in the order of [`exp_sum`].
#[inline(always)]
fn exponentials_of<T: Number>(x: &[T], shift: f32, out: &mut [f32]) -> f32 {
    let (chunks, rest) = x.as_chunks::<LANES>();
    let (out, rest_out) = out[..x.len()].as_chunks_mut::<LANES>();
    let mut lanes = [0.0_f32; LANES];
    for (out, chunk) in out.iter_mut().zip(chunks) {
        for ((lane, out), x) in lanes.iter_mut().zip(out).zip(chunk) {
            *out = exp(x.widen() - shift);
            *lane += *out;
        }
    }
    let mut sum = fold_sum(lanes);
    for (out, x) in rest_out.iter_mut().zip(rest) {
        *out = exp(x.widen() - shift);
        sum += *out;
    }
    sum
}

/// Where a row first holds its largest number; 0 where all are NaN.
#[inline(always)]
fn first_of<T: Number>(row: &[T], top: f32) -> usize {
    // Whole chunks are compared at once.
    let (chunks, _) = row.as_chunks::<LANES>();
    let holds = |chunk: &[T; LANES]| chunk.iter().fold(false, |holds, x| holds | (x.widen() >= top));
    let from = chunks.iter().position(holds).unwrap_or(chunks.len()) * LANES;
    row[from..].iter().position(|x| x.widen() >= top).map_or(0, |at| from + at)
}
