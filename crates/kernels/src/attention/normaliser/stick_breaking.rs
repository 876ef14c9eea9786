//! Stick-breaking weights, which older keys cannot change.
//!
//! `beta_j = sigmoid(z_j)` of the logit of a query and key j is the share of a stick that the key breaks off, the newest key
//! first: `p_j = beta_j prod_{t>j} (1 - beta_t)`, and `rest = prod_t (1 - beta_t)` is left (Tan et al. 2024,
//! arXiv:2410.17980, section 3; the authors' `sb_ref.py`). A query does not see its own key, as published, unless
//! `attend_current` says so. The rest may go to the query's own value, on top of what its key has. A product of shares leaves f32 soon, so
//! its logarithm is summed: `ln p_j = ln sigmoid(z_j) + sum_{t>j} ln sigmoid(-z_t)`.
//!
//! With dp and dr the gradients of p and the rest, `dz_j = p_j dp_j (1 - beta_j) - beta_j (r dr + sum_{t<j} p_t dp_t)`. The
//! rest is kept.
//!
//! Sums along a row are taken in groups of [`LANES`]: those inside a group by doubling, so that one addition a group waits for
//! the one before.

use super::{Normaliser, Row, RowPosition, Weighed, of_places};
use crate::machine::simd::{LANES, exp, ln_1p_exp, sigmoid, vectorised};
use burn::tensor::{Tensor, activation::log_sigmoid};

/// The least logit: its share is 0 in f32, and what it leaves 1.
const LEAST: f32 = -1e4;

/// The shares of a stick of length 1.
#[derive(Clone, Copy, Debug)]
pub struct StickBreaking {
    /// Whether a query sees its own key.
    pub attend_current: bool,
    /// Whether the query's own value gets the rest.
    pub rest_to_own: bool,
}

/// The logit that is computed with: NaN stays NaN.
#[inline(always)]
fn bounded(z: f32) -> f32 {
    if z < LEAST { LEAST } else { z }
}

/// `ln sigmoid(-z)`, what the key leaves, from the [`ln_1p_exp`] of z.
#[inline(always)]
fn left(z: f32, tail: f32) -> f32 {
    -(if z < 0.0 { tail } else { z + tail })
}

/// `ln sigmoid(z)`, what the key takes, from the [`ln_1p_exp`] of z.
#[inline(always)]
fn taken(z: f32, tail: f32) -> f32 {
    if z < 0.0 { z - tail } else { -tail }
}

/// Each number plus all that follow it.
#[inline(always)]
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
    /// Turns logits into shares, and gives the log of the rest.
    fn shares(row: &mut [f32]) -> f32 {
        // The log of what newer keys leave, the newest key first.
        let mut newer = 0.0;
        let (groups, others) = row.as_chunks_mut::<LANES>();
        for x in others.iter_mut().rev() {
            let z = bounded(*x);
            let tail = ln_1p_exp(z);
            *x = exp(taken(z, tail) + newer);
            newer += left(z, tail);
        }
        for group in groups.iter_mut().rev() {
            let (mut own, mut sums) = ([0.0_f32; LANES], [0.0_f32; LANES]);
            for ((x, own), sum) in group.iter().zip(&mut own).zip(&mut sums) {
                let z = bounded(*x);
                let tail = ln_1p_exp(z);
                *own = taken(z, tail);
                *sum = left(z, tail);
            }
            let sums = with_following(sums);
            for at in 0..LANES {
                let before = if at + 1 < LANES { newer + sums[at + 1] } else { newer };
                group[at] = exp(own[at] + before);
            }
            newer += sums[0];
        }
        newer
    }

    /// Turns the gradient of shares into that of logits, and gives what comes to a newer key; `of_rest` comes to the oldest one.
    fn through(logits: &[f32], shares: &[f32], of_rest: f32, gradient: &mut [f32]) -> f32 {
        let mut older = of_rest;
        let (groups, others) = gradient.as_chunks_mut::<LANES>();
        let (z_groups, z_others) = logits.as_chunks::<LANES>();
        let (share_groups, share_others) = shares.as_chunks::<LANES>();
        for ((gradient, z), shares) in groups.iter_mut().zip(z_groups).zip(share_groups) {
            let mut own = [0.0_f32; LANES];
            for ((own, share), gradient) in own.iter_mut().zip(shares).zip(gradient.iter()) {
                *own = share * gradient;
            }
            let sums = with_previous(own);
            for at in 0..LANES {
                let before = if at == 0 { older } else { older + sums[at - 1] };
                gradient[at] = through_share(z[at], own[at], before);
            }
            older += sums[LANES - 1];
        }
        for ((gradient, z), share) in others.iter_mut().zip(z_others).zip(share_others) {
            let own = share * *gradient;
            *gradient = through_share(*z, own, older);
            older += own;
        }
        older
    }
}

/// `own (1 - sigmoid(z)) - sigmoid(z) older`.
#[inline(always)]
fn through_share(z: f32, own: f32, older: f32) -> f32 {
    let e = exp(-z.abs());
    let d = 1.0 / (1.0 + e);
    let (taken, left) = if z < 0.0 { (e * d, d) } else { (d, e * d) };
    own * left - taken * older
}

impl Normaliser for StickBreaking {
    fn weigh(&self, row: &mut [f32], RowPosition { own, .. }: RowPosition) -> Weighed {
        let (seen, later) = row.split_at_mut(own + 1);
        if !self.attend_current {
            seen[own] = f32::NEG_INFINITY;
        }
        let rest = exp(shares(seen));
        if self.rest_to_own {
            seen[own] += rest;
        }
        later.fill(0.0);
        Weighed { divisor: 1.0, kept: rest }
    }

    fn weigh_again(&self, row: &mut [f32], place: RowPosition, _: f32) {
        self.weigh(row, place);
    }

    fn gradient(&self, row: Row<'_>, gradient: &mut [f32]) {
        let own = row.place.own;
        let of_rest = if self.rest_to_own { row.kept * gradient[own] } else { 0.0 };
        let older = through(&row.logits[..own], &row.weights[..own], of_rest, &mut gradient[..own]);
        gradient[own] = if self.attend_current {
            let z = row.logits[own];
            through_share(z, sigmoid(z) * gradient[own], older)
        } else {
            0.0
        };
        gradient[own + 1..].fill(0.0);
    }

    fn plain(&self, logits: Tensor<4>, first: usize) -> Tensor<4> {
        let [batch, heads, queries, keys] = logits.dims();
        let device = logits.device();
        let own = of_places([queries, keys], first, |query, key| query == key, &device);
        let own = own.expand([batch, heads, queries, keys]);
        let logits = logits.clamp_min(LEAST);
        let z = if self.attend_current { logits } else { logits.mask_fill(own.clone(), LEAST) };
        let left = log_sigmoid(z.clone().neg());
        let mut newer = Tensor::zeros([batch, heads, queries, 1], (&device, left.dtype()));
        if keys > 1 {
            // Newest first, and without the key itself.
            let sums = left.clone().flip([3]).cumsum(3).slice_dim(3, 0..keys - 1);
            newer = Tensor::cat(vec![newer, sums], 3).flip([3]);
        }
        let weights = (log_sigmoid(z) + newer).exp();
        if !self.rest_to_own {
            return weights;
        }
        let rest = left.sum_dim(3).exp();
        weights + rest.clone() * own.float().cast(rest.dtype())
    }

    fn reads_logits(&self) -> bool {
        true
    }
}
