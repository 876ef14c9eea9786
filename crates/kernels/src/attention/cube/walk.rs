//! The way of a cube's queries over their keys, tile by tile: what the output and the gradient of q share.

use super::rows::{dot, read_side, stage, stage_side, zeros};
use super::{Plan, QUERIES, Read, Sizes, bias_of, far_end, of_side, reached, scale_of, visible};
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

    /// What q·k is multiplied by.
    pub(super) fn scale<N: Size>(&self, read: &Read<'_, N>, #[comptime] plan: Plan) -> f32 {
        scale_of::<N>(read, self.batch, select(self.real, self.row, 0), plan)
    }
}

/// The vectors of a query, and the keys and values that all queries of the cube have reached.
#[derive(CubeType)]
pub(super) struct Tiles<N: Size> {
    query: Array<Vector<f32, N>>,
    pub(super) k: Shared<[Vector<f32, N>]>,
    pub(super) v: Shared<[Vector<f32, N>]>,
}

#[cube]
impl<N: Size> Tiles<N> {
    pub(super) fn new(#[comptime] plan: Plan) -> Tiles<N> {
        Tiles::<N> {
            query: zeros::<N>(plan.dim),
            k: Shared::<[Vector<f32, N>]>::new_slice(comptime!(plan.tile * plan.dim)),
            v: Shared::<[Vector<f32, N>]>::new_slice(comptime!(plan.tile * plan.value_dim)),
        }
    }
}

/// What becomes of each key that a query sees.
#[cube]
pub(super) trait Take<N: Size> {
    /// Takes the key whose rows are at `index` of the tiles.
    fn take(&mut self, key: usize, score: f32, tiles: &Tiles<N>, index: usize, #[comptime] plan: Plan);
}

/// Lets a query take the keys of one side that it sees.
#[cube]
pub(super) fn each_key<N: Size, T: Take<N>>(
    side: usize,
    query: Query,
    read: &Read<'_, N>,
    tiles: &mut Tiles<N>,
    taker: &mut T,
    #[comptime] plan: Plan,
) {
    let (lies, sizes) = (read.lies, read.sizes);
    let Query { batch, head, row, real, lowest } = query;
    let key_head = head / comptime!(plan.group);
    let q_from = start(lies.q, batch, head, row);
    let far_q_from = start(lies.far_q, batch, head, row);
    let k_from = start(lies.k, batch, key_head, 0);
    let far_k_from = start(lies.far_k, batch, key_head, 0);
    let v_from = start(lies.v, batch, key_head, 0);
    let (k_row, far_k_row) = (lies.k.row, lies.far_k.row);
    let scale = query.scale::<N>(read, plan);
    let position = sizes.offset + row;
    read_side::<N>(side, read.q, q_from, read.far_q, far_q_from, real, &mut tiles.query, plan);
    let mut first = 0usize;
    let mut end = min(sizes.keys, lowest + QUERIES);
    if comptime!(plan.sides == 2) {
        if side == 0 {
            first = far_end(lowest, sizes);
        } else {
            end = min(end, far_end(lowest + comptime!(QUERIES - 1), sizes));
        }
    }
    while first < end {
        if reached(lowest, first, sizes, plan) {
            sync_cube();
            stage_side::<N>(
                side,
                read.k,
                k_from,
                k_row,
                read.far_k,
                far_k_from,
                far_k_row,
                first,
                end,
                &mut tiles.k,
                plan,
            );
            stage::<N>(read.v, v_from, lies.v.row, first, end, &mut tiles.v, plan.value_dim, plan.tile);
            sync_cube();
            for index in 0..plan.tile {
                let key = first + index;
                if real
                    && key < end
                    && visible(position, key, sizes, plan)
                    && of_side(side, position, key, sizes, plan)
                {
                    let score = dot::<N>(&tiles.query, &tiles.k, index * plan.dim, plan.dim) * scale
                        + bias_of::<N>(read, batch, head, row, key, plan);
                    taker.take(key, score, &*tiles, index, plan);
                }
            }
        }
        first += plan.tile;
    }
}
