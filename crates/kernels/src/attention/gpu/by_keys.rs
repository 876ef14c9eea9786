//! The gradients of k and v, and of what belongs to keys of a bias. A cube owns the keys of a tile.

use super::matrices::{Halves, over_channels, over_rows};
use super::memory::{Memory, TileRows, zeros};
use super::out::{OutputRows, write_rows};
use super::products::columns;
use super::scores::{OfQueries, make_scores, weigh};
use super::tile::{Own, Tile, other_group, own_group, queries_of};
use super::{BiasKind, Plan, Read, Target, Upstream};
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// What a cube adds up: sums over the query heads that read its keys.
#[derive(CubeType)]
struct KeySums<N: Size> {
    k: Array<Vector<f32, N>>,
    v: Array<Vector<f32, N>>,
}

#[cube]
pub(super) fn by_keys<N: Size, P: Size, H: Float>(
    read: &Read<'_, N>,
    upstream: &Upstream<'_, N>,
    target: &mut Target<'_, N>,
    key_bias: &mut [f32],
    memory: &mut Memory<N, P>,
    halves: &mut Halves<H, N, P>,
    cube: usize,
    #[comptime] plan: Plan,
) {
    let (strides, sizes) = (read.strides, read.sizes);
    let first = cube * plan.side;
    let head = CUBE_POS_Y as usize;
    let batch = CUBE_POS_Z as usize;
    let count = min(sizes.keys - first, plan.side);
    let k = TileRows::<N>::new(read.k, strides.k, batch, head, first, count);
    let v = TileRows::<N>::new(read.v, strides.v, batch, head, first, count);
    let mut sums = KeySums::<N> {
        k: zeros::<N>(comptime!(columns(plan.dim) * plan.part())),
        v: zeros::<N>(comptime!(columns(plan.value_dim) * plan.part())),
    };
    for member in 0..plan.group {
        let query_head = head * plan.group + member;
        let column =
            of_head::<N, P, H>(read, upstream, &k, &v, &mut sums, memory, halves, query_head, first, plan);
        if comptime!(plan.learned && plan.kind == BiasKind::Pair) {
            let column = memory.sum(column, own_group(), other_group());
            let own = first + own_group() * plan.part();
            #[unroll]
            for i in 0..plan.part() {
                if other_group() == 0 && own + i < sizes.keys {
                    let place = (batch * sizes.heads + query_head) * sizes.keys + own + i;
                    key_bias[place] = -column.extract(i);
                }
            }
        }
    }
    let row = (batch * (sizes.heads / plan.group) + head) * sizes.keys + first;
    let one = Vector::<f32, P>::new(1.0);
    let place = OutputRows { from: row * plan.dim, stride: plan.dim, count };
    write_rows::<N, P>(&sums.k, one, target.k, place, memory, plan.dim, plan);
    let place = OutputRows { from: row * plan.value_dim, stride: plan.value_dim, count };
    write_rows::<N, P>(&sums.v, one, target.v, place, memory, plan.value_dim, plan);
}

/// Adds what comes from one query head, and gives the sum of the scores' gradients over the unit's queries.
#[cube]
fn of_head<N: Size, P: Size, H: Float>(
    read: &Read<'_, N>,
    upstream: &Upstream<'_, N>,
    k: &TileRows<'_, N>,
    v: &TileRows<'_, N>,
    sums: &mut KeySums<N>,
    memory: &mut Memory<N, P>,
    halves: &mut Halves<H, N, P>,
    head: usize,
    key: usize,
    #[comptime] plan: Plan,
) -> Vector<f32, P> {
    let (strides, sizes) = (read.strides, read.sizes);
    let batch = CUBE_POS_Z as usize;
    let span = queries_of(key, sizes, plan);
    let mut column = Vector::<f32, P>::new(0.0);
    let mut row = span.begin;
    while row < span.end {
        let tile = Tile::new(batch, head, row, key, sizes, plan);
        if tile.reached(sizes, plan) {
            let count = min(sizes.queries - row, plan.side);
            let q = TileRows::<N>::new(read.q, strides.q, batch, head, row, count);
            let gradient = TileRows::<N>::new(upstream.gradient, upstream.strides, batch, head, row, count);
            let of_queries =
                OfQueries::<P>::read::<N>(read, upstream, memory, batch, head, row, Own::Keys, plan);
            let mut shares = over_channels::<N, P, H>(k, &q, memory, halves, plan.dim, plan);
            make_scores::<N, P>(&mut shares, of_queries.scales, read, tile, Own::Keys, plan);
            let mut slopes = over_channels::<N, P, H>(v, &gradient, memory, halves, plan.value_dim, plan);
            weigh::<P>(&mut shares, &mut slopes, of_queries, Own::Keys, plan);
            let v_sums = &mut sums.v;
            over_rows::<N, P, H>(
                &shares,
                &gradient,
                tile,
                memory,
                halves,
                v_sums,
                sizes,
                Own::Keys,
                plan.value_dim,
                plan,
            );
            #[unroll]
            for j in 0..plan.part() {
                column += slopes[j];
                slopes[j] *= Vector::new(of_queries.scales.extract(j));
            }
            let k_sums = &mut sums.k;
            over_rows::<N, P, H>(&slopes, &q, tile, memory, halves, k_sums, sizes, Own::Keys, plan.dim, plan);
        }
        row += plan.side;
    }
    column
}
