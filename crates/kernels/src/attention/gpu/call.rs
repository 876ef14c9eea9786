//! A call of attention: its settings, what it reads, and what its launches have in common.

use super::plan::Tiles;
use super::split::{FEW, PIECE};
use super::{BiasKind, Plan, ReadLaunch, RowStridesLaunch, SizesLaunch, UNITS_A_SIDE};
use crate::attention::options::Attention;
use crate::attention::spec::{Bias, Shape};
use crate::machine::gpu::{address, head_strides, linear, rows, strided, strides, width};
use burn::backend::ops::FloatTensorOps;
use burn_cubecl::CubeBackend;
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Cubes along each axis that every device takes.
pub(super) const CUBES: usize = 65_535;

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) options: Attention,
    pub(super) shape: Shape,
    pub(super) tiles: Tiles,
    /// Whether the bias' gradient is wanted.
    pub(super) learned: bool,
    /// Whether the log sums have a gradient; another tensor stands in its place if not.
    pub(super) log_sums_given: bool,
}

impl Call {
    pub(super) fn kind(&self) -> BiasKind {
        match &self.options.bias {
            Bias::None => BiasKind::None,
            Bias::ByDistance(_) => BiasKind::ByDistance,
            Bias::Slopes(_) => BiasKind::Slopes,
            Bias::Pair { .. } => BiasKind::Pair,
            Bias::Block(_) => BiasKind::Block,
        }
    }

    /// The distances that are read. Kernels may index with 32 bits, so both ends are capped at one that no pair has.
    fn distances(&self) -> [usize; 2] {
        let reach = self.options.query_offset + self.shape.queries;
        [self.options.distances.start, self.options.distances.end].map(|distance| distance.min(reach))
    }

    /// The shapes of the gradients of the two tensors of a bias, before they are summed over what shares it: of a table of `distances`
    /// the sums of each tile of queries. What is not there is `[1]`.
    pub(super) fn bias_shapes(&self, distances: usize) -> [Vec<usize>; 2] {
        let Shape { batch, heads, queries, keys, .. } = self.shape;
        match self.kind() {
            _ if !self.learned => [vec![1], vec![1]],
            BiasKind::None => [vec![1], vec![1]],
            BiasKind::ByDistance => [vec![batch, heads, self.query_tiles(), distances], vec![1]],
            BiasKind::Slopes => [vec![batch, heads, queries], vec![1]],
            BiasKind::Pair => [vec![batch, heads, queries], vec![batch, heads, keys]],
            BiasKind::Block => [vec![batch, heads, queries, keys], vec![1]],
        }
    }

    /// The tiles of the queries of a head.
    pub(super) fn query_tiles(&self) -> usize {
        self.shape.queries.div_ceil(self.tiles.side)
    }

    /// What the width of a vector divides, so that each unit of a tile has a vector of a row: half of them would wait for the others
    /// where rows of 32 channels are eight vectors.
    pub(super) fn vectors(&self) -> usize {
        let Shape { head_dim, value_dim, .. } = self.shape;
        1 << (head_dim.min(value_dim) / UNITS_A_SIDE).max(1).ilog2()
    }

    /// The pieces into which the keys are cut, where there are few queries and more than one piece.
    pub(super) fn pieces(&self) -> Option<usize> {
        let Shape { queries, keys, .. } = self.shape;
        let pieces = keys.div_ceil(PIECE);
        (queries <= FEW && pieces > 1 && queries * pieces <= CUBES).then_some(pieces)
    }

    /// What the kernels are compiled for, with vectors of `width`.
    pub(super) fn plan(&self, width: usize) -> Plan {
        let Shape { heads, key_heads, head_dim, value_dim, .. } = self.shape;
        Plan {
            kind: self.kind(),
            windowed: self.options.window.is_some(),
            scaled: self.options.query_scale.is_some(),
            learned: self.learned,
            ranged: self.distances() != [0, self.options.query_offset + self.shape.queries],
            log_sums_given: self.log_sums_given,
            side: self.tiles.side,
            matrices: self.tiles.matrices,
            dim: head_dim / width,
            value_dim: value_dim / width,
            group: heads / key_heads,
        }
    }

    pub(super) fn sizes(&self, bias: &CubeTensor, query_scale: &CubeTensor) -> SizesLaunch {
        let Shape { heads, queries, keys, .. } = self.shape;
        let shared = |tensor: &CubeTensor| tensor.meta.shape()[0] == 1;
        let ([nearest, farthest], bias_shape) = (self.distances(), bias.meta.shape());
        SizesLaunch::new(
            heads,
            queries,
            keys,
            self.options.query_offset,
            // Kernels may index with 32 bits, so both are capped at a distance and a number of keys that no pair exceeds.
            self.options.window.unwrap_or(0).min(self.options.query_offset + queries),
            self.options.sinks.min(keys),
            nearest,
            farthest,
            if self.kind() == BiasKind::ByDistance { bias_shape[1] } else { 0 },
            if shared(bias) { 0 } else { heads * queries * keys },
            if shared(query_scale) { 0 } else { queries },
            self.options.scale as f32,
        )
    }
}

/// The inputs of attention: q `[batch, heads, queries, head_dim]`, k and v `[batch, key_heads, keys, ..]`, the
/// tensors of [`Bias`] and the scale of queries `[1 or batch, queries]`, all f32. Another
/// tensor stands in the place of a missing one.
#[derive(Clone, Debug)]
pub(super) struct Inputs {
    pub(super) q: CubeTensor,
    pub(super) k: CubeTensor,
    pub(super) v: CubeTensor,
    pub(super) first_bias: CubeTensor,
    pub(super) second_bias: CubeTensor,
    pub(super) query_scale: CubeTensor,
}

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
pub(super) struct Launches<'a> {
    pub(super) inputs: Inputs,
    pub(super) call: &'a Call,
    /// Numbers of a vector.
    pub(super) width: usize,
    pub(super) address: AddressType,
    /// What the kernels are compiled for.
    pub(super) plan: Plan,
}

impl<'a> Launches<'a> {
    /// Of a call that besides its inputs reads `in_rows`, and reads or writes `others`. A vector divides also these `counts`.
    pub(super) fn new(
        inputs: Inputs,
        call: &'a Call,
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
        let read = $launches.inputs.read($launches.call, $launches.width);
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
