//! The normalisations on the GPU.
//!
//! One launch forward: the units of a cube share its rows, [`UNITS`] channels or vectors of them at a time, and add up in
//! shared memory, so that no subgroup operation is needed. One launch backward too, up to [`AT_ONCE`] rows: some cubes
//! take rows and give the gradient of x, with that of the residual stream added to it; others take a vector of channels
//! each, and add up over all rows what gain and bias receive. The second kind reads x and the gradient once more, with
//! few units, which takes longer the more rows there are. So with more rows, each cube of rows writes the sums over its
//! own, and another launch for each of gain and bias adds those up. Sums have an order that only the shapes decide: a
//! second run gives the same bits.
//!
//! Plain operations take 6 launches forward and 22 backward for a gain alone.

// Kernels take their rows and sizes one by one, and an `if` of the compile time stays one of its own; what the macros
// make of them is theirs.
#![allow(clippy::too_many_arguments, clippy::collapsible_if, clippy::pedantic)]

mod backward;
mod launch;
#[cfg(test)]
mod tests;

pub(super) use launch::{forward, supports};

use super::{Norm, RowNorm};
use crate::machine::gpu::total;
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Units of a cube.
const UNITS: usize = 64;

/// The most vectors of a row that one unit takes: it holds what gain and bias receive for each of them in registers.
const MOST: usize = 16;

/// The most rows whose sums for gain and bias one launch takes: a unit adds `AT_ONCE / UNITS` = 128 of them, one after
/// the other.
const AT_ONCE: usize = 8192;

/// What the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Plan {
    kind: RowNorm,
    /// Whether there is a gain, and a bias; another tensor stands in the place of one that is not there.
    gain: bool,
    bias: bool,
    /// Whether the gradients of gain and bias are wanted.
    learned: bool,
    /// Whether the residual stream has a gradient.
    residual: bool,
    /// Whether the sums for gain and bias are taken by cubes of their own, over all rows.
    at_once: bool,
    /// The vectors of a row.
    vectors: usize,
    /// The units that share a row: a power of two.
    lanes: usize,
}

impl Plan {
    /// Of so many rows, with vectors of `width`, for a forward pass.
    fn new(norm: Norm, [gain, bias]: [bool; 2], rows: usize, width: usize) -> Self {
        let vectors = norm.width / width;
        Self {
            kind: norm.kind,
            gain,
            bias,
            learned: false,
            residual: false,
            at_once: rows <= AT_ONCE,
            vectors,
            lanes: vectors.next_power_of_two().min(UNITS),
        }
    }

    /// The rows that a cube takes at once.
    fn rows(&self) -> usize {
        UNITS / self.lanes
    }

    /// The vectors that a unit takes of a row.
    fn share(&self) -> usize {
        self.vectors.div_ceil(self.lanes)
    }

    /// Whether the cubes of rows add up what gain and bias receive from theirs.
    fn sums_of_rows(&self) -> bool {
        self.learned && !self.at_once
    }

    fn is_centred(&self) -> bool {
        self.kind == RowNorm::Layer
    }
}

/// One over what a row is divided by, from the sum of its squares.
#[cube]
fn inverse_of(squares: f32, count: f32, eps: f32, #[comptime] plan: Plan) -> f32 {
    if comptime!(plan.kind == RowNorm::Unit) {
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
