//! The two products of a tile, which are all of its work that grows with `side^2 * channels`, in f32. `matrices.rs` has
//! them by a device's matrix units.
//!
//! With the side S of a tile, a cube has 16 x 16 units, and a unit the pairs of S/16 own rows and S/16 other rows. It holds
//! their products in registers, as vectors over its own rows. Both products add up outer products: of each channel, or of
//! each other row, a unit loads a vector of its own rows and what stands opposite, and multiplies each with each.

use super::memory::{Memory, TileRows, zeros};
use super::tile::{Own, Tile, other_group, own_group};
use super::{Plan, Sizes, UNITS_A_SIDE};
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// The sum over channels c of `own[i, c] * other[j, c]`, for the pairs (i, j) of a unit.
#[cube]
pub(super) fn over_channels<N: Size, P: Size>(
    own: &TileRows<'_, N>,
    other: &TileRows<'_, N>,
    memory: &mut Memory<N, P>,
    #[comptime] dim: usize,
    #[comptime] plan: Plan,
) -> Array<Vector<f32, P>> {
    let width = N::value();
    let slice = comptime!(plan.depth() / width);
    let others = comptime!(plan.depth() * UNITS_A_SIDE);
    let mut products = zeros::<P>(plan.part());
    let mut first = 0usize;
    while first < dim {
        sync_cube();
        memory.bring_channels(own, first, 0, dim, plan);
        memory.bring_channels(other, first, others, dim, plan);
        sync_cube();
        for channel in 0..min(dim - first, slice) * width {
            let a = memory.square[channel * UNITS_A_SIDE + own_group()];
            let b = memory.square[others + channel * UNITS_A_SIDE + other_group()];
            #[unroll]
            for j in 0..plan.part() {
                products[j] += a * Vector::new(b.extract(j));
            }
        }
        first += slice;
    }
    products
}

/// Adds the sum over other rows j of `pairs[i, j] * other[j, c]` to own rows i and channels c of a unit. The pairs lie in the
/// memory. Hidden ones are left out and not multiplied by 0: what they hide may be no number.
#[cube]
pub(super) fn over_rows<N: Size, P: Size>(
    other: &TileRows<'_, N>,
    tile: Tile,
    memory: &mut Memory<N, P>,
    sums: &mut Array<Vector<f32, N>>,
    sizes: Sizes,
    #[comptime] owner: Own,
    #[comptime] dim: usize,
    #[comptime] plan: Plan,
) {
    for part in 0..plan.part() {
        let first = part * UNITS_A_SIDE;
        memory.bring_rows(other, first, dim);
        if tile.whole {
            for row in 0..UNITS_A_SIDE {
                let pairs = memory.square[(first + row) * UNITS_A_SIDE + own_group()];
                #[unroll]
                for column in 0..comptime!(columns(dim)) {
                    let value = memory.rows[row * dim + vector_of(column, dim)];
                    #[unroll]
                    for i in 0..plan.part() {
                        let place = comptime!(column * plan.part() + i);
                        sums[place] += value * Vector::new(pairs.extract(i));
                    }
                }
            }
        } else {
            for row in 0..UNITS_A_SIDE {
                let pairs = memory.square[(first + row) * UNITS_A_SIDE + own_group()];
                let seen = tile.seen::<P>(first + row, sizes, owner, plan);
                #[unroll]
                for column in 0..comptime!(columns(dim)) {
                    let value = memory.rows[row * dim + vector_of(column, dim)];
                    #[unroll]
                    for i in 0..plan.part() {
                        let place = comptime!(column * plan.part() + i);
                        let sum = sums[place] + value * Vector::new(pairs.extract(i));
                        sums[place] = select(seen.extract(i), sum, sums[place]);
                    }
                }
            }
        }
    }
}

/// The vectors of a row that a unit takes.
pub(super) fn columns(dim: usize) -> usize {
    dim.div_ceil(UNITS_A_SIDE)
}

/// One of them; the last one may be another unit's too, and is not written then.
#[cube]
fn vector_of(#[comptime] column: usize, #[comptime] dim: usize) -> usize {
    min(column * UNITS_A_SIDE + other_group(), comptime!(dim - 1))
}
