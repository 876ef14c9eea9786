//! Rows of channels in registers, and tiles of them in shared memory.

use super::QUERIES;
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Brings rows `first ..` into a tile; those past the last one are left as they are.
#[cube]
pub(super) fn stage<N: Size>(
    source: &[Vector<f32, N>],
    from: usize,
    row_stride: usize,
    first: usize,
    rows: usize,
    tile: &mut Shared<[Vector<f32, N>]>,
    #[comptime] dim: usize,
    #[comptime] tile_rows: usize,
) {
    let mut index = UNIT_POS as usize;
    while index < comptime!(tile_rows * dim) {
        let row = first + index / dim;
        if row < rows {
            tile[index] = source[from + row * row_stride + index % dim];
        }
        index += QUERIES;
    }
}

/// Reads one row, or zeros if it is not `real`.
#[cube]
pub(super) fn read_row<N: Size>(
    source: &[Vector<f32, N>],
    from: usize,
    real: bool,
    #[comptime] dim: usize,
) -> Array<Vector<f32, N>> {
    let mut row = Array::<Vector<f32, N>>::new(dim);
    #[unroll]
    for d in 0..dim {
        row[d] = Vector::new(0.0);
        if real {
            row[d] = source[from + d];
        }
    }
    row
}

/// Zeros for sums.
#[cube]
pub(super) fn zeros<N: Size>(#[comptime] dim: usize) -> Array<Vector<f32, N>> {
    let mut row = Array::<Vector<f32, N>>::new(dim);
    #[unroll]
    for d in 0..dim {
        row[d] = Vector::new(0.0);
    }
    row
}

/// The dot product of a row and a row of a tile.
#[cube]
pub(super) fn dot<N: Size>(
    row: &Array<Vector<f32, N>>,
    tile: &Shared<[Vector<f32, N>]>,
    from: usize,
    #[comptime] dim: usize,
) -> f32 {
    let mut sum = row[0] * tile[from];
    #[unroll]
    for d in 1..dim {
        sum += row[d] * tile[from + d];
    }
    sum.vector_sum()
}

/// The dot product of two rows where they lie.
#[cube]
pub(super) fn dot_of<N: Size>(
    a: &[Vector<f32, N>],
    a_from: usize,
    b: &[Vector<f32, N>],
    b_from: usize,
    #[comptime] dim: usize,
) -> f32 {
    let mut sum = a[a_from] * b[b_from];
    #[unroll]
    for d in 1..dim {
        sum += a[a_from + d] * b[b_from + d];
    }
    sum.vector_sum()
}

/// Adds `times` a row of a tile.
#[cube]
pub(super) fn add<N: Size>(
    sum: &mut Array<Vector<f32, N>>,
    tile: &Shared<[Vector<f32, N>]>,
    from: usize,
    times: f32,
    #[comptime] dim: usize,
) {
    #[unroll]
    for d in 0..dim {
        sum[d] += tile[from + d] * Vector::new(times);
    }
}

/// Writes `times` a row.
#[cube]
pub(super) fn write_row<N: Size>(
    row: &Array<Vector<f32, N>>,
    target: &mut [Vector<f32, N>],
    from: usize,
    times: f32,
    #[comptime] dim: usize,
) {
    #[unroll]
    for d in 0..dim {
        target[from + d] = row[d] * Vector::new(times);
    }
}
