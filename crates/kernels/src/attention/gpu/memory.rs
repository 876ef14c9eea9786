//! What the units of a cube share: slices of rows, the numbers of a tile, and sums over units.

use super::tile::{other_group, own_group};
use super::{Plan, UNITS, UNITS_A_SIDE};
use crate::machine::gpu::{Strides, start};
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Rows of a tile where they lie.
#[derive(CubeType)]
pub(super) struct TileRows<'a, N: Size> {
    source: &'a [Vector<f32, N>],
    /// The first vector of the first row, and the vectors from one row to the next.
    from: usize,
    stride: usize,
    /// The rows that there are: the last tile may have fewer than others.
    count: usize,
}

#[cube]
impl<'a, N: Size> TileRows<'a, N> {
    /// Of one head, from a row on.
    pub(super) fn new(
        source: &'a [Vector<f32, N>],
        strides: Strides,
        batch: usize,
        head: usize,
        first: usize,
        count: usize,
    ) -> TileRows<'a, N> {
        TileRows::<'a, N> { source, from: start(strides, batch, head, first), stride: strides.row, count }
    }

    /// The channels of a vector, each of as many rows from `first` on as a unit takes.
    pub(super) fn turned<P: Size>(
        &self,
        first: usize,
        vector: usize,
        #[comptime] dim: usize,
        #[comptime] plan: Plan,
    ) -> Array<Vector<f32, P>> {
        let width = N::value();
        let mut turned = zeros::<P>(width);
        #[unroll]
        for i in 0..plan.part() {
            let value = self.vector(first + i, vector, dim);
            #[unroll]
            for channel in 0..width {
                let mut column = turned[channel];
                column.insert(i, value.extract(channel));
                turned[channel] = column;
            }
        }
        turned
    }

    /// A vector of a row; zeros if there is none.
    pub(super) fn vector(&self, row: usize, vector: usize, #[comptime] dim: usize) -> Vector<f32, N> {
        let there = row < self.count && vector < dim;
        let place = self.from + min(row, self.count - 1) * self.stride + min(vector, comptime!(dim - 1));
        select(there, self.source[place], Vector::new(0.0))
    }
}

/// The memory that a cube shares. Whatever writes to it waits for all units, before and after.
#[derive(CubeType)]
pub(super) struct Memory<N: Size, P: Size> {
    /// A slice of the channels of own rows, then one of other rows; or the numbers of a tile; or a vector of each unit. Own rows
    /// lie side by side: vectors of as many as a unit takes.
    pub(super) square: Shared<[Vector<f32, P>]>,
    /// Some rows, side by side.
    pub(super) rows: Shared<[Vector<f32, N>]>,
}

#[cube]
impl<N: Size, P: Size> Memory<N, P> {
    pub(super) fn new(#[comptime] plan: Plan) -> Memory<N, P> {
        Memory::<N, P> {
            square: Shared::<[Vector<f32, P>]>::new_slice(comptime!(plan.side * UNITS_A_SIDE)),
            rows: Shared::<[Vector<f32, N>]>::new_slice(comptime!(
                UNITS_A_SIDE * plan.dim.max(plan.value_dim)
            )),
        }
    }

    /// Brings `depth` channels of the rows of a tile, from vector `first` of each row on: a vector has one channel of
    /// neighbouring rows. Rows and channels that there are not are zeros. The caller waits for all units.
    pub(super) fn bring_channels(
        &mut self,
        rows: &TileRows<'_, N>,
        first: usize,
        to: usize,
        #[comptime] dim: usize,
        #[comptime] plan: Plan,
    ) {
        let width = N::value();
        let items = comptime!(plan.depth() / width * UNITS_A_SIDE);
        let mut item = UNIT_POS as usize;
        while item < items {
            let group = item % UNITS_A_SIDE;
            let vector = item / UNITS_A_SIDE;
            let turned = rows.turned::<P>(group * plan.part(), first + vector, dim, plan);
            #[unroll]
            for channel in 0..width {
                self.square[to + (vector * width + channel) * UNITS_A_SIDE + group] = turned[channel];
            }
            item += UNITS;
        }
    }

    /// Brings rows from the one numbered `first` on; those that there are not are zeros.
    pub(super) fn bring_rows(&mut self, rows: &TileRows<'_, N>, first: usize, #[comptime] dim: usize) {
        sync_cube();
        let mut item = UNIT_POS as usize;
        while item < comptime!(UNITS_A_SIDE * dim) {
            self.rows[item] = rows.vector(first + item / dim, item % dim, dim);
            item += UNITS;
        }
        sync_cube();
    }

    /// Lays out the numbers of a tile: of each other row those with all own rows.
    pub(super) fn lay_out(&mut self, pairs: &Array<Vector<f32, P>>, #[comptime] plan: Plan) {
        sync_cube();
        #[unroll]
        for j in 0..plan.part() {
            let other = other_group() * plan.part() + j;
            self.square[other * UNITS_A_SIDE + own_group()] = pairs[j];
        }
        sync_cube();
    }

    /// Gives every unit of a group the vectors of all of them, one after the other from the group's number on.
    fn share(&mut self, own: Vector<f32, P>, group: usize, place: usize) {
        sync_cube();
        self.square[place * UNITS_A_SIDE + group] = own;
        sync_cube();
    }

    /// The sum of what the units of a group have, in the order of their places.
    pub(super) fn sum(&mut self, own: Vector<f32, P>, group: usize, place: usize) -> Vector<f32, P> {
        self.share(own, group, place);
        let mut sum = self.square[group];
        for other in 1..UNITS_A_SIDE {
            sum += self.square[other * UNITS_A_SIDE + group];
        }
        sum
    }

    /// The highest of what the units of a group have.
    pub(super) fn highest(&mut self, own: Vector<f32, P>, group: usize, place: usize) -> Vector<f32, P> {
        self.share(own, group, place);
        let mut highest = self.square[group];
        for other in 1..UNITS_A_SIDE {
            highest = max(highest, self.square[other * UNITS_A_SIDE + group]);
        }
        highest
    }
}

/// Zeros for sums.
#[cube]
pub(super) fn zeros<N: Size>(#[comptime] count: usize) -> Array<Vector<f32, N>> {
    let mut zeros = Array::<Vector<f32, N>>::new(count);
    #[unroll]
    for index in 0..count {
        zeros[index] = Vector::new(0.0);
    }
    zeros
}
