//! The launches of the kernels, as operations of a backend: so they can take their place among those that burn's fusion
//! holds back.

use super::{MOST, Plan, UNITS, norm_gradient_kernel, norm_kernel};
use crate::gpu::{address, client, empty, empty_like, launch, linear, spread, width};
use crate::norm::Norm;
#[cfg(feature = "fusion")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};
use burn::tensor::Tensor;
use burn_cubecl::CubeBackend;
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// The most cubes of the backward pass: so many sums a second launch adds.
const CUBES: usize = 1024;

/// Rows that a cube of the backward pass takes one after the other, at least.
const ROUNDS: usize = 8;

/// Buffers of the kernel that has most, with that of the sizes.
const BUFFERS: u32 = 8;

/// Whether the kernels can compute this on the device that x lies on.
pub(in crate::norm) fn supports<const D: usize>(x: &Tensor<D>, norm: Norm) -> bool {
    let Some(client) = client(x) else { return false };
    let hardware = &client.properties().hardware;
    let enough = hardware.max_units_per_cube as usize >= UNITS && hardware.max_bindings >= BUFFERS;
    let vectors = norm.width / width(&client, std::iter::once(norm.width));
    enough && x.shape().num_elements() > 0 && vectors <= UNITS * MOST
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
    fn plan(&self, width: usize) -> Plan {
        let vectors = self.norm.width / width;
        Plan {
            kind: self.norm.kind,
            gain: self.gain,
            bias: self.bias,
            learned: self.learned,
            residual: self.residual,
            vectors,
            lanes: vectors.next_power_of_two().min(UNITS),
        }
    }

    /// The cubes of the backward pass over so many rows, and the rounds that each makes.
    fn cubes(&self, rows: usize, plan: &Plan) -> (usize, usize) {
        let rounds = rows.div_ceil(plan.rows() * CUBES).max(ROUNDS);
        (rows.div_ceil(plan.rows() * rounds), rounds)
    }

    /// The shape of what gain and bias receive, one after the other.
    fn learned(&self) -> [usize; 1] {
        let parts = if self.bias { 2 } else { 1 };
        [parts * self.norm.width]
    }
}

/// Normalisation on the GPU; x of any shape, all f32.
#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
pub(super) trait Normalise: Backend {
    /// y, of the shape of x, and each row's mean and inverse scale, `[rows, 2]`.
    #[fusion(id = "longwave_norm", meta = forward_metadata)]
    fn normalise(
        x: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        call: Call,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The gradient of x, and what gain and bias receive, `[width]` or `[2 width]`.
    /// Where they are not wanted, nothing has written them.
    #[fusion(id = "longwave_norm_backward", meta = backward_metadata)]
    fn normalise_backward(
        x: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        stats: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        call: Call,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

#[cfg(feature = "fusion")]
fn forward_metadata(x: &TensorSpec, _: &TensorSpec, _: &TensorSpec, call: &Call) -> (TensorSpec, TensorSpec) {
    let rows = x.shape.num_elements() / call.norm.width;
    (x.clone(), TensorSpec::new([rows, 2].into(), x.dtype))
}

#[cfg(feature = "fusion")]
fn backward_metadata(
    x: &TensorSpec,
    _: &TensorSpec,
    _: &TensorSpec,
    _: &TensorSpec,
    _: &TensorSpec,
    call: &Call,
) -> (TensorSpec, TensorSpec) {
    (x.clone(), TensorSpec::new(call.learned().into(), x.dtype))
}

const UNITS_OF_CUBE: CubeDim = CubeDim::new_1d(UNITS as u32);

impl Normalise for CubeBackend {
    fn normalise(x: CubeTensor, gain: CubeTensor, bias: CubeTensor, call: Call) -> (CubeTensor, CubeTensor) {
        let [x, gain, bias] = [x, gain, bias].map(into_contiguous);
        let rows = x.meta.num_elements() / call.norm.width;
        let (y, stats) = (empty_like(&x), empty(&x, [rows, 2]));
        let width = width(&x.client, std::iter::once(call.norm.width));
        let plan = call.plan(width);
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

    fn normalise_backward(
        x: CubeTensor,
        gain: CubeTensor,
        stats: CubeTensor,
        gradient: CubeTensor,
        residual: CubeTensor,
        call: Call,
    ) -> (CubeTensor, CubeTensor) {
        let [x, gain, stats, gradient, residual] = [x, gain, stats, gradient, residual].map(into_contiguous);
        let rows = x.meta.num_elements() / call.norm.width;
        let width = width(&x.client, std::iter::once(call.norm.width));
        let plan = call.plan(width);
        let (cubes, rounds) = call.cubes(rows, &plan);
        let [learned] = call.learned();
        let (slope, partial) = (empty_like(&x), empty(&x, [if call.learned { cubes } else { 1 }, learned]));
        // SAFETY: units past the last row and past the end of a row read and write nothing, and there are as many cubes
        // as rows of sums.
        unsafe {
            launch!(
                norm_gradient_kernel,
                &x.client,
                CubeCount::Static(cubes as u32, 1, 1),
                UNITS_OF_CUBE,
                address(&[&x, &stats]),
                width,
                linear(&x),
                linear(&gain),
                linear(&stats),
                linear(&gradient),
                linear(&residual),
                linear(&slope),
                linear(&partial),
                rows,
                rounds,
                call.norm.width as f32,
                call.norm.eps as f32,
                plan,
            );
        }
        let partial = if call.learned { Self::float_sum_dim(partial, 0) } else { partial };
        (slope, Self::float_reshape(partial, [learned].into()))
    }
}
