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

/// Writes the sums of a tile's own rows, each row times a number, to where they belong: side by side in shared memory first, of each
/// unit's rows one at a time.
#[cube]
pub(super) fn write_rows<N: Size, P: Size>(
    sums: &Array<Vector<f32, N>>,
    times: Vector<f32, P>,
    target: &mut [Vector<f32, N>],
    place: OutputRows,
    memory: &mut Memory<N, P>,
    #[comptime] dim: usize,
    #[comptime] plan: Plan,
) {
    for i in 0..plan.part() {
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
        let mut item = UNIT_POS as usize;
        while item < comptime!(UNITS_A_SIDE * dim) {
            let row = item / dim * plan.part() + i;
            if row < place.count {
                target[place.from + row * place.stride + item % dim] = memory.rows[item];
            }
            item += UNITS;
        }
    }
}
