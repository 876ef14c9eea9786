//! The launches of the kernels.

use super::backward::{LearnedLaunch, ReadLaunch, norm_gradient_kernel};
use super::{AT_ONCE, MOST, Plan, UNITS, norm_kernel};
use crate::machine::gpu::{address, client, empty, empty_like, launch, linear, spread, width};
use crate::op::Any;
use crate::ops::norm::Norm;
use burn::backend::ops::FloatTensorOps;
use burn_cubecl::CubeBackend;
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
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

/// The settings of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) norm: Norm,
    /// Whether there is a gain, and a bias; another tensor stands in the place of one that is not there.
    pub(super) gain: bool,
    pub(super) bias: bool,
    /// Whether the gradients of gain and bias are wanted.
    pub(super) learned: bool,
    /// Whether the residual stream has a gradient; another tensor stands in its place if not.
    pub(super) residual: bool,
}

impl Call {
    /// What the kernels are compiled for, with vectors of `width`.
    fn plan(&self, rows: usize, width: usize) -> Plan {
        let vectors = self.norm.width / width;
        Plan {
            kind: self.norm.kind,
            gain: self.gain,
            bias: self.bias,
            learned: self.learned,
            residual: self.residual,
            at_once: rows <= AT_ONCE,
            vectors,
            lanes: vectors.next_power_of_two().min(UNITS),
        }
    }

    /// The cubes of rows in the backward pass, and the rounds that each makes.
    fn row_cubes(&self, rows: usize, plan: &Plan) -> [usize; 2] {
        let rounds = if plan.at_once { 1 } else { rows.div_ceil(plan.rows() * CUBES).max(ROUNDS) };
        [rows.div_ceil(plan.rows() * rounds), rounds]
    }
}

/// The gradients of x, of the gain `[width]` and of the bias `[width]`. Where gain or bias is not there or its gradient is
/// not wanted, a tensor that nothing has written stands in its place.
#[derive(Clone, Debug)]
pub(super) struct Gradients {
    pub(super) x: CubeTensor,
    pub(super) gain: CubeTensor,
    pub(super) bias: CubeTensor,
}

const UNITS_OF_CUBE: CubeDim = CubeDim::new_1d(UNITS as u32);

/// y, of the shape of x, and each row's mean and inverse scale, `[rows, 2]`.
pub(super) fn normalise(
    x: CubeTensor,
    gain: CubeTensor,
    bias: CubeTensor,
    call: Call,
) -> (CubeTensor, CubeTensor) {
    let [x, gain, bias] = [x, gain, bias].map(into_contiguous);
    let rows = x.meta.num_elements() / call.norm.width;
    let (y, stats) = (empty_like(&x), empty(&x, [rows, 2]));
    let width = width(&x.client, std::iter::once(call.norm.width));
    let plan = call.plan(rows, width);
    // SAFETY: units past the last row and past the end of a row read and write nothing.
    unsafe {
        launch!(
            norm_kernel,
            &x.client,
            spread(&x.client, rows.div_ceil(plan.rows())),
            UNITS_OF_CUBE,
            address(&[&x, &stats]),
            width,
            linear(&x),
            linear(&gain),
            linear(&bias),
            linear(&y),
            linear(&stats),
            rows,
            call.norm.width as f32,
            call.norm.eps as f32,
            plan,
        );
    }
    (y, stats)
}

/// The gradients of what was read.
pub(super) fn normalise_backward(
    x: CubeTensor,
    gain: CubeTensor,
    stats: CubeTensor,
    gradient: CubeTensor,
    residual: CubeTensor,
    call: Call,
) -> Gradients {
    let [x, gain, stats, gradient, residual] = [x, gain, stats, gradient, residual].map(into_contiguous);
    let channels = call.norm.width;
    let rows = x.meta.num_elements() / channels;
    let width = width(&x.client, std::iter::once(channels));
    let plan = call.plan(rows, width);
    let [row_cubes, rounds] = call.row_cubes(rows, &plan);
    let cubes = row_cubes + if plan.learned && plan.at_once { plan.vectors } else { 0 };
    let slope = empty_like(&x);
    let sums = |given: bool| empty(&x, [if given && plan.sums_of_rows() { row_cubes } else { 1 }, channels]);
    let [gain_sums, bias_sums] = [plan.gain, plan.bias].map(sums); // [cubes or 1, width]
    // SAFETY: units past the last row and past the end of a row read and write nothing, and there are as many rows
    // of sums as cubes that write one.
    unsafe {
        launch!(
            norm_gradient_kernel,
            &x.client,
            CubeCount::Static(cubes as u32, 1, 1),
            UNITS_OF_CUBE,
            address(&[&x, &stats]),
            width,
            ReadLaunch::new(
                linear(&x),
                linear(&gain),
                linear(&stats),
                linear(&gradient),
                linear(&residual),
                rows,
            ),
            linear(&slope),
            LearnedLaunch::new(linear(&gain_sums), linear(&bias_sums)),
            row_cubes,
            rounds,
            channels as f32,
            call.norm.eps as f32,
            plan,
        );
    }
    // [cubes or 1, width] -> [width]
    let added = |sums: CubeTensor| {
        let sums = if sums.meta.shape()[0] == 1 { sums } else { CubeBackend::float_sum_dim(sums, 0) };
        CubeBackend::float_reshape(sums, [channels].into())
    };
    Gradients { x: slope, gain: added(gain_sums), bias: added(bias_sums) }
}
