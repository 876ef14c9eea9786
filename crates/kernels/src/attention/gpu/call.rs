//! A call of attention: its settings, and what it reads.

use super::plan::{Matrices, Tiles};
use super::split::{FEW, PIECE};
use super::{BiasKind, Plan, SizesLaunch, UNITS_A_SIDE};
use crate::attention::options::Attention;
use crate::attention::spec::{Bias, Shape};
use burn_cubecl::tensor::CubeTensor;

/// Cubes along each axis that every device takes.
pub(super) const CUBES: usize = 65_535;

#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) shape: Shape,
    pub(super) kind: BiasKind,
    pub(super) side: usize,
    /// The matrix units that compute products, if any do.
    matrices: Option<Matrices>,
    scale: f32,
    /// Whether there is a scale for each query; another tensor stands in its place if not.
    scaled: bool,
    /// Whether the bias' gradient is wanted.
    pub(super) learned: bool,
    window: Option<usize>,
    sinks: usize,
    pub(super) offset: usize,
    /// The distances that are read, as far as any occurs.
    distances: [usize; 2],
    /// Whether the log sums have a gradient; another tensor stands in its place if not.
    pub(super) log_sums_given: bool,
    /// Whether the batch shares a block of bias.
    pub(super) shares_block: bool,
}

impl Call {
    pub(super) fn new(options: &Attention, shape: Shape, tiles: Tiles) -> Self {
        let Tiles { side, matrices } = tiles;
        let reach = options.query_offset + shape.queries;
        Self {
            shape,
            kind: match &options.bias {
                Bias::None => BiasKind::None,
                Bias::ByDistance(_) => BiasKind::ByDistance,
                Bias::Slopes(_) => BiasKind::Slopes,
                Bias::Pair { .. } => BiasKind::Pair,
                Bias::Block(_) => BiasKind::Block,
            },
            side,
            matrices,
            scale: options.scale as f32,
            scaled: options.query_scale.is_some(),
            learned: false,
            window: options.window,
            sinks: options.sinks,
            offset: options.query_offset,
            // Kernels may index with 32 bits, so both ends are capped at a distance that no pair has.
            distances: [options.distances.start, options.distances.end].map(|distance| distance.min(reach)),
            log_sums_given: false,
            shares_block: matches!(&options.bias, Bias::Block(block) if block.dims()[0] == 1),
        }
    }

    /// The shapes of the gradients of the two tensors of a bias, before they are summed over what shares it: of a table of `distances`
    /// the sums of each tile of queries. What is not there is `[1]`.
    pub(super) fn bias_shapes(&self, distances: usize) -> [Vec<usize>; 2] {
        let Shape { batch, heads, queries, keys, .. } = self.shape;
        match self.kind {
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
        self.shape.queries.div_ceil(self.side)
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
            kind: self.kind,
            windowed: self.window.is_some(),
            scaled: self.scaled,
            learned: self.learned,
            ranged: self.distances != [0, self.offset + self.shape.queries],
            log_sums_given: self.log_sums_given,
            side: self.side,
            matrices: self.matrices,
            dim: head_dim / width,
            value_dim: value_dim / width,
            group: heads / key_heads,
        }
    }

    pub(super) fn sizes(&self, bias: &CubeTensor, query_scale: &CubeTensor) -> SizesLaunch {
        let Shape { heads, queries, keys, .. } = self.shape;
        let shared = |tensor: &CubeTensor| tensor.meta.shape()[0] == 1;
        let bias_shape = bias.meta.shape();
        SizesLaunch::new(
            heads,
            queries,
            keys,
            self.offset,
            // Kernels may index with 32 bits, so both are capped at a distance and a number of keys that no pair exceeds.
            self.window.unwrap_or(0).min(self.offset + queries),
            self.sinks.min(keys),
            self.distances[0],
            self.distances[1],
            if self.kind == BiasKind::ByDistance { bias_shape[1] } else { 0 },
            if shared(bias) { 0 } else { heads * queries * keys },
            if shared(query_scale) { 0 } else { queries },
            self.scale,
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
