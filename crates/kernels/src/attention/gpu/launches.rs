//! What the launches of attention have in common: arguments, vector widths, cubes.

use super::call::{Call, Inputs, Results, bias_shapes};
use super::diagonals::distance_kernel;
use super::upstream::UpstreamLaunch;
use super::{BiasKind, Plan, ReadLaunch, RowStridesLaunch, UNITS, split};
use crate::attention::spec::Shape;
use crate::machine::gpu::{
    address, empty, empty_of, grid, head_strides, launch, linear, rows, strided, strides, width, zeros,
};
use burn::backend::ops::FloatTensorOps;
use burn_cubecl::CubeBackend;
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

pub(super) const UNITS_OF_TILE: CubeDim = CubeDim::new_1d(UNITS as u32);
pub(super) const UNITS_OF_PIECE: CubeDim = CubeDim::new_1d(split::UNITS as u32);

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

impl Results {
    /// What the backward kernels read of them.
    pub(super) fn upstream<N: Size>(&self, width: usize) -> UpstreamLaunch<'static, N> {
        let gradient = &self.output_gradient;
        UpstreamLaunch::new(
            strided(gradient),
            head_strides(gradient, width),
            linear(&self.log_sums),
            linear(&self.log_sums_gradient),
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
        let in_rows = [&inputs.in_rows(), in_rows].concat();
        let distances: Vec<usize> = in_rows.iter().copied().flat_map(strides).collect();
        let counts = counts.iter().copied().chain([head_dim, value_dim]);
        let width = width(&inputs.q.client, distances.into_iter().chain(counts));
        let address = address(&[&in_rows, &[&inputs.first_bias][..], others].concat());
        Self { inputs, call, width, address, plan: call.plan(width) }
    }

    pub(super) fn cubes(&self, count: usize, heads: usize) -> CubeCount {
        CubeCount::Static(count as u32, heads as u32, self.call.shape.batch as u32)
    }
}

/// Launches a kernel with the inputs that all kernels read, and further arguments.
macro_rules! launch_reading {
    ($kernel:ident, $launches:expr, $cubes:expr, $units:expr, [$($size:expr),+]; $($argument:expr),+ $(,)?) => {
        // SAFETY: units without a row, a key or a distance read and write nothing, and the others stay within
        // the shapes.
        unsafe {
            $crate::machine::gpu::launch!(
                $kernel,
                &$launches.inputs.q.client,
                $cubes,
                $units,
                $launches.address,
                $($size,)+
                $launches.inputs.read(&$launches.call, $launches.width),
                $($argument,)+
                $launches.plan,
            );
        }
    };
}
pub(super) use launch_reading;

/// A backward pass.
pub(super) struct Backward {
    pub(super) launches: Launches,
    pub(super) results: Results,
    /// The gradients of the bias: of a table of distances yet the sums of each tile of queries,
    /// `[batch, heads, query tiles, distances]`.
    pub(super) biases: [CubeTensor; 2],
}

impl Backward {
    pub(super) fn new(inputs: Inputs, results: Results, call: Call) -> Self {
        let inputs = inputs.laid_out();
        let results = Results {
            output: into_contiguous(swapped(results.output)),
            log_sums: into_contiguous(results.log_sums),
            output_gradient: rows(results.output_gradient),
            log_sums_gradient: into_contiguous(results.log_sums_gradient),
        };
        // Hidden pairs of a block have the gradient 0, and no unit writes it.
        let has_hidden = call.learned && call.kind == BiasKind::Block;
        let [first, second] = bias_shapes(&call, distances(&inputs, &call));
        let first = if by_distance(&call) {
            vec![call.shape.batch, call.shape.heads, call.query_tiles(), first[1]]
        } else {
            first
        };
        let biases = [first, second].map(|shape| {
            if has_hidden { zeros(&inputs.q, shape) } else { empty_of(&inputs.q, shape.into()) }
        });
        let others = [&results.output, &biases[0]];
        let launches = Launches::new(inputs, call, &[&results.output_gradient], &others, &[call.vectors()]);
        Self { launches, results, biases }
    }

    pub(super) fn cubes(&self) -> CubeCount {
        let call = &self.launches.call;
        let Shape { heads, keys, .. } = call.shape;
        self.launches.cubes(call.query_tiles() + keys.div_ceil(call.side), heads)
    }

    /// The gradients of the bias, once those of q, k and v are launched; one more launch for a table of distances.
    pub(super) fn into_biases(self) -> [CubeTensor; 2] {
        let Self { launches, biases, .. } = self;
        let call = launches.call;
        if !by_distance(&call) {
            return biases;
        }
        let [sums, second] = biases;
        let Shape { batch, heads, .. } = call.shape;
        let distances = distances(&launches.inputs, &call);
        let table = empty(&sums, [heads, distances]);
        let (cubes, dim, address) = grid(heads * distances, &[&sums, &table]);
        // SAFETY: units past the table are idle, and the others read the sums of a tile and a distance that there are.
        unsafe {
            launch!(
                distance_kernel,
                &sums.client,
                cubes,
                dim,
                address,
                linear(&sums),
                linear(&table),
                batch,
                heads,
                call.query_tiles(),
                distances,
                call.offset,
                call.side,
            );
        }
        [table, second]
    }
}

/// Whether a table of distances has a gradient.
fn by_distance(call: &Call) -> bool {
    call.learned && call.kind == BiasKind::ByDistance
}

/// The entries of a table of distances.
fn distances(inputs: &Inputs, call: &Call) -> usize {
    if call.kind == BiasKind::ByDistance { inputs.first_bias.meta.shape()[1] } else { 0 }
}

/// The heads of each position side by side, or apart again.
pub(super) fn swapped(output: CubeTensor) -> CubeTensor {
    CubeBackend::float_swap_dims(output, 1, 2)
}
