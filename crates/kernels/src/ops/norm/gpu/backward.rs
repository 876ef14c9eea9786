//! The gradients of the normalisations on the GPU.

use super::{Plan, RowNorm, UNITS, total};
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// What the kernel reads: x, the gain, the mean and the inverse scale of each row, and the gradients of the output and of
/// the residual stream.
#[derive(CubeLaunch, CubeType)]
pub(super) struct Read<'a, N: Size> {
    x: &'a [Vector<f32, N>],
    gain: &'a [Vector<f32, N>],
    stats: &'a [f32],
    gradient: &'a [Vector<f32, N>],
    residual: &'a [Vector<f32, N>],
    rows: usize,
}

/// What gain and bias receive: `[width]` if it is added up at once, or `[cubes, width]`, the sums over the rows of each
/// cube.
#[derive(CubeLaunch, CubeType)]
pub(super) struct Learned<'a, N: Size> {
    gain: &'a mut [Vector<f32, N>],
    bias: &'a mut [Vector<f32, N>],
}

/// The gradients of x, gain and bias. First come `row_cubes` cubes of rows, each of which makes so many rounds; behind
/// them, where all is added up at once, one cube for each vector of channels.
///
/// With y = (x - mean) / scale and h = gain * gradient, x receives `(h - y mean(h y) - mean(h)) / scale`; the last mean
/// only if centred, and for a unit length `(h - y sum(h y)) / scale`. The gain receives the sum of `y * gradient` over
/// all rows, the bias that of the gradient.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
pub(super) fn norm_gradient_kernel<N: Size>(
    read: &Read<'_, N>,
    x_gradient: &mut [Vector<f32, N>],
    learned: &mut Learned<'_, N>,
    row_cubes: usize,
    rounds: usize,
    count: f32,
    eps: f32,
    #[comptime] plan: Plan,
) {
    if CUBE_POS < row_cubes {
        by_rows::<N>(read, x_gradient, learned, rounds, count, eps, plan);
    } else {
        by_channels::<N>(read, learned, CUBE_POS - row_cubes, plan);
    }
}

#[cube]
fn by_rows<N: Size>(
    read: &Read<'_, N>,
    x_gradient: &mut [Vector<f32, N>],
    learned: &mut Learned<'_, N>,
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
        let real = row < read.rows;
        let place = select(real, row, 0);
        let from = place * comptime!(plan.vectors);
        let mean = Vector::<f32, N>::new(read.stats[2 * place]);
        let inverse = read.stats[2 * place + 1];
        let mut along = Vector::<f32, N>::new(0.0);
        let mut level = Vector::<f32, N>::new(0.0);
        #[unroll]
        for part in 0..comptime!(plan.share()) {
            let at = part * lanes + lane;
            if real && at < comptime!(plan.vectors) {
                let given = read.gradient[from + at];
                let y = (read.x[from + at] - mean) * Vector::new(inverse);
                let mut h = given;
                if comptime!(plan.gain) {
                    h *= read.gain[at];
                }
                along += h * y;
                level += h;
                if comptime!(plan.sums_of_rows()) {
                    gain_sums[part] += y * given;
                    bias_sums[part] += given;
                }
            }
        }
        let mut along = total(along.vector_sum(), &mut sums, lanes);
        if comptime!(plan.kind == RowNorm::Unit) {
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
                    let y = (read.x[from + at] - mean) * Vector::new(inverse);
                    let mut h = read.gradient[from + at];
                    if comptime!(plan.gain) {
                        h *= read.gain[at];
                    }
                    let mut slope =
                        (h - y * Vector::new(along) - Vector::new(mean_of_h)) * Vector::new(inverse);
                    if comptime!(plan.residual) {
                        slope += read.residual[from + at];
                    }
                    x_gradient[from + at] = slope;
                }
            }
        }
    }
    if comptime!(plan.sums_of_rows()) {
        let to = CUBE_POS * comptime!(plan.vectors);
        write_sums::<N>(&gain_sums, learned.gain, to, plan);
        if comptime!(plan.bias) {
            write_sums::<N>(&bias_sums, learned.bias, to, plan);
        }
    }
}

/// What gain and bias receive for one vector of channels, from all rows.
#[cube]
fn by_channels<N: Size>(
    read: &Read<'_, N>,
    learned: &mut Learned<'_, N>,
    vector: usize,
    #[comptime] plan: Plan,
) {
    let mut gain_sum = Vector::<f32, N>::new(0.0);
    let mut bias_sum = Vector::<f32, N>::new(0.0);
    let mut row = UNIT_POS as usize;
    while row < read.rows {
        let at = row * comptime!(plan.vectors) + vector;
        let given = read.gradient[at];
        let y = (read.x[at] - Vector::new(read.stats[2 * row])) * Vector::new(read.stats[2 * row + 1]);
        gain_sum += y * given;
        bias_sum += given;
        row += UNITS;
    }
    let mut sums = Shared::<[Vector<f32, N>]>::new_slice(UNITS);
    let sum = sum_of_units::<N>(gain_sum, &mut sums);
    if UNIT_POS == 0 {
        learned.gain[vector] = sum;
    }
    if comptime!(plan.bias) {
        let sum = sum_of_units::<N>(bias_sum, &mut sums);
        if UNIT_POS == 0 {
            learned.bias[vector] = sum;
        }
    }
}

/// The sum over the units of a cube, for the first of them.
#[cube]
fn sum_of_units<N: Size>(value: Vector<f32, N>, sums: &mut Shared<[Vector<f32, N>]>) -> Vector<f32, N> {
    let unit = UNIT_POS as usize;
    sync_cube();
    sums[unit] = value;
    #[unroll]
    for step in 0..comptime!(UNITS.trailing_zeros()) {
        let half = comptime!(UNITS >> (step + 1));
        sync_cube();
        if unit < half {
            let other = sums[unit + half];
            sums[unit] += other;
        }
    }
    sums[unit]
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
