//! Sums on the GPU.
//!
//! A cube adds [`CHUNK`] numbers: each unit every [`UNITS`]-th, one after the other, and then the units' sums in shared
//! memory, pair by pair. The sums of more chunks are added so again. The order depends on the number of numbers alone, so
//! a second run gives the same bits, and the rounding errors of numbers of one sign are bounded by 72 * 2^-24 of their
//! sum in each round.
//!
//! The squares of many tensors are added in one launch, as far as the device binds as many buffers: a norm of a gradient
//! takes one launch, and the factor that clips it another.

// Kernels take their sizes one by one; what the macros make of them is theirs.
#![allow(clippy::too_many_arguments, clippy::pedantic)]

mod launch;
#[cfg(test)]
mod tests;

pub(super) use launch::squares;
pub(super) use launch::{clip_factor, sum, supports};

use crate::machine::gpu::total;
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Units of a cube.
const UNITS: usize = 256;

/// Numbers that a cube adds.
const CHUNK: usize = 16_384;

/// The sum of a chunk, or of its squares, times a factor.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
fn sum_kernel(x: &[f32], sums: &mut [f32], count: usize, chunks: usize, factor: f32) {
    let chunk = CUBE_POS;
    if chunk >= chunks {
        terminate!();
    }
    let end = min(count, (chunk + 1) * CHUNK);
    let mut at = chunk * CHUNK + UNIT_POS as usize;
    let mut sum = f32::new(0.0);
    while at < end {
        sum += x[at];
        at += UNITS;
    }
    let mut shared = Shared::<[f32]>::new_slice(UNITS);
    let sum = total(sum, &mut shared, UNITS);
    if UNIT_POS == 0 {
        sums[chunk] = sum * factor;
    }
}

/// One number times a factor in every place.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
fn fill_kernel(value: &[f32], target: &mut [f32], count: usize, factor: f32) {
    if ABSOLUTE_POS >= count {
        terminate!();
    }
    target[ABSOLUTE_POS] = value[0] * factor;
}

/// The sums of squares of the chunks of all tensors; tensor i has the numbers `counts[i]`, and its chunks begin at
/// `starts[i]`.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
fn squares_kernel(
    tensors: &Sequence<Box<[f32]>>,
    counts: &Sequence<usize>,
    starts: &Sequence<usize>,
    sums: &mut [f32],
    chunks: usize,
    to: usize,
) {
    let chunk = CUBE_POS;
    if chunk >= chunks {
        terminate!();
    }
    let mut sum = f32::new(0.0);
    #[unroll]
    for index in 0..tensors.len() {
        let start = starts[index];
        let count = counts[index];
        if chunk >= start && (chunk - start) * CHUNK < count {
            let tensor = &tensors[index];
            let end = min(count, (chunk - start + 1) * CHUNK);
            let mut at = (chunk - start) * CHUNK + UNIT_POS as usize;
            while at < end {
                sum += tensor[at] * tensor[at];
                at += UNITS;
            }
        }
    }
    let mut shared = Shared::<[f32]>::new_slice(UNITS);
    let sum = total(sum, &mut shared, UNITS);
    if UNIT_POS == 0 {
        sums[to + chunk] = sum;
    }
}

/// What brings a gradient to a norm of at most `limit`: `limit / norm`, or 1 where the norm is less; the squares of the
/// norm are the sum of `squares`.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
fn clip_kernel(squares: &[f32], factor: &mut [f32], count: usize, limit: f32) {
    let mut at = UNIT_POS as usize;
    let mut sum = f32::new(0.0);
    while at < count {
        sum += squares[at];
        at += UNITS;
    }
    let mut shared = Shared::<[f32]>::new_slice(UNITS);
    let norm = total(sum, &mut shared, UNITS).sqrt();
    if UNIT_POS == 0 {
        factor[0] = select(norm > limit, limit / norm, 1.0);
    }
}
