//! Where the backward pass writes the gradients of q, k and v: to three tensors, or to the packed rows that these were
//! split from.

use super::memory::Memory;
use super::out::{Place, gather, gathered, write_gathered};
use super::plan::Turned;
use super::{Plan, Sizes, UNITS, UNITS_A_SIDE};
use crate::ops::rotary::Layout;
use crate::ops::rotary::gpu::{Pair, Turns, turned};
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// What rows are the gradient of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    Query,
    Key,
    Value,
}

/// Queries, keys or values of a tile.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(super) struct Of {
    pub(super) batch: usize,
    pub(super) head: usize,
    pub(super) first: usize,
    pub(super) count: usize,
}

/// Takes gradients in rows.
#[cube]
pub(super) trait Target<N: Size> {
    /// Takes the gathered rows numbered `i` of each unit.
    fn take(
        &mut self,
        rows: &Shared<[Vector<f32, N>]>,
        of: Of,
        sizes: Sizes,
        #[comptime] part: Part,
        i: usize,
        #[comptime] plan: Plan,
    );
}

/// Writes the sums of a tile's own rows, each row times a number, to a target.
#[cube]
pub(super) fn write_out<N: Size, P: Size, T: Target<N>>(
    sums: &Array<Vector<f32, N>>,
    times: Vector<f32, P>,
    target: &mut T,
    memory: &mut Memory<N, P>,
    of: Of,
    sizes: Sizes,
    #[comptime] part: Part,
    #[comptime] plan: Plan,
) {
    for i in 0..plan.part() {
        gather::<N, P>(sums, times, memory, i, comptime!(channels(part, &plan)), plan);
        target.take(&memory.rows, of, sizes, part, i, plan);
    }
}

/// The vectors of a row.
fn channels(part: Part, plan: &Plan) -> usize {
    if part == Part::Value { plan.value_dim } else { plan.dim }
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
    fn take(
        &mut self,
        rows: &Shared<[Vector<f32, N>]>,
        of: Of,
        sizes: Sizes,
        #[comptime] part: Part,
        i: usize,
        #[comptime] plan: Plan,
    ) {
        let dim = comptime!(channels(part, &plan));
        let (heads, length) = if comptime!(part == Part::Query) {
            (sizes.heads, sizes.queries)
        } else {
            (sizes.heads / comptime!(plan.group), sizes.keys)
        };
        let row = (of.batch * heads + of.head) * length + of.first;
        let place = Place { from: row * dim, stride: dim, count: of.count };
        if comptime!(part == Part::Query) {
            write_gathered::<N>(rows, self.q, place, i, dim, plan);
        } else if comptime!(part == Part::Key) {
            write_gathered::<N>(rows, self.k, place, i, dim, plan);
        } else {
            write_gathered::<N>(rows, self.v, place, i, dim, plan);
        }
    }
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
    fn take(
        &mut self,
        rows: &Shared<[Vector<f32, N>]>,
        of: Of,
        sizes: Sizes,
        #[comptime] part: Part,
        i: usize,
        #[comptime] plan: Plan,
    ) {
        // A row has the heads of q, then those of k, then those of v.
        let key_heads = sizes.heads / comptime!(plan.group);
        let mut head = of.head;
        if comptime!(part != Part::Query) {
            head += sizes.heads;
        }
        if comptime!(part == Part::Value) {
            head += key_heads;
        }
        let heads = sizes.heads + 2 * key_heads;
        let place = Place {
            from: ((of.batch * sizes.keys + of.first) * heads + head) * plan.dim,
            stride: heads * plan.dim,
            count: of.count,
        };
        if comptime!(part == Part::Query) {
            write_turned_back::<N>(rows, self.gradient, place, &self.q_turns, of, plan.q_turned, i, plan);
        } else if comptime!(part == Part::Key) {
            write_turned_back::<N>(rows, self.gradient, place, &self.k_turns, of, plan.k_turned, i, plan);
        } else {
            write_gathered::<N>(rows, self.gradient, place, i, plan.dim, plan);
        }
    }
}

/// Writes the gathered rows, turned back by the angles of their positions. A unit takes a pair of vectors, or a vector that
/// was not turned.
#[cube]
fn write_turned_back<N: Size>(
    rows: &Shared<[Vector<f32, N>]>,
    target: &mut [Vector<f32, N>],
    place: Place,
    turns: &Turns<'_, N>,
    of: Of,
    #[comptime] turned_part: Turned,
    i: usize,
    #[comptime] plan: Plan,
) {
    let pairs = comptime!(turned_part.pairs);
    let half = comptime!(turned_part.layout == Layout::Half);
    let items = comptime!(plan.dim - turned_part.pairs);
    let mut item = UNIT_POS as usize;
    while item < comptime!(UNITS_A_SIDE * items) {
        let (group, pair) = (item / items, item % items);
        let row = gathered(group, i, plan);
        let from = group * plan.dim;
        let to = place.from + row * place.stride;
        if row < place.count {
            if pair >= pairs {
                let vector = pair + pairs;
                target[to + vector] = rows[from + vector];
            } else if comptime!(pairs > 0) {
                let first = if half { pair } else { 2 * pair };
                let second = if half { pairs + pair } else { 2 * pair + 1 };
                let angle = of.batch * turns.per_batch + (of.first + row) * pairs + pair;
                let given = Pair::<N> { first: rows[from + first], second: rows[from + second] };
                let layout = comptime!(turned_part.layout);
                let back = turned::<N>(given, turns.cos[angle], -turns.sin[angle], layout);
                target[to + first] = back.first;
                target[to + second] = back.second;
            }
        }
        item += UNITS;
    }
}
