//! The normalisations on the GPU.
//!
//! One launch forward: the units of a cube share its rows, [`UNITS`] channels or vectors of them at a time, and add up in
//! shared memory, so that no subgroup operation is needed. Backward, one launch gives the gradient of x, with that of
//! the residual stream added to it, and for each cube the sums over its rows that gain and bias receive; a second one
//! adds those up. Sums have an order that only the shapes decide: a second run gives the same bits.
//!
//! Plain operations take 6 launches forward and 22 backward for a gain alone.

// Kernels take their rows and sizes one by one, and an `if` of the compile time stays one of its own; what the macros
// make of them is theirs.
#![allow(clippy::too_many_arguments, clippy::collapsible_if, clippy::pedantic)]

mod gradient;
mod launch;
#[cfg(test)]
mod tests;

pub(super) use gradient::{normalised, normalised_residual};
pub(super) use launch::supports;

use super::Kind;
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Units of a cube.
const UNITS: usize = 64;

/// The most vectors of a row that one unit takes: it holds what gain and bias receive for each of them in registers.
const MOST: usize = 16;

/// What the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Plan {
    kind: Kind,
    /// Whether there is a gain, and a bias; another tensor stands in the place of one that is not there.
    gain: bool,
    bias: bool,
    /// Whether the gradients of gain and bias are wanted.
    learned: bool,
    /// Whether the residual stream has a gradient.
    residual: bool,
    /// The vectors of a row.
    vectors: usize,
    /// The units that share a row: a power of two.
    lanes: usize,
}

impl Plan {
    /// The rows that a cube takes at once.
    fn rows(&self) -> usize {
        UNITS / self.lanes
    }

    /// The vectors that a unit takes of a row.
    fn share(&self) -> usize {
        self.vectors.div_ceil(self.lanes)
    }

    fn is_centred(&self) -> bool {
        self.kind == Kind::Layer
    }
}

/// The sum over the units that share a row, for each of them.
#[cube]
fn total(value: f32, sums: &mut Shared<[f32]>, #[comptime] lanes: usize) -> f32 {
    let unit = UNIT_POS as usize;
    let lane = unit % lanes;
    sync_cube();
    sums[unit] = value;
    #[unroll]
    for step in 0..comptime!(lanes.trailing_zeros()) {
        let half = comptime!(lanes >> (step + 1));
        sync_cube();
        if lane < half {
            sums[unit] += sums[unit + half];
        }
    }
    sync_cube();
    sums[unit - lane]
}

/// One over what a row is divided by, from the sum of its squares.
#[cube]
fn inverse_of(squares: f32, count: f32, eps: f32, #[comptime] plan: Plan) -> f32 {
    if comptime!(plan.kind == Kind::Unit) {
        1.0 / max(squares.sqrt(), eps)
    } else {
        1.0 / (squares / count + eps).sqrt()
    }
}

/// x -> y, and the mean and the inverse scale of each row.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
fn norm_kernel<N: Size>(
    x: &[Vector<f32, N>],
    gain: &[Vector<f32, N>],
    bias: &[Vector<f32, N>],
    y: &mut [Vector<f32, N>],
    stats: &mut [f32],
    rows: usize,
    count: f32,
    eps: f32,
    #[comptime] plan: Plan,
) {
    let mut sums = Shared::<[f32]>::new_slice(UNITS);
    let lanes = comptime!(plan.lanes);
    let lane = UNIT_POS as usize % lanes;
    let row = CUBE_POS * comptime!(plan.rows()) + UNIT_POS as usize / lanes;
    let real = row < rows;
    let from = select(real, row, 0) * comptime!(plan.vectors);
    let mut mean = f32::new(0.0);
    if comptime!(plan.is_centred()) {
        let mut sum = Vector::<f32, N>::new(0.0);
        #[unroll]
        for part in 0..comptime!(plan.share()) {
            let at = part * lanes + lane;
            if at < comptime!(plan.vectors) {
                sum += x[from + at];
            }
        }
        mean = total(sum.vector_sum(), &mut sums, lanes) / count;
    }
    let mut squares = Vector::<f32, N>::new(0.0);
    #[unroll]
    for part in 0..comptime!(plan.share()) {
        let at = part * lanes + lane;
        if at < comptime!(plan.vectors) {
            let apart = x[from + at] - Vector::new(mean);
            squares += apart * apart;
        }
    }
    let inverse = inverse_of(total(squares.vector_sum(), &mut sums, lanes), count, eps, plan);
    if real {
        if lane == 0 {
            stats[2 * row] = mean;
            stats[2 * row + 1] = inverse;
        }
        #[unroll]
        for part in 0..comptime!(plan.share()) {
            let at = part * lanes + lane;
            if at < comptime!(plan.vectors) {
                let mut value = (x[from + at] - Vector::new(mean)) * Vector::new(inverse);
                if comptime!(plan.gain) {
                    value *= gain[at];
                }
                if comptime!(plan.bias) {
                    value += bias[at];
                }
                y[from + at] = value;
            }
        }
    }
}

/// The gradient of x, and what gain and bias receive from the rows of each cube: `[cubes, 2 width]`, or `[cubes, width]`
/// without a bias.
///
/// With y = (x - mean) / scale and h = gain * gradient, x receives `(h - y mean(h y) - mean(h)) / scale`; the last mean
/// only if centred, and for a unit length `(h - y sum(h y)) / scale`.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
fn norm_gradient_kernel<N: Size>(
    x: &[Vector<f32, N>],
    gain: &[Vector<f32, N>],
    stats: &[f32],
    gradient: &[Vector<f32, N>],
    residual: &[Vector<f32, N>],
    x_gradient: &mut [Vector<f32, N>],
    partial: &mut [Vector<f32, N>],
    rows: usize,
    rounds: usize,
    count: f32,
    eps: f32,
    #[comptime] plan: Plan,
) {
    let mut sums = Shared::<[f32]>::new_slice(UNITS);
    let lanes = comptime!(plan.lanes);
    let lane = UNIT_POS as usize % lanes;
    let mut gain_sums = zeros::<N>(comptime!(plan.share()));
    let mut bias_sums = zeros::<N>(comptime!(plan.share()));
    for round in 0..rounds {
        let row = (CUBE_POS * rounds + round) * comptime!(plan.rows()) + UNIT_POS as usize / lanes;
        let real = row < rows;
        let place = select(real, row, 0);
        let from = place * comptime!(plan.vectors);
        let mean = Vector::<f32, N>::new(stats[2 * place]);
        let inverse = stats[2 * place + 1];
        let mut along = Vector::<f32, N>::new(0.0);
        let mut level = Vector::<f32, N>::new(0.0);
        #[unroll]
        for part in 0..comptime!(plan.share()) {
            let at = part * lanes + lane;
            if real && at < comptime!(plan.vectors) {
                let given = gradient[from + at];
                let y = (x[from + at] - mean) * Vector::new(inverse);
                let mut h = given;
                if comptime!(plan.gain) {
                    h *= gain[at];
                }
                along += h * y;
                level += h;
                if comptime!(plan.learned) {
                    gain_sums[part] += y * given;
                    bias_sums[part] += given;
                }
            }
        }
        let mut along = total(along.vector_sum(), &mut sums, lanes);
        if comptime!(plan.kind == Kind::Unit) {
            // Of a row that is divided by eps, y does not stay on the sphere.
            along = select(inverse < 1.0 / eps, along, 0.0);
        } else {
            along /= count;
        }
        let mut mean_of_h = f32::new(0.0);
        if comptime!(plan.is_centred()) {
            mean_of_h = total(level.vector_sum(), &mut sums, lanes) / count;
        }
        if real {
            #[unroll]
            for part in 0..comptime!(plan.share()) {
                let at = part * lanes + lane;
                if at < comptime!(plan.vectors) {
                    let y = (x[from + at] - mean) * Vector::new(inverse);
                    let mut h = gradient[from + at];
                    if comptime!(plan.gain) {
                        h *= gain[at];
                    }
                    let mut slope =
                        (h - y * Vector::new(along) - Vector::new(mean_of_h)) * Vector::new(inverse);
                    if comptime!(plan.residual) {
                        slope += residual[from + at];
                    }
                    x_gradient[from + at] = slope;
                }
            }
        }
    }
    if comptime!(plan.learned) {
        let parts = comptime!(if plan.bias { 2usize } else { 1usize });
        let to = CUBE_POS * parts * comptime!(plan.vectors);
        write_sums::<N>(&gain_sums, partial, to, plan);
        if comptime!(plan.bias) {
            write_sums::<N>(&bias_sums, partial, to + comptime!(plan.vectors), plan);
        }
    }
}

/// Zeros for sums.
#[cube]
fn zeros<N: Size>(#[comptime] count: usize) -> Array<Vector<f32, N>> {
    let mut sums = Array::<Vector<f32, N>>::new(count);
    #[unroll]
    for part in 0..count {
        sums[part] = Vector::new(0.0);
    }
    sums
}

/// Writes the sums over the rows of a cube.
#[cube]
fn write_sums<N: Size>(
    own: &Array<Vector<f32, N>>,
    partial: &mut [Vector<f32, N>],
    to: usize,
    #[comptime] plan: Plan,
) {
    let mut all = Shared::<[Vector<f32, N>]>::new_slice(UNITS);
    let unit = UNIT_POS as usize;
    #[unroll]
    for part in 0..comptime!(plan.share()) {
        sync_cube();
        all[unit] = own[part];
        sync_cube();
        let at = part * comptime!(plan.lanes) + unit;
        if unit < comptime!(plan.lanes) && at < comptime!(plan.vectors) {
            let mut sum = all[unit];
            for row in 1..comptime!(plan.rows()) {
                sum += all[row * comptime!(plan.lanes) + unit];
            }
            partial[to + at] = sum;
        }
    }
}
