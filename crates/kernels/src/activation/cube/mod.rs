//! The activations on the GPU: one launch forward and one backward, a unit for a vector of outputs.
//!
//! Plain operations take 5 launches forward and 9 backward for `SwiGLU`.

// What the macros make of kernels is theirs.
#![allow(clippy::pedantic)]

mod launch;
#[cfg(test)]
mod tests;

pub(super) use launch::{gelu, swiglu};

use burn_cubecl::cubecl;
use cubecl::prelude::*;
use std::f32::consts::FRAC_1_SQRT_2;

/// The normal density at 0.
const DENSITY: f32 = 0.398_942_3;

/// The normal distribution function.
#[cube]
fn below<N: Size>(x: Vector<f32, N>) -> Vector<f32, N> {
    ((x * Vector::new(FRAC_1_SQRT_2)).erf() + Vector::new(1.0)) * Vector::new(0.5)
}

#[cube]
fn sigmoid<N: Size>(x: Vector<f32, N>) -> Vector<f32, N> {
    Vector::new(1.0) / (Vector::new(1.0) + (-x).exp())
}

#[cube(launch, launch_unchecked, address_type = "dynamic")]
fn gelu_kernel<N: Size>(x: &[Vector<f32, N>], y: &mut [Vector<f32, N>], count: usize) {
    if ABSOLUTE_POS >= count {
        terminate!();
    }
    let value = x[ABSOLUTE_POS];
    y[ABSOLUTE_POS] = value * below::<N>(value);
}

#[cube(launch, launch_unchecked, address_type = "dynamic")]
fn gelu_gradient_kernel<N: Size>(
    x: &[Vector<f32, N>],
    gradient: &[Vector<f32, N>],
    slope: &mut [Vector<f32, N>],
    count: usize,
) {
    if ABSOLUTE_POS >= count {
        terminate!();
    }
    let value = x[ABSOLUTE_POS];
    let density = (value * value * Vector::new(-0.5)).exp() * Vector::new(DENSITY);
    slope[ABSOLUTE_POS] = gradient[ABSOLUTE_POS] * (below::<N>(value) + value * density);
}

/// `[gate | up]` in rows of `2 hidden` vectors -> rows of `hidden`.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
fn swiglu_kernel<N: Size>(packed: &[Vector<f32, N>], y: &mut [Vector<f32, N>], hidden: usize, count: usize) {
    if ABSOLUTE_POS >= count {
        terminate!();
    }
    let at = ABSOLUTE_POS / hidden * 2 * hidden + ABSOLUTE_POS % hidden;
    let gate = packed[at];
    y[ABSOLUTE_POS] = gate * sigmoid::<N>(gate) * packed[at + hidden];
}

#[cube(launch, launch_unchecked, address_type = "dynamic")]
fn swiglu_gradient_kernel<N: Size>(
    packed: &[Vector<f32, N>],
    gradient: &[Vector<f32, N>],
    slope: &mut [Vector<f32, N>],
    hidden: usize,
    count: usize,
) {
    if ABSOLUTE_POS >= count {
        terminate!();
    }
    let at = ABSOLUTE_POS / hidden * 2 * hidden + ABSOLUTE_POS % hidden;
    let gate = packed[at];
    let up = packed[at + hidden];
    let given = gradient[ABSOLUTE_POS];
    let s = sigmoid::<N>(gate);
    slope[at] = given * up * s * (Vector::new(1.0) + gate * (Vector::new(1.0) - s));
    slope[at + hidden] = given * gate * s;
}
