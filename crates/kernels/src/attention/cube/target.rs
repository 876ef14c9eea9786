//! Where the backward pass writes the gradients of q, k and v: to three tensors, or to the packed rows that these were
//! split from.

use super::rows::write_row;
use super::{Plan, Sizes, Turned};
use crate::rotary::cube::{Pair, Turns, turned};
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// A query, key or value of one head.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(super) struct Row {
    pub(super) batch: usize,
    pub(super) head: usize,
    pub(super) row: usize,
}

/// Takes gradients row by row, each in the vectors that it has.
#[cube]
pub(super) trait Target<N: Size> {
    /// Takes `times` the gradient of a row of q.
    fn write_query(
        &mut self,
        gradient: &Array<Vector<f32, N>>,
        row: Row,
        times: f32,
        sizes: Sizes,
        #[comptime] plan: Plan,
    );

    /// Takes the gradient of a row of k.
    fn write_key(&mut self, gradient: &Array<Vector<f32, N>>, row: Row, sizes: Sizes, #[comptime] plan: Plan);

    /// Takes the gradient of a row of v.
    fn write_value(
        &mut self,
        gradient: &Array<Vector<f32, N>>,
        row: Row,
        sizes: Sizes,
        #[comptime] plan: Plan,
    );
}

/// q `[batch, heads, queries, head_dim]`, k and v `[batch, key_heads, keys, ..]`.
#[derive(CubeLaunch, CubeType)]
pub(super) struct Apart<'a, N: Size> {
    q: &'a mut [Vector<f32, N>],
    k: &'a mut [Vector<f32, N>],
    v: &'a mut [Vector<f32, N>],
}

#[cube]
impl<'a, N: Size> Target<N> for Apart<'a, N> {
    fn write_query(
        &mut self,
        gradient: &Array<Vector<f32, N>>,
        row: Row,
        times: f32,
        sizes: Sizes,
        #[comptime] plan: Plan,
    ) {
        let place = (row.batch * sizes.heads + row.head) * sizes.queries + row.row;
        write_row::<N>(gradient, self.q, place * plan.dim, times, plan.dim);
    }

    fn write_key(
        &mut self,
        gradient: &Array<Vector<f32, N>>,
        row: Row,
        sizes: Sizes,
        #[comptime] plan: Plan,
    ) {
        let place = place_of_key(row, sizes, plan);
        write_row::<N>(gradient, self.k, place * plan.dim, 1.0, plan.dim);
    }

    fn write_value(
        &mut self,
        gradient: &Array<Vector<f32, N>>,
        row: Row,
        sizes: Sizes,
        #[comptime] plan: Plan,
    ) {
        let place = place_of_key(row, sizes, plan);
        write_row::<N>(gradient, self.v, place * plan.value_dim, 1.0, plan.value_dim);
    }
}

/// The place of a key or value among those of all heads.
#[cube]
fn place_of_key(row: Row, sizes: Sizes, #[comptime] plan: Plan) -> usize {
    (row.batch * (sizes.heads / comptime!(plan.group)) + row.head) * sizes.keys + row.row
}

/// Packed rows `[batch, length, (heads + 2 key_heads) * head_dim]`. The forward pass turned q and k by these tables, so
/// their gradients are turned back.
#[derive(CubeLaunch, CubeType)]
pub(super) struct Packed<'a, N: Size> {
    gradient: &'a mut [Vector<f32, N>],
    q_turns: Turns<'a, N>,
    k_turns: Turns<'a, N>,
}

#[cube]
impl<'a, N: Size> Target<N> for Packed<'a, N> {
    fn write_query(
        &mut self,
        gradient: &Array<Vector<f32, N>>,
        row: Row,
        times: f32,
        sizes: Sizes,
        #[comptime] plan: Plan,
    ) {
        let to = place_in_packed(row, row.head, sizes, plan);
        write_turned_back::<N>(
            gradient,
            self.gradient,
            to,
            times,
            &self.q_turns,
            row,
            plan.q_turned,
            plan.dim,
        );
    }

    fn write_key(
        &mut self,
        gradient: &Array<Vector<f32, N>>,
        row: Row,
        sizes: Sizes,
        #[comptime] plan: Plan,
    ) {
        let to = place_in_packed(row, sizes.heads + row.head, sizes, plan);
        write_turned_back::<N>(gradient, self.gradient, to, 1.0, &self.k_turns, row, plan.k_turned, plan.dim);
    }

    fn write_value(
        &mut self,
        gradient: &Array<Vector<f32, N>>,
        row: Row,
        sizes: Sizes,
        #[comptime] plan: Plan,
    ) {
        let key_heads = sizes.heads / comptime!(plan.group);
        let to = place_in_packed(row, sizes.heads + key_heads + row.head, sizes, plan);
        write_row::<N>(gradient, self.gradient, to, 1.0, plan.dim);
    }
}

/// The first vector of a part of a packed row; the parts are those of the heads of q, then of k, then of v.
#[cube]
fn place_in_packed(row: Row, part: usize, sizes: Sizes, #[comptime] plan: Plan) -> usize {
    let parts = sizes.heads + 2 * (sizes.heads / comptime!(plan.group));
    ((row.batch * sizes.keys + row.row) * parts + part) * comptime!(plan.dim)
}

/// Writes `times` a row, turned back by the angles of its position.
#[cube]
fn write_turned_back<N: Size>(
    row: &Array<Vector<f32, N>>,
    target: &mut [Vector<f32, N>],
    to: usize,
    times: f32,
    turns: &Turns<'_, N>,
    place: Row,
    #[comptime] part: Turned,
    #[comptime] dim: usize,
) {
    let times = Vector::<f32, N>::new(times);
    let pairs = comptime!(part.pairs);
    let angles = place.batch * turns.per_batch + place.row * pairs;
    #[unroll]
    for pair in 0..pairs {
        let first = comptime!(part.first(pair));
        let second = comptime!(part.second(pair));
        let given = Pair::<N> { first: row[first] * times, second: row[second] * times };
        let back = turned::<N>(given, turns.cos[angles + pair], -turns.sin[angles + pair], part.layout);
        target[to + first] = back.first;
        target[to + second] = back.second;
    }
    #[unroll]
    for d in comptime!(2 * pairs)..dim {
        target[to + d] = row[d] * times;
    }
}
