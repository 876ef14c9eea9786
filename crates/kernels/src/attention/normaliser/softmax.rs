//! The softmax of logits that may all be hidden.
//!
//! Where all logits of a row are minus infinity, the row has no largest one, and the usual formula divides 0 by 0. Such a row
//! gives zeros here, and its logits receive the gradient 0. Else `p (g - sum of p g)`, with the gradient of the kept log of
//! the sum of exp(logits) added to g.

use super::{Normaliser, Row, RowPosition, Weighed};
use crate::attention::spec::NOTHING_SEEN;
use crate::machine::simd::{dot, exp_in_place, largest, vectorised};
use burn::tensor::Tensor;

/// `exp(z) / sum of exp(z)`.
#[derive(Clone, Copy, Debug)]
pub struct Softmax;

/// burn's softmax, but for the rows that are minus infinity throughout.
pub(crate) fn plain<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    // The largest score only keeps exp in range; the value does not depend on it, so neither does the gradient.
    let largest = x.clone().detach().max_dim(D - 1);
    let none = largest.clone().lower_elem(f32::MIN);
    let exp = (x - largest.mask_fill(none.clone(), 0.0)).exp();
    let sum = exp.clone().sum_dim(D - 1).mask_fill(none, 1.0);
    exp / sum
}

vectorised! {
    /// Replaces logits by exp(logit - largest), and gives their sum and that largest one.
    fn exponentials(row: &mut [f32]) -> [f32; 2] {
        let top = largest(row);
        let shift = if top == f32::NEG_INFINITY { 0.0 } else { top };
        [exp_in_place(row, shift), shift]
    }

    fn exponentials_from(row: &mut [f32], shift: f32) {
        exp_in_place(row, shift);
    }

    fn through(p: &[f32], of_log_sum: f32, gradient: &mut [f32]) {
        let mean = dot(p, gradient) - of_log_sum;
        for (gradient, p) in gradient.iter_mut().zip(p) {
            *gradient = p * (*gradient - mean);
        }
    }
}

impl Normaliser for Softmax {
    fn weigh(&self, row: &mut [f32], _: RowPosition) -> Weighed {
        let [sum, shift] = exponentials(row);
        Weighed { divisor: sum, kept: if sum == 0.0 { NOTHING_SEEN } else { shift + sum.ln() } }
    }

    fn weigh_again(&self, row: &mut [f32], _: RowPosition, kept: f32) {
        exponentials_from(row, kept);
    }

    fn gradient(&self, row: Row<'_>, gradient: &mut [f32]) {
        through(row.weights, row.of_kept, gradient);
    }

    fn plain(&self, logits: Tensor<4>, _: usize) -> Tensor<4> {
        plain(logits)
    }

    fn is_softmax(&self) -> bool {
        true
    }
}
