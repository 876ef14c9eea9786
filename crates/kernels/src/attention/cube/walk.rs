//! The loop of a cube's queries over their keys, tile by tile. The output and the gradient of q share it.

use super::rows::{dot, read_row, stage};
use super::{Plan, QUERIES, Read, Sizes, bias_of, keys_before, reached, scale_of, visible};
use crate::gpu::start;
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// A unit's query.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(super) struct Query {
    pub(super) batch: usize,
    pub(super) head: usize,
    pub(super) row: usize,
    /// Whether there is such a row: the last cube may have more units than rows.
    pub(super) real: bool,
    /// The position of the cube's first query.
    lowest: usize,
}

#[cube]
impl Query {
    pub(super) fn of_unit(sizes: Sizes) -> Query {
        let first = CUBE_POS_X as usize * QUERIES;
        let row = first + UNIT_POS as usize;
        Query {
            batch: CUBE_POS_Z as usize,
            head: CUBE_POS_Y as usize,
            row,
            real: row < sizes.queries,
            lowest: sizes.offset + first,
        }
    }

    /// The row among those of all heads; the head's first one if there is none.
    pub(super) fn place(&self, sizes: Sizes) -> usize {
        (self.batch * sizes.heads + self.head) * sizes.queries + select(self.real, self.row, 0)
    }

    /// The same among those of the output, where the heads of a position lie side by side.
    pub(super) fn joined_place(&self, sizes: Sizes) -> usize {
        (self.batch * sizes.queries + select(self.real, self.row, 0)) * sizes.heads + self.head
    }

    /// What q·k is multiplied by.
    pub(super) fn scale<N: Size>(&self, read: &Read<'_, N>, #[comptime] plan: Plan) -> f32 {
        scale_of::<N>(read, self.batch, select(self.real, self.row, 0), plan)
    }
}

/// The keys and values that all queries of the cube have reached.
#[derive(CubeType)]
pub(super) struct Tiles<N: Size> {
    pub(super) k: Shared<[Vector<f32, N>]>,
    pub(super) v: Shared<[Vector<f32, N>]>,
}

#[cube]
impl<N: Size> Tiles<N> {
    pub(super) fn new(#[comptime] plan: Plan) -> Tiles<N> {
        Tiles::<N> {
            k: Shared::<[Vector<f32, N>]>::new_slice(comptime!(plan.tile * plan.dim)),
            v: Shared::<[Vector<f32, N>]>::new_slice(comptime!(plan.tile * plan.value_dim)),
        }
    }
}

/// What a kernel computes from each key that a query sees.
#[cube]
pub(super) trait KeyVisitor<N: Size> {
    /// Visits the key whose rows are at `index` of the tiles.
    fn visit(&mut self, key: usize, score: f32, tiles: &Tiles<N>, index: usize, #[comptime] plan: Plan);
}

/// Visits the keys that a query sees.
#[cube]
pub(super) fn each_key<N: Size, T: KeyVisitor<N>>(
    query: Query,
    read: &Read<'_, N>,
    tiles: &mut Tiles<N>,
    visitor: &mut T,
    #[comptime] plan: Plan,
) {
    let (strides, sizes) = (read.strides, read.sizes);
    let Query { batch, head, row, real, lowest } = query;
    let key_head = head / comptime!(plan.group);
    let own = read_row::<N>(read.q, start(strides.q, batch, head, row), real, plan.dim);
    let k_from = start(strides.k, batch, key_head, 0);
    let v_from = start(strides.v, batch, key_head, 0);
    let scale = query.scale::<N>(read, plan);
    let position = sizes.offset + row;
    let mut first = 0usize;
    let mut end = min(sizes.keys, lowest + QUERIES);
    if comptime!(plan.ranged) {
        first = keys_before(lowest, sizes.farthest);
        end = min(end, keys_before(lowest + comptime!(QUERIES - 1), sizes.nearest));
    }
    while first < end {
        if reached(lowest, first, sizes, plan) {
            sync_cube();
            stage::<N>(read.k, k_from, strides.k.row, first, end, &mut tiles.k, plan.dim, plan.tile);
            stage::<N>(read.v, v_from, strides.v.row, first, end, &mut tiles.v, plan.value_dim, plan.tile);
            sync_cube();
            for index in 0..plan.tile {
                let key = first + index;
                if real && key < end && visible(position, key, sizes, plan) {
                    let score = dot::<N>(&own, &tiles.k, index * plan.dim, plan.dim) * scale
                        + bias_of::<N>(read, batch, head, row, key, plan);
                    visitor.visit(key, score, &*tiles, index, plan);
                }
            }
        }
        first += plan.tile;
    }
}
