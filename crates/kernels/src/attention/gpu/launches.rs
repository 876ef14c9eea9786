//! What the launches of attention have in common: arguments, vector widths, cubes.

use super::call::{Call, Inputs};
use super::{Plan, ReadLaunch, RowStridesLaunch};
use crate::attention::spec::Shape;
use crate::machine::gpu::{address, head_strides, linear, rows, strided, strides, width};
use burn::backend::ops::FloatTensorOps;
use burn_cubecl::CubeBackend;
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

impl Inputs {
    /// Inputs whose last axes lie contiguously, and all axes where kernels know no strides.
    pub(super) fn laid_out(self) -> Self {
        Self {
            q: rows(self.q),
            k: rows(self.k),
            v: rows(self.v),
            first_bias: into_contiguous(self.first_bias),
            second_bias: into_contiguous(self.second_bias),
            query_scale: into_contiguous(self.query_scale),
        }
    }

    /// Those that are read in rows of channels.
    fn in_rows(&self) -> [&CubeTensor; 3] {
        [&self.q, &self.k, &self.v]
    }

    /// All of it as the kernels read it, in vectors of `width`.
    pub(super) fn read<N: Size>(&self, call: &Call, width: usize) -> ReadLaunch<'static, N> {
        let [q, k, v] = self.in_rows().map(|tensor| head_strides(tensor, width));
        ReadLaunch::new(
            strided(&self.q),
            strided(&self.k),
            strided(&self.v),
            linear(&self.first_bias),
            linear(&self.second_bias),
            linear(&self.query_scale),
            RowStridesLaunch::new(q, k, v),
            call.sizes(&self.first_bias, &self.query_scale),
        )
    }
}

/// What the launches of one call have in common.
pub(super) struct Launches {
    pub(super) inputs: Inputs,
    pub(super) call: Call,
    /// Numbers of a vector.
    pub(super) width: usize,
    pub(super) address: AddressType,
    /// What the kernels are compiled for.
    pub(super) plan: Plan,
}

impl Launches {
    /// Of a call that besides its inputs reads `in_rows`, and reads or writes `others`. A vector divides also these `counts`.
    pub(super) fn new(
        inputs: Inputs,
        call: Call,
        in_rows: &[&CubeTensor],
        others: &[&CubeTensor],
        counts: &[usize],
    ) -> Self {
        let Shape { head_dim, value_dim, .. } = call.shape;
        let in_rows = [&inputs.in_rows()[..], in_rows].concat();
        let distances: Vec<usize> = in_rows.iter().copied().flat_map(strides).collect();
        let counts = counts.iter().copied().chain([head_dim, value_dim]);
        let width = width(&inputs.q.client, distances.into_iter().chain(counts));
        let address = address(&[&in_rows[..], &[&inputs.first_bias], others].concat());
        Self { inputs, call, width, address, plan: call.plan(width) }
    }

    pub(super) fn cubes(&self, count: usize, heads: usize) -> CubeCount {
        CubeCount::Static(count as u32, heads as u32, self.call.shape.batch as u32)
    }
}

/// Launches a kernel with the inputs that all kernels read, and further arguments.
macro_rules! launch_reading {
    ($kernel:ident, $launches:expr, $cubes:expr, $units:expr, $widths:tt; $($argument:expr),+ $(,)?) => {{
        let (cubes, units) = ($cubes, CubeDim::new_1d($units as u32));
        let (client, address) = ($launches.inputs.q.client.clone(), $launches.address);
        let grid = $crate::machine::gpu::Grid { client, cubes, units, address };
        let read = $launches.inputs.read(&$launches.call, $launches.width);
        // SAFETY: units without a row, a key or a distance read and write nothing, and the others stay within
        // the shapes.
        unsafe {
            $crate::machine::gpu::launch!($kernel, grid, $widths, [], read, $($argument,)+ $launches.plan);
        }
    }};
}
pub(super) use launch_reading;

/// The heads of each position side by side, or apart again.
pub(super) fn swapped(output: CubeTensor) -> CubeTensor {
    CubeBackend::float_swap_dims(output, 1, 2)
}
