//! The launches of the kernels.

use super::backward::{LearnedLaunch, ReadLaunch, norm_gradient_kernel};
use super::{MOST, Plan, UNITS, norm_kernel};
use crate::machine::autodiff::Primitive;
use crate::machine::gpu::{Grid, address, client, cubes, empty, empty_like, launch, linear, width};
use crate::op::Any;
use crate::ops::norm::Norm;
use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use cubecl::prelude::*;

/// The most cubes of rows in the backward pass, where another launch adds up their sums.
const CUBES: usize = 1024;

/// Rows that each of them takes one after the other, at least.
const ROUNDS: usize = 8;

/// Buffers of the kernel that has most, with that of the sizes.
const BUFFERS: u32 = 9;

/// Whether the kernels can compute this on the device that x lies on.
pub(in crate::ops::norm) fn supports(x: &Any, norm: Norm) -> bool {
    let Some(client) = client(x) else { return false };
    let hardware = &client.properties().hardware;
    let enough = hardware.max_units_per_cube as usize >= UNITS && hardware.max_bindings >= BUFFERS;
    let vectors = norm.width / width(&client, std::iter::once(norm.width));
    enough && !x.is_empty() && vectors <= UNITS * MOST
}

#[derive(Clone)]
pub(in crate::ops::norm) struct Kept {
    x: Primitive,
    gain: Primitive,
    /// The mean and the inverse scale of each row, `[rows, 2]`.
    stats: Primitive,
    norm: Norm,
    /// Whether there is a gain, and a bias.
    given: [bool; 2],
}

/// x, the gain and the bias, of which the latter two may not be `given` -> y, of the shape of x.
pub(in crate::ops::norm) fn forward(
    [x, gain, bias]: [Primitive; 3],
    norm: Norm,
    given: [bool; 2],
) -> (Primitive, Kept) {
    let (kept_x, kept_gain) = (x.clone(), gain.clone());
    let [x, gain, bias] = [x, gain, bias].map(into_contiguous);
    let rows = x.meta.num_elements() / norm.width;
    let (y, stats) = (empty_like(&x), empty(&x, [rows, 2]));
    let width = width(&x.client, std::iter::once(norm.width));
    let plan = Plan::new(norm, given, rows, width);
    let grid = cubes(rows.div_ceil(plan.rows()), UNITS, &[&x, &stats]);
    let (count, eps) = (norm.width as f32, norm.eps as f32);
    // SAFETY: units past the last row and past the end of a row read and write nothing.
    unsafe {
        launch!(norm_kernel, grid, [width], [x, gain, bias, y, stats], rows, count, eps, plan);
    }
    (y, Kept { x: kept_x, gain: kept_gain, stats, norm, given })
}

impl Kept {
    /// The gradients of x, the gain `[width]` and the bias `[width]`; x also receives that of the residual stream. Where gain or
    /// bias is not there or its gradient is not wanted, a tensor that nothing has written stands in its place.
    pub(in crate::ops::norm) fn gradients(
        self,
        output: Primitive,
        residual: Option<Primitive>,
        wanted: [bool; 3],
    ) -> [Primitive; 3] {
        let Self { x, gain, stats, norm, given } = self;
        let rows = x.meta.num_elements() / norm.width;
        let width = width(&x.client, std::iter::once(norm.width));
        let (learned, has_residual) = (wanted[1..].contains(&true), residual.is_some());
        let plan = Plan { learned, residual: has_residual, ..Plan::new(norm, given, rows, width) };
        // Another tensor stands in the place of a missing gradient.
        let residual = residual.unwrap_or_else(|| x.clone());
        let [x, gain, output, residual] = [x, gain, output, residual].map(into_contiguous);
        let rounds = if plan.at_once { 1 } else { rows.div_ceil(plan.rows() * CUBES).max(ROUNDS) };
        let row_cubes = rows.div_ceil(plan.rows() * rounds);
        let cubes = row_cubes + if plan.learned && plan.at_once { plan.vectors } else { 0 };
        let slope = empty_like(&x);
        let sums =
            |given: bool| empty(&x, [if given && plan.sums_of_rows() { row_cubes } else { 1 }, norm.width]);
        let [gain_sums, bias_sums] = [plan.gain, plan.bias].map(sums); // [cubes or 1, width]
        let grid = Grid {
            client: x.client.clone(),
            cubes: CubeCount::Static(cubes as u32, 1, 1),
            units: CubeDim::new_1d(UNITS as u32),
            address: address(&[&x, &stats]),
        };
        let [of_x, gain, of_rows, output, residual] = [&x, &gain, &stats, &output, &residual].map(linear);
        let read = ReadLaunch::new(of_x, gain, of_rows, output, residual, rows);
        let learned = LearnedLaunch::new(linear(&gain_sums), linear(&bias_sums));
        let (slopes, count, eps) = (linear(&slope), norm.width as f32, norm.eps as f32);
        // SAFETY: units past the last row and past the end of a row read and write nothing, and there are as many rows
        // of sums as cubes that write one.
        unsafe {
            launch!(
                norm_gradient_kernel,
                grid,
                [width],
                [],
                read,
                slopes,
                learned,
                row_cubes,
                rounds,
                count,
                eps,
                plan
            );
        }
        // [cubes or 1, width] -> [width]
        let added = |sums: Primitive| {
            let sums = if sums.meta.shape()[0] == 1 { sums } else { Cube::float_sum_dim(sums, 0) };
            Cube::float_reshape(sums, [norm.width].into())
        };
        [slope, added(gain_sums), added(bias_sums)]
    }
}
