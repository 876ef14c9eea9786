//! The loss on the GPU.
//!
//! One launch forward: a cube takes a row, and its units find the largest logit and the sum of exponentials in one pass
//! over it (the softmax online: Milakov and Gimelshein 2018), each for its part; the parts are put together in shared
//! memory, in an order that only the number of classes decides. One launch backward does the same again, and turns the logits into
//! their gradient in a second pass over the row.
//!
//! Plain operations take 9 launches forward and 14 backward, and write the logits' differences from the largest one, their
//! exponentials and a one-hot matrix.

// What the macros make of kernels is theirs.
#![allow(clippy::too_many_arguments, clippy::pedantic)]

#[cfg(test)]
mod tests;

use crate::machine::autodiff::Primitive;
use crate::machine::gpu::{copied, cubes, empty, has_units, launch, width};
use crate::op::Any;
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use cubecl::prelude::*;

/// Units of a cube.
const UNITS: usize = 64;

/// The sum of some exponentials, relative to that of the highest exponent.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
struct Sum {
    highest: f32,
    total: f32,
}

/// Both of them.
#[cube]
fn joined(a: Sum, b: Sum) -> Sum {
    let highest = max(a.highest, b.highest);
    let total = a.total * (a.highest - highest).exp() + b.total * (b.highest - highest).exp();
    Sum { highest, total }
}

/// The largest of a vector's numbers.
#[cube]
fn largest<N: Size>(x: Vector<f32, N>) -> f32 {
    let size = N::value();
    let mut largest = x.extract(0usize);
    #[unroll]
    for lane in 1..size {
        largest = max(largest, x.extract(lane));
    }
    largest
}

/// The sum of a row's exponentials, for all units of its cube.
#[cube]
fn row_sum<N: Size>(logits: &[Vector<f32, N>], from: usize, #[comptime] vectors: usize) -> Sum {
    let unit = UNIT_POS as usize;
    let mut own = Sum { highest: logits[from].extract(0usize), total: f32::new(0.0) };
    let mut at = unit;
    while at < vectors {
        let x = logits[from + at];
        let highest = max(own.highest, largest::<N>(x));
        own.total = own.total * (own.highest - highest).exp() + (x - Vector::new(highest)).exp().vector_sum();
        own.highest = highest;
        at += UNITS;
    }
    let mut highs = Shared::<[f32]>::new_slice(UNITS);
    let mut totals = Shared::<[f32]>::new_slice(UNITS);
    highs[unit] = own.highest;
    totals[unit] = own.total;
    #[unroll]
    for step in 0..comptime!(UNITS.trailing_zeros()) {
        let half = comptime!(UNITS >> (step + 1));
        sync_cube();
        if unit < half {
            let a = Sum { highest: highs[unit], total: totals[unit] };
            let b = Sum { highest: highs[unit + half], total: totals[unit + half] };
            let both = joined(a, b);
            highs[unit] = both.highest;
            totals[unit] = both.total;
        }
    }
    sync_cube();
    Sum { highest: highs[0], total: totals[0] }
}

/// The logarithm of the sum of a row's exponentials, for all units of its cube.
#[cube]
fn row_log_sum<N: Size>(logits: &[Vector<f32, N>], from: usize, #[comptime] vectors: usize) -> f32 {
    let sum = row_sum::<N>(logits, from, vectors);
    sum.highest + sum.total.ln()
}

/// The logit of a row's target; `nan` (which WGSL knows no word for) where that is no class.
#[cube]
fn picked<N: Size>(
    logits: &[Vector<f32, N>],
    from: usize,
    target: i32,
    nan: f32,
    #[comptime] vectors: usize,
) -> f32 {
    let size = N::value();
    let known = target >= 0 && target < comptime!((vectors * size) as i32);
    let class = select(known, target, 0) as usize;
    let vector = logits[from + class / size];
    let mut picked = nan;
    #[unroll]
    for lane in 0..size {
        if known && class % size == lane {
            picked = vector.extract(lane);
        }
    }
    picked
}

/// The gradient of the logits of one vector of a row: `given * (softmax - one-hot)`.
#[cube]
fn weighted_slope<N: Size>(
    x: Vector<f32, N>,
    log_sum: f32,
    given: f32,
    target: i32,
    at: usize,
) -> Vector<f32, N> {
    let mut value = (x - Vector::new(log_sum)).exp() * Vector::new(given);
    let size = N::value();
    let class = target as usize;
    if class / size == at {
        #[unroll]
        for lane in 0..size {
            if class % size == lane {
                value.insert(lane, value.extract(lane) - given);
            }
        }
    }
    value
}

/// The losses of rows, each times its weight or else all times one share, and with `slopes` the gradient of their sum in the place
/// of the logits. A target that is no class has the loss `nan`.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
fn loss_kernel<N: Size>(
    logits: &mut [Vector<f32, N>],
    targets: &[i32],
    weights: &[f32],
    losses: &mut [f32],
    rows: usize,
    share: f32,
    nan: f32,
    #[comptime] weighted: bool,
    #[comptime] slopes: bool,
    #[comptime] vectors: usize,
) {
    let row = CUBE_POS;
    if row >= rows {
        terminate!();
    }
    let factor = if comptime!(weighted) { weights[row] } else { share };
    let from = row * vectors;
    let target = targets[row];
    let log_sum = row_log_sum::<N>(&*logits, from, vectors);
    if UNIT_POS == 0 {
        losses[row] = factor * (log_sum - picked::<N>(&*logits, from, target, nan, vectors));
    }
    if comptime!(slopes) {
        // The target's logit has been read.
        sync_cube();
        let mut at = UNIT_POS as usize;
        while at < vectors {
            logits[from + at] = weighted_slope::<N>(logits[from + at], log_sum, factor, target, at);
            at += UNITS;
        }
    }
}

/// Whether the kernel can compute this on the device that the logits lie on.
pub(crate) fn supports(logits: &Any) -> bool {
    has_units(logits, UNITS) && logits.shape()[0] > 0
}

/// The losses, `[rows]`, each times its weight, or without any times `share`; and with `slopes` the gradient of their sum,
/// `[rows, classes]`, else the logits.
pub(crate) fn losses(
    logits: Primitive,
    targets: Primitive,
    share: f32,
    weights: Option<Primitive>,
    slopes: bool,
) -> (Primitive, Primitive) {
    let [logits, targets] = [logits, targets].map(into_contiguous);
    // They are overwritten.
    let logits = if !slopes || logits.can_mut() { logits } else { copied(logits) };
    let [rows, classes] = logits.meta.shape().dims();
    let losses = empty(&logits, [rows]);
    let width = width(&logits.client, std::iter::once(classes));
    let (grid, vectors) = (cubes(rows, UNITS, &[&logits]), classes / width);
    let (weighted, nan) = (weights.is_some(), f32::NAN);
    // Something stands in the place of weights that are not there.
    let weights = weights.map_or_else(|| empty(&logits, [1]), into_contiguous);
    // SAFETY: the kernel leaves cubes past the last row idle, and the others stay in their row, which has a weight if any has;
    // nothing else holds what is written.
    unsafe {
        launch!(
            loss_kernel,
            grid,
            [width],
            [logits, targets, weights, losses],
            rows,
            share,
            nan,
            weighted,
            slopes,
            vectors
        );
    }
    (losses, logits)
}
