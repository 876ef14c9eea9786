//! Alpha-entmax: a softmax whose small weights are exactly 0.
//!
//! `p_j = max((alpha - 1) z_j - tau, 0)^(1 / (alpha - 1))` with tau such that a row adds up to 1 (Peters et al. 2019,
//! arXiv:1905.05702); alpha 1 is the softmax in the limit, 2 is sparsemax (Martins and Astudillo 2016, arXiv:1602.02068). Above 2
//! the slope at the edge of the support is infinite.
//!
//! With `tau = (alpha - 1) s - 1` that is `p_j = e(s - z_j)`, `e(u) = max(1 - (alpha - 1) u, 0)^(1 / (alpha - 1))`, which goes to
//! `exp(-u)` as alpha goes to 1: s is kept, where the softmax keeps the log of a sum. It is found by Newton's method on
//! `(sum of e(s - z_j))^(alpha - 1) = 1` from the largest logit on. The left side is convex and falls, so the steps never go too far, and
//! where all logits are alike one is enough.
//!
//! Backward, `dz = r (g - sum of r g / sum of r)` with `r_j = p_j^(2 - alpha)` on the support and 0 off it.

use super::{Normaliser, Row, RowPosition, Softmax, Weighed};
use crate::attention::spec::NOTHING_SEEN;
use crate::machine::simd::{LANES, exp, fold_sum, largest, vectorised};
use burn::tensor::Tensor;
use std::fmt::Debug;
use std::sync::Arc;

/// How far from 1 a row may add up: 16,384 weights in f32 are not nearer.
const ENOUGH: f64 = 1e-6;
/// Steps of Newton's method. Rows of any kind take fewer than ten.
const MOST_STEPS: usize = 50;
/// Those of the plain form, which begins further away.
const PLAIN_STEPS: usize = 24;

/// The normaliser of an alpha from 1 to 2.
///
/// # Panics
/// It is another alpha, which is an error when a config is read.
pub fn entmax(alpha: f64) -> Arc<dyn Normaliser> {
    assert!((1.0..=2.0).contains(&alpha), "entmax: alpha {alpha}");
    let a = alpha - 1.0;
    match alpha {
        1.0 => Arc::new(Softmax),
        1.5 => Arc::new(Entmax { a, power: Square }),
        2.0 => Arc::new(Entmax { a, power: Plain }),
        _ => Arc::new(Entmax { a, power: Any { a: a as f32, inverse: a.recip() as f32 } }),
    }
}

#[derive(Debug)]
struct Entmax<P> {
    /// alpha - 1.
    a: f64,
    power: P,
}

/// The function e of an alpha.
trait Power: Copy + Debug + Send + Sync {
    /// `[e(u), -de(u)/du]` for u from 0.
    fn at(self, u: f32) -> [f32; 2];

    /// The second from the first.
    fn slope(self, weight: f32) -> f32;
}

/// Alpha 1.5.
#[derive(Clone, Copy, Debug)]
struct Square;

/// Alpha 2.
#[derive(Clone, Copy, Debug)]
struct Plain;

/// Any other alpha.
#[derive(Clone, Copy, Debug)]
struct Any {
    a: f32,
    inverse: f32,
}

impl Power for Square {
    #[inline(always)]
    fn at(self, u: f32) -> [f32; 2] {
        let base = 1.0 - 0.5 * u;
        let base = if base < 0.0 { 0.0 } else { base };
        [base * base, base]
    }

    #[inline(always)]
    fn slope(self, weight: f32) -> f32 {
        weight.sqrt()
    }
}

impl Power for Plain {
    #[inline(always)]
    fn at(self, u: f32) -> [f32; 2] {
        let base = 1.0 - u;
        [if base < 0.0 { 0.0 } else { base }, if base > 0.0 { 1.0 } else { 0.0 }]
    }

    #[inline(always)]
    fn slope(self, weight: f32) -> f32 {
        if weight > 0.0 { 1.0 } else { 0.0 }
    }
}

impl Power for Any {
    #[inline(always)]
    fn at(self, u: f32) -> [f32; 2] {
        let x = -self.a * u;
        // Below -1 anything will do.
        let x = if x < -1.0 { -1.0 } else { x };
        let log = ln(1.0 + x, x);
        let (weight, slope) = (exp(log * self.inverse), exp(log * (self.inverse - 1.0)));
        if x <= -1.0 { [0.0, 0.0] } else { [weight, slope] }
    }

    #[inline(always)]
    fn slope(self, weight: f32) -> f32 {
        let slope = exp(ln(weight, weight - 1.0) * (1.0 - self.a));
        if weight > 0.0 { slope } else { 0.0 }
    }
}

/// `ln y` of a y from 0 to 1, given `y - 1` too, which has more digits near 1; NaN for NaN, some number for 0. `y = 2^n m` with m near 1,
/// and `2 artanh(s)` with `s = (m - 1) / (m + 1)` by its series.
#[inline(always)]
fn ln(y: f32, below: f32) -> f32 {
    let bits = y.to_bits();
    // m from sqrt(1/2) to sqrt(2).
    let n = bits.wrapping_sub(0x3f35_04f3).cast_signed() >> 23;
    let m = f32::from_bits(bits.wrapping_sub((n << 23).cast_unsigned()));
    let off = if n == 0 { below } else { m - 1.0 };
    let s = off / (2.0 + off);
    let u = s * s;
    let p = 1.0 / 9.0;
    let p = p * u + 1.0 / 7.0;
    let p = p * u + 0.2;
    let p = p * u + 1.0 / 3.0;
    let s = s + s;
    let log = ((p * u) * s + s) + n as f32 * std::f32::consts::LN_2;
    if y.is_nan() { y } else { log }
}

vectorised! {
    fn top_of(row: &[f32]) -> f32 {
        let top = largest(row);
        if top == f32::NEG_INFINITY { 0.0 } else { top }
    }

    /// The sums of `e(u)` and `-de(u)/du`, `u = below + top - z`.
    fn sums<P: Power>(row: &[f32], top: f32, below: f32, power: P) -> [f32; 2] {
        let mut lanes = [[0.0_f32; LANES]; 2];
        let (chunks, rest) = row.as_chunks::<LANES>();
        for chunk in chunks {
            for (lane, z) in chunk.iter().enumerate() {
                let [weight, slope] = power.at((top - z) + below);
                lanes[0][lane] += weight;
                lanes[1][lane] += slope;
            }
        }
        for (lane, z) in rest.iter().enumerate() {
            let [weight, slope] = power.at((top - z) + below);
            lanes[0][lane] += weight;
            lanes[1][lane] += slope;
        }
        lanes.map(fold_sum)
    }

    fn weights<P: Power>(row: &mut [f32], top: f32, below: f32, power: P) {
        for z in row {
            let [weight, _] = power.at((top - *z) + below);
            *z = weight;
        }
    }

    fn through<P: Power>(weights: &[f32], gradient: &mut [f32], power: P) {
        let mut lanes = [[0.0_f32; LANES]; 2];
        for (weights, gradient) in weights.chunks(LANES).zip(gradient.chunks(LANES)) {
            for (lane, (weight, gradient)) in weights.iter().zip(gradient).enumerate() {
                let slope = power.slope(*weight);
                lanes[0][lane] += slope;
                lanes[1][lane] += slope * gradient;
            }
        }
        let [slopes, sum] = lanes.map(fold_sum);
        let mean = if slopes == 0.0 { 0.0 } else { sum / slopes };
        for (gradient, weight) in gradient.iter_mut().zip(weights) {
            *gradient = power.slope(*weight) * (*gradient - mean);
        }
    }
}

impl<P: Power> Entmax<P> {
    /// How far s lies above the largest logit; none where the row sees nothing.
    fn threshold(&self, row: &[f32], top: f32) -> Option<f32> {
        let mut below = 0.0;
        for _ in 0..MOST_STEPS {
            let [total, slope] = sums(row, top, below, self.power).map(f64::from);
            if total == 0.0 {
                return None;
            }
            let step = total * -(-self.a * total.ln()).exp_m1() / (self.a * slope);
            let next = below + step as f32;
            // NaN ends it too.
            if total > 1.0 + ENOUGH && next > below {
                below = next;
            } else {
                break;
            }
        }
        Some(below)
    }
}

impl<P: Power> Normaliser for Entmax<P> {
    fn weigh(&self, row: &mut [f32], _: RowPosition) -> Weighed {
        let top = top_of(row);
        let Some(below) = self.threshold(row, top) else {
            row.fill(0.0);
            return Weighed { divisor: 0.0, kept: NOTHING_SEEN };
        };
        weights(row, top, below, self.power);
        Weighed { divisor: 1.0, kept: top + below }
    }

    fn weigh_again(&self, row: &mut [f32], _: RowPosition, kept: f32) {
        weights(row, kept, 0.0, self.power);
    }

    fn gradient(&self, row: Row<'_>, gradient: &mut [f32]) {
        through(row.weights, gradient, self.power);
    }

    /// s is found without gradients. One more step with them leaves it where it is, and has those of s.
    fn plain(&self, logits: Tensor<4>, _: usize) -> Tensor<4> {
        let top = logits.clone().detach().max_dim(3);
        let none = top.clone().lower_elem(f32::MIN);
        let under = top.mask_fill(none.clone(), 0.0) - logits;
        // Where there is no support, a weight that is then hidden.
        let weights = |u: Tensor<4>| {
            let x = u.mul_scalar(-self.a);
            let outside = x.clone().lower_equal_elem(-1.0);
            let log = x.mask_fill(outside.clone(), 0.0).log1p();
            let of_power = |power: f64| log.clone().mul_scalar(power).exp().mask_fill(outside.clone(), 0.0);
            [of_power(self.a.recip()), of_power(self.a.recip() - 1.0)]
        };
        let step = |under: Tensor<4>, below: &Tensor<4>| {
            let [weights, slopes] = weights(under + below.clone());
            let total = weights.sum_dim(3).sub_scalar(1.0).mask_fill(none.clone(), 0.0);
            total / slopes.sum_dim(3).mask_fill(none.clone(), 1.0).detach()
        };
        let mut below = none.clone().float().cast(under.dtype()).mul_scalar(0.0);
        for _ in 0..PLAIN_STEPS {
            below = below.clone() + step(under.clone().detach(), &below);
        }
        let below = below.clone() + step(under.clone(), &below);
        let [weights, _] = weights(under + below);
        weights
    }
}
