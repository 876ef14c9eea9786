//! The softmax of rows that see one key more each.

use crate::machine::simd::{dot, exp_in_place, largest, vectorised};

/// Rows of logits of one head.
#[derive(Clone, Copy)]
pub(super) struct CausalRows {
    /// How many rows there are.
    pub(super) count: usize,
    /// Keys that the first row sees.
    pub(super) seen: usize,
    /// Numbers from one row to the next.
    pub(super) stride: usize,
}

vectorised! {
    /// Replaces logits by exp(logit - largest of the row), zero where hidden; `sums` are the rows' sums, and `log_sums` (one
    /// every `step`) the logs of the sums of exp(logit). A row whose logits are all minus infinity has the sum 0, and a log
    /// sum after which its probabilities are 0.
    pub(super) fn causal_softmax(
        rows: CausalRows,
        logits: &mut [f32],
        sums: &mut [f32],
        log_sums: &mut [f32],
        step: usize,
    ) {
        for row in 0..rows.count {
            let (seen, rest) = logits[row * rows.stride..][..rows.stride].split_at_mut(rows.seen + row);
            let top = largest(seen);
            let shift = if top == f32::NEG_INFINITY { 0.0 } else { top };
            let sum = exp_in_place(seen, shift);
            rest.fill(0.0);
            sums[row] = sum;
            log_sums[row * step] = if sum == 0.0 { f32::MAX } else { shift + sum.ln() };
        }
    }

    /// Logits become probabilities P, and their gradient dP becomes P (dP - sum of P dP), that of the logits. The rows' log sums
    /// lie `step` apart. What rows do not see is 0 in P; of the gradient see [`hide_later`].
    pub(super) fn through_causal_softmax(
        rows: CausalRows,
        log_sums: &[f32],
        step: usize,
        logits: &mut [f32],
        gradient: &mut [f32],
    ) {
        for row in 0..rows.count {
            let (first, end) = (row * rows.stride, rows.seen + row);
            let (p, rest) = logits[first..][..rows.stride].split_at_mut(end);
            exp_in_place(p, log_sums[row * step]);
            rest.fill(0.0);
            let d = &mut gradient[first..][..end];
            let mean = dot(p, d);
            for (d, p) in d.iter_mut().zip(p.iter()) {
                *d = p * (*d - mean);
            }
        }
    }

    /// Clears what rows do not see.
    pub(super) fn hide_later(rows: CausalRows, x: &mut [f32]) {
        for row in 0..rows.count {
            x[row * rows.stride..][..rows.stride][rows.seen + row..].fill(0.0);
        }
    }
}
