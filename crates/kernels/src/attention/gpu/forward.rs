//! The output: a softmax that grows tile by tile.

use super::matrices::{Halves, over_channels, over_rows};
use super::memory::{Memory, TileRows, zeros};
use super::out::{OutputRows, write_rows};
use super::products::columns;
use super::scores::{make_scores, scales};
use super::tile::{Own, Tile, keys_of, other_group, own_group};
use super::{Plan, Read, Sizes};
use crate::attention::spec::NOTHING_SEEN;
use burn_cubecl::cubecl;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

/// A softmax of the keys so far, of a unit's own queries.
#[derive(CubeType)]
struct Softmax<N: Size, P: Size> {
    /// The highest scores.
    highest: Vector<f32, P>,
    /// The sums of the exponentials relative to those, of the unit's keys alone.
    totals: Vector<f32, P>,
    /// The values' sums under the exponentials, for the unit's channels.
    values: Array<Vector<f32, N>>,
}

#[cube]
impl<N: Size, P: Size> Softmax<N, P> {
    /// Takes the scores of a tile, and puts exponentials in their place.
    fn take(
        &mut self,
        scores: &mut Array<Vector<f32, P>>,
        memory: &mut Memory<N, P>,
        #[comptime] plan: Plan,
    ) {
        let mut own = self.highest;
        #[unroll]
        for j in 0..plan.part() {
            own = max(own, scores[j]);
        }
        let highest = memory.highest(own, own_group(), other_group());
        let shrink = (self.highest - highest).exp();
        self.highest = highest;
        self.totals *= shrink;
        #[unroll]
        for j in 0..plan.part() {
            // What is not a number stays so.
            let hidden = scores[j].less_equal(&Vector::new(NOTHING_SEEN));
            let shares = select_many(hidden, Vector::new(0.0), (scores[j] - highest).exp());
            self.totals += shares;
            scores[j] = shares;
        }
        #[unroll]
        for column in 0..comptime!(columns(plan.value_dim)) {
            #[unroll]
            for i in 0..plan.part() {
                self.values[comptime!(column * plan.part() + i)] *= Vector::new(shrink.extract(i));
            }
        }
    }
}

/// q, k, v -> the output `[batch, queries, heads, value_dim]`, and the logarithm of each row's sum,
/// `[batch, heads, queries]`. A cube takes the queries of a tile.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
pub(super) fn forward_kernel<N: Size, P: Size, H: Float>(
    read: &Read<'_, N>,
    output: &mut [Vector<f32, N>],
    log_sums: &mut [f32],
    #[define(H)] _half: ElemType,
    #[comptime] plan: Plan,
) {
    let (strides, sizes) = (read.strides, read.sizes);
    let row = CUBE_POS_X as usize * plan.side;
    let head = CUBE_POS_Y as usize;
    let batch = CUBE_POS_Z as usize;
    let key_head = head / comptime!(plan.group);
    let count = min(sizes.queries - row, plan.side);
    let q = TileRows::<N>::new(read.q, strides.q, batch, head, row, count);
    let scales = scales::<N, P>(read, batch, row + own_group() * plan.part(), plan);
    let mut memory = Memory::<N, P>::new(plan);
    let mut halves = Halves::<H, N, P>::new(plan);
    let mut softmax = Softmax::<N, P> {
        highest: Vector::new(NOTHING_SEEN),
        totals: Vector::new(0.0),
        values: zeros::<N>(comptime!(columns(plan.value_dim) * plan.part())),
    };
    let span = keys_of(row, sizes, plan);
    let mut key = span.begin;
    while key < span.end {
        let tile = Tile::new(batch, head, row, key, sizes, plan);
        if tile.reached(sizes, plan) {
            let count = min(span.end - key, plan.side);
            let k = TileRows::<N>::new(read.k, strides.k, batch, key_head, key, count);
            let v = TileRows::<N>::new(read.v, strides.v, batch, key_head, key, count);
            let mut scores = over_channels::<N, P, H>(&q, &k, &mut memory, &mut halves, plan.dim, plan);
            make_scores::<N, P>(&mut scores, scales, read, tile, Own::Queries, plan);
            softmax.take(&mut scores, &mut memory, plan);
            over_rows::<N, P, H>(
                &scores,
                &v,
                tile,
                &mut memory,
                &mut halves,
                &mut softmax.values,
                sizes,
                Own::Queries,
                plan.value_dim,
                plan,
            );
        }
        key += plan.side;
    }
    write::<N, P>(&softmax, &mut memory, output, log_sums, batch, head, row, sizes, plan);
}

/// Writes the output of the queries of a tile, and the logarithms of their sums.
#[cube]
fn write<N: Size, P: Size>(
    softmax: &Softmax<N, P>,
    memory: &mut Memory<N, P>,
    output: &mut [Vector<f32, N>],
    log_sums: &mut [f32],
    batch: usize,
    head: usize,
    row: usize,
    sizes: Sizes,
    #[comptime] plan: Plan,
) {
    let totals = memory.sum(softmax.totals, own_group(), other_group());
    // A row that sees no key gives zeros.
    let none = totals.equal(&Vector::new(0.0));
    let inverse = select_many(none, Vector::new(0.0), Vector::new(1.0) / totals);
    let logs = select_many(none, Vector::new(NOTHING_SEEN), softmax.highest + totals.ln());
    let own = row + own_group() * plan.part();
    let head_rows = (batch * sizes.heads + head) * sizes.queries;
    #[unroll]
    for i in 0..plan.part() {
        if other_group() == 0 && own + i < sizes.queries {
            log_sums[head_rows + own + i] = logs.extract(i);
        }
    }
    let place = OutputRows {
        from: ((batch * sizes.queries + row) * sizes.heads + head) * plan.value_dim,
        stride: sizes.heads * plan.value_dim,
        count: min(sizes.queries - row, plan.side),
    };
    write_rows::<N, P>(&softmax.values, inverse, output, place, memory, plan.value_dim, plan);
}
