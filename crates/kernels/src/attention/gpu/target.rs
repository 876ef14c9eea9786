//! Where the backward pass writes the gradients of q, k and v.

use super::memory::Memory;
use super::out::{OutputRows, gather, write_gathered};
use super::{Plan, Sizes};
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

/// Writes the sums of a tile's own rows, each row times a number, to where they belong.
#[cube]
pub(super) fn write_out<N: Size, P: Size>(
    sums: &Array<Vector<f32, N>>,
    times: Vector<f32, P>,
    target: &mut Target<'_, N>,
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
pub(super) struct Target<'a, N: Size> {
    q: &'a mut [Vector<f32, N>],
    k: &'a mut [Vector<f32, N>],
    v: &'a mut [Vector<f32, N>],
}

#[cube]
impl<'a, N: Size> Target<'a, N> {
    /// Takes the gathered rows numbered `i` of each unit.
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
        let place = OutputRows { from: row * dim, stride: dim, count: of.count };
        if comptime!(part == Part::Query) {
            write_gathered::<N>(rows, self.q, place, i, dim, plan);
        } else if comptime!(part == Part::Key) {
            write_gathered::<N>(rows, self.k, place, i, dim, plan);
        } else {
            write_gathered::<N>(rows, self.v, place, i, dim, plan);
        }
    }
}
