//! LSSA and LSSAR: weights by softplus, and a power of those above the average.
//!
//! `a_j = softplus(z_j)` of the visible keys, over `sum + eps`; that is LSSA. With a power p, `u_j = max(N a_j - o, 0)` with N the keys
//! that the query sees, and `u_j^p` over `sum + eps`: LSSAR (Gao et al. 2025, arXiv:2501.13428). o is 1, and 0 for the first three
//! queries of a text. `eps = 1e-8` stays in both sums: a row of equal weights gives exactly 0 from the fourth query on. What
//! `z` is (q and k of length 1, times `ln d ln N`) the caller says.
//!
//! `u^p` leaves f32 from 372 keys on at p = 15. With m the largest u, `r = u / m` and `r^p / (sum of r^p + eps / m^p)` is the same.
//!
//! Backward, with g the gradient of the weights w: `du = p w / u (g - sum of w g)`, `h = N du` (`h = g` without a power),
//! `dz = sigmoid(z) (h - sum of a h) / (sum of softplus + eps)`.

use super::{Normaliser, Row, RowPosition, Weighed, of_places};
use crate::machine::simd::{LANES, dot, fold_sum, largest, ln_1p_exp, sigmoid, sum, vectorised};
use burn::tensor::{Tensor, activation::log_sigmoid};

/// What stands in both sums.
const EPS: f32 = 1e-8;
/// Queries at the beginning of a text whose average is not taken off.
const FIRST_QUERIES: usize = 3;
/// The least logit of the plain form: its softplus is 0 in f32.
const LEAST: f32 = -1e4;

/// LSSA, or with a power LSSAR.
#[derive(Clone, Copy, Debug)]
pub struct Lssar {
    pub power: Option<u32>,
}

#[inline(always)]
fn softplus(z: f32) -> f32 {
    ln_1p_exp(z) + if z > 0.0 { z } else { 0.0 }
}

/// Each number to a power.
#[inline(always)]
fn raise(x: &mut [f32], power: u32) {
    for x in x.chunks_mut(LANES) {
        let (mut base, mut left) = ([0.0; LANES], power);
        base[..x.len()].copy_from_slice(x);
        let mut result = [1.0_f32; LANES];
        while left > 0 {
            for (result, base) in result.iter_mut().zip(&mut base) {
                *result *= if left % 2 == 1 { *base } else { 1.0 };
                *base *= *base;
            }
            left /= 2;
        }
        x.copy_from_slice(&result[..x.len()]);
    }
}

vectorised! {
    /// The sum of softplus of the logits with eps, and how many keys are visible.
    fn totals(row: &[f32]) -> [f32; 2] {
        let mut lanes = [[0.0_f32; LANES]; 2];
        for chunk in row.chunks(LANES) {
            for (lane, z) in chunk.iter().enumerate() {
                lanes[0][lane] += softplus(*z);
                lanes[1][lane] += if *z == f32::NEG_INFINITY { 0.0 } else { 1.0 };
            }
        }
        let [total, visible] = lanes.map(fold_sum);
        [total + EPS, visible]
    }

    /// Turns logits into `softplus(z) factor`.
    fn first_weights(row: &mut [f32], factor: f32) {
        for z in row {
            *z = softplus(*z) * factor;
        }
    }

    /// Turns `N a` into the weights of the second stage.
    fn second_weights(row: &mut [f32], off: f32, power: u32) {
        let most = largest(row) - off;
        if most <= 0.0 {
            row.fill(0.0);
            return;
        }
        let inverse = 1.0 / most;
        for x in row.iter_mut() {
            let above = *x - off;
            *x = if above < 0.0 { 0.0 } else { above * inverse };
        }
        raise(row, power);
        let left = f64::from(EPS) / f64::from(most).powi(power.cast_signed());
        let inverse = 1.0 / (sum(row) + left as f32);
        for x in row {
            *x *= inverse;
        }
    }

    /// The gradient of `a` in place of that of the weights, of logits whose sum and number are given.
    fn through_second(logits: &[f32], weights: &[f32], totals: [f32; 2], off: f32, power: f32, gradient: &mut [f32]) {
        let [total, visible] = totals;
        let mean = dot(weights, gradient);
        for ((gradient, z), weight) in gradient.iter_mut().zip(logits).zip(weights) {
            let above = softplus(*z) * (visible / total) - off;
            let of_above = power * weight / above * (*gradient - mean);
            *gradient = if above > 0.0 { visible * of_above } else { 0.0 };
        }
    }

    /// The gradient of the logits in place of that of `a`.
    fn through_first(logits: &[f32], total: f32, gradient: &mut [f32]) {
        let mut lanes = [0.0_f32; LANES];
        for (logits, gradient) in logits.chunks(LANES).zip(gradient.chunks(LANES)) {
            for (lane, (z, gradient)) in lanes.iter_mut().zip(logits.iter().zip(gradient)) {
                *lane += softplus(*z) * gradient;
            }
        }
        let inverse = 1.0 / total;
        let mean = fold_sum(lanes) * inverse;
        for (gradient, z) in gradient.iter_mut().zip(logits) {
            *gradient = (*gradient - mean) * inverse * sigmoid(*z);
        }
    }
}

/// What is taken off `N a` of a query.
fn off(query: usize) -> f32 {
    if query < FIRST_QUERIES { 0.0 } else { 1.0 }
}

impl Normaliser for Lssar {
    fn weigh(&self, row: &mut [f32], place: RowPosition) -> Weighed {
        self.weigh_again(row, place, 0.0);
        Weighed { divisor: 1.0, kept: 0.0 }
    }

    fn weigh_again(&self, row: &mut [f32], place: RowPosition, _: f32) {
        let [total, visible] = totals(row);
        match self.power {
            // The largest of numbers does not tell.
            _ if total.is_nan() => row.fill(f32::NAN),
            None => first_weights(row, 1.0 / total),
            Some(power) => {
                first_weights(row, visible / total);
                second_weights(row, off(place.query), power);
            }
        }
    }

    fn gradient(&self, row: Row<'_>, gradient: &mut [f32]) {
        let totals @ [total, _] = totals(row.logits);
        if let Some(power) = self.power {
            through_second(row.logits, row.weights, totals, off(row.place.query), power as f32, gradient);
        }
        through_first(row.logits, total, gradient);
    }

    fn plain(&self, logits: Tensor<4>, first: usize) -> Tensor<4> {
        let [_, _, queries, _] = logits.dims();
        let dtype = logits.dtype();
        let visible = logits.clone().detach().greater_elem(f32::MIN).float().cast(dtype).sum_dim(3);
        let a = log_sigmoid(logits.clamp_min(LEAST).neg()).neg();
        let a = a.clone() / a.sum_dim(3).add_scalar(EPS);
        let Some(power) = self.power else { return a };
        let off = of_places([queries, 1], first, |query, _| query >= FIRST_QUERIES, &a.device())
            .float()
            .cast(dtype);
        let above = (a * visible - off).clamp_min(0.0);
        let most = above.clone().detach().max_dim(3);
        let most = most.clone().mask_fill(most.lower_equal_elem(0.0), 1.0);
        let raised = (above / most.clone()).powi_scalar(power.cast_signed());
        let left = most.powi_scalar(-power.cast_signed()).mul_scalar(EPS);
        raised.clone() / (raised.sum_dim(3) + left)
    }

    fn reads_logits(&self) -> bool {
        true
    }
}
