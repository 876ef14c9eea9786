//! The gradient of q and of what belongs to queries of a bias. A cube owns the queries of a tile.

use super::biases::BiasGradient;
use super::matrices::{Halves, over_channels, over_rows};
use super::memory::{Memory, TileRows, zeros};
use super::out::{OutputRows, write_rows};
use super::products::columns;
use super::scores::{OfQueries, make_scores, weigh};
use super::tile::{Own, Tile, keys_of, own_group};
use super::{Plan, Read, Target, Upstream};
use burn_cubecl::cubecl;
use cubecl::prelude::*;

#[cube]
pub(super) fn by_queries<N: Size, P: Size, H: Float>(
    read: &Read<'_, N>,
    upstream: &Upstream<'_, N>,
    target: &mut Target<'_, N>,
    query_bias: &mut [f32],
    memory: &mut Memory<N, P>,
    halves: &mut Halves<H, N, P>,
    #[comptime] plan: Plan,
) {
    let (strides, sizes) = (read.strides, read.sizes);
    let row = CUBE_POS_X as usize * plan.side;
    let head = CUBE_POS_Y as usize;
    let batch = CUBE_POS_Z as usize;
    let key_head = head / comptime!(plan.group);
    let count = min(sizes.queries - row, plan.side);
    let q = TileRows::<N>::new(read.q, strides.q, batch, head, row, count);
    let gradient = TileRows::<N>::new(upstream.gradient, upstream.strides, batch, head, row, count);
    let span = keys_of(row, sizes, plan);
    let of_queries = OfQueries::<P>::read::<N>(read, upstream, memory, batch, head, row, Own::Queries, plan);
    let mut biases = BiasGradient::<P>::new(upstream, batch, head, row, query_bias, sizes, plan);
    let mut sums = zeros::<N>(comptime!(columns(plan.dim) * plan.part()));
    let mut key = span.begin;
    while key < span.end {
        let tile = Tile::new(batch, head, row, key, sizes, plan);
        if tile.reached(sizes, plan) {
            let count = min(span.end - key, plan.side);
            let k = TileRows::<N>::new(read.k, strides.k, batch, key_head, key, count);
            let v = TileRows::<N>::new(read.v, strides.v, batch, key_head, key, count);
            let mut shares = over_channels::<N, P, H>(&q, &k, memory, halves, plan.dim, plan);
            make_scores::<N, P>(&mut shares, of_queries.scales, read, tile, Own::Queries, plan);
            let mut slopes = over_channels::<N, P, H>(&gradient, &v, memory, halves, plan.value_dim, plan);
            weigh::<P>(&mut shares, &mut slopes, of_queries, Own::Queries, plan);
            biases.take(&shares, &slopes, tile, sizes, plan);
            over_rows::<N, P, H>(
                &slopes,
                &k,
                tile,
                memory,
                halves,
                &mut sums,
                sizes,
                Own::Queries,
                plan.dim,
                plan,
            );
        }
        key += plan.side;
    }
    let from = ((batch * sizes.heads + head) * sizes.queries + row) * plan.dim;
    let place = OutputRows { from, stride: plan.dim, count };
    write_rows::<N, P>(&sums, of_queries.scales, target.q, place, memory, plan.dim, plan);
    biases.write::<N>(batch, head, row + own_group() * plan.part(), memory, sizes, plan);
}
