//! The way of sums out of the registers: rows side by side in shared memory, then to where they belong.

use super::memory::Memory;
use super::products::columns;
use super::tile::{other_group, own_group};
use super::{Plan, UNITS, UNITS_A_SIDE};
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Where the rows of a tile go.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(super) struct OutputRows {
    /// The first vector of the first row, and the vectors from one row to the next.
    pub(super) from: usize,
    pub(super) stride: usize,
    /// The rows that there are.
    pub(super) count: usize,
}

/// Lays rows of sums side by side: of each unit's own rows the one numbered `i`, times a number.
#[cube]
pub(super) fn gather<N: Size, P: Size>(
    sums: &Array<Vector<f32, N>>,
    times: Vector<f32, P>,
    memory: &mut Memory<N, P>,
    i: usize,
    #[comptime] dim: usize,
    #[comptime] plan: Plan,
) {
    sync_cube();
    // Which register that is must be known when the kernel is compiled.
    #[unroll]
    for row in 0..plan.part() {
        if i == row {
            #[unroll]
            for column in 0..comptime!(columns(dim)) {
                let vector = column * UNITS_A_SIDE + other_group();
                if vector < dim {
                    let sum = sums[comptime!(column * plan.part() + row)];
                    memory.rows[own_group() * dim + vector] = sum * Vector::new(times.extract(row));
                }
            }
        }
    }
    sync_cube();
}

/// The row of the tile that is the gathered one numbered `group`.
#[cube]
pub(super) fn gathered(group: usize, i: usize, #[comptime] plan: Plan) -> usize {
    group * plan.part() + i
}

#[cube]
pub(super) fn write_gathered<N: Size>(
    rows: &Shared<[Vector<f32, N>]>,
    target: &mut [Vector<f32, N>],
    place: OutputRows,
    i: usize,
    #[comptime] dim: usize,
    #[comptime] plan: Plan,
) {
    let mut item = UNIT_POS as usize;
    while item < comptime!(UNITS_A_SIDE * dim) {
        let row = gathered(item / dim, i, plan);
        if row < place.count {
            target[place.from + row * place.stride + item % dim] = rows[item];
        }
        item += UNITS;
    }
}
