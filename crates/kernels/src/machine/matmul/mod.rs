//! Matrix products on slices: on the calling thread, and on all of them.
//!
//! They are those of the `gemm` crate, but for those whose factors can be read as they lie (`direct.rs`), also where many rows share
//! one that is laid out for them (`rows.rs`).

mod direct;
mod rows;
mod shared;
mod transpose;

pub(crate) use shared::{STRIP, SharedMatrix};

use crate::machine::buffers::computed;
use crate::machine::simd::LANES;
use gemm::Parallelism;
use rayon::prelude::*;
use rows::Panels;
use std::sync::LazyLock;
use transpose::transpose;

/// Whether the processor has registers of 512 bits; under Miri plain loops take their place.
fn has_wide_registers() -> bool {
    static HAS: LazyLock<bool> = LazyLock::new(|| {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        return is_x86_feature_detected!("avx512f");
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        return cfg!(miri);
    });
    *HAS
}

/// A matrix on a slice: element (i, j) is `data[i * strides.0 + j * strides.1]`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    strides: (usize, usize),
}

impl<'a> Matrix<'a> {
    /// Rows that lie `stride` apart.
    pub(crate) fn new(data: &'a [f32], rows: usize, columns: usize, stride: usize) -> Self {
        Self::strided(data, rows, columns, (stride, 1))
    }

    /// A matrix whose element (i, j) is `data[i * strides.0 + j * strides.1]`.
    pub(crate) fn strided(data: &'a [f32], rows: usize, columns: usize, strides: (usize, usize)) -> Self {
        let last = |count: usize, stride: usize| count.saturating_sub(1) * stride;
        assert!(rows == 0 || columns == 0 || data.len() > last(rows, strides.0) + last(columns, strides.1));
        Self { data, rows, columns, strides }
    }

    /// Rows and columns.
    pub(crate) fn size(self) -> [usize; 2] {
        [self.rows, self.columns]
    }

    /// One row.
    ///
    /// # Panics
    /// The matrix is a transpose, or there is no such row.
    pub(crate) fn row(self, row: usize) -> &'a [f32] {
        assert!(self.strides.1 == 1 && row < self.rows, "rows that lie contiguously");
        &self.data[row * self.strides.0..][..self.columns]
    }

    /// The contiguous rows that this is the transpose of, if it is one.
    pub(crate) fn as_transpose(self) -> Option<Self> {
        (self.strides.1 != 1 && self.strides.0 == 1).then(|| self.transposed())
    }

    /// Writes the transpose, in rows that lie `stride` apart.
    ///
    /// # Panics
    /// The matrix is itself a transpose, or out is too short.
    pub(crate) fn transpose_into(self, out: &mut [f32], stride: usize) {
        assert_eq!(self.strides.1, 1, "rows that lie contiguously");
        transpose(self.data, self.rows, self.columns, self.strides.0, out, stride);
    }

    /// Writes the rows, which lie `stride` apart afterwards.
    ///
    /// # Panics
    /// The matrix is a transpose, or out is too short.
    pub(crate) fn copy_into(self, out: &mut [f32], stride: usize) {
        assert_eq!(self.strides.1, 1, "rows that lie contiguously");
        for row in 0..self.rows {
            out[row * stride..][..self.columns]
                .copy_from_slice(&self.data[row * self.strides.0..][..self.columns]);
        }
    }

    pub(crate) fn transposed(self) -> Self {
        let Self { data, rows, columns, strides } = self;
        Self { data, rows: columns, columns: rows, strides: (strides.1, strides.0) }
    }

    pub(crate) fn columns(self, first: usize, count: usize) -> Self {
        self.part((0, first), self.rows, count)
    }

    pub(crate) fn rows(self, rows: &std::ops::Range<usize>) -> Self {
        self.part((rows.start, 0), rows.len(), self.columns)
    }

    fn part(self, first: (usize, usize), rows: usize, columns: usize) -> Self {
        let start = first.0 * self.strides.0 + first.1 * self.strides.1;
        Self::strided(&self.data[start..], rows, columns, self.strides)
    }
}

/// `out = factor * left * right`, or `out += ..` with `add`; the rows of out lie `stride` apart.
///
/// # Panics
/// The inner sizes differ, or out is too short.
pub(crate) fn matmul(
    out: &mut [f32],
    stride: usize,
    add: bool,
    factor: f32,
    left: Matrix<'_>,
    right: Matrix<'_>,
) {
    let (rows, columns, inner) = (left.rows, right.columns, left.columns);
    assert_eq!(inner, right.rows);
    if rows == 0 || columns == 0 {
        return;
    }
    assert!(stride >= columns && out.len() >= (rows - 1) * stride + columns);
    if rows >= LANES && direct::turns(right) {
        return direct::with_turned(right, |right| matmul(out, stride, add, factor, left, right));
    }
    if inner > 0 && direct::applies(left, right) {
        // SAFETY: out holds all rows (asserted), is borrowed mutably, and its rows do not overlap.
        unsafe {
            let out = out.as_mut_ptr();
            direct::product(out, stride, add.then_some(out.cast_const()), factor, left, right);
        }
        return;
    }
    // SAFETY: as above.
    unsafe { matmul_at(out.as_mut_ptr(), stride, add, factor, left, right) }
}

/// [`matmul`] at an address.
///
/// # Safety
/// Nothing else uses the `left.rows` rows of `right.columns` numbers, `stride` apart, that begin at `out`; with
/// `add` they hold numbers.
unsafe fn matmul_at(
    out: *mut f32,
    stride: usize,
    add: bool,
    factor: f32,
    left: Matrix<'_>,
    right: Matrix<'_>,
) {
    // SAFETY: the last element of each matrix lies inside its slice, as its makers assert; the rest is the
    // caller's to hold.
    unsafe {
        gemm::gemm(
            left.rows,
            right.columns,
            left.columns,
            out,
            1,
            stride.cast_signed(),
            add,
            left.data.as_ptr(),
            left.strides.1.cast_signed(),
            left.strides.0.cast_signed(),
            right.data.as_ptr(),
            right.strides.1.cast_signed(),
            right.strides.0.cast_signed(),
            1.0,
            factor,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

/// Columns of a tile where rows are few or the inner size is large: the width of the innermost loop on the widest
/// registers.
const COLUMNS: usize = if cfg!(miri) { 4 } else { 64 };
/// The fewest and the most rows of a tile of whole rows.
const ROWS: (usize, usize) = if cfg!(miri) { (4, 8) } else { (64, 256) };
/// Multiplications that other threads cannot help with: waking them takes longer.
const ALONE: usize = if cfg!(miri) { 1 << 6 } else { 1 << 17 };
/// Tiles that a product is cut into if its shape allows: work for so many threads. One with more than 4,096 rows has more.
const TILES: usize = 16;

/// Rows and columns of the tiles in which a product is computed. They depend on the shape alone, so that every
/// element is summed in the same order whatever the number of threads.
fn tile(rows: usize, columns: usize, inner: usize) -> (usize, usize) {
    if rows * columns * inner <= ALONE {
        return (rows, columns);
    }
    if rows >= inner && rows >= 2 * ROWS.0 {
        // Activations times weights: whole rows, for which the weights are laid out once a tile. With 64 rows a tile this
        // takes a tenth of the time.
        return (rows.div_ceil(TILES).next_multiple_of(ROWS.0).min(ROWS.1), columns);
    }
    // The gradient of weights, or few rows: narrow columns, then rows until there is enough to share.
    let across = columns.div_ceil(COLUMNS);
    let down = rows.div_ceil((TILES / 2).div_ceil(across)).next_multiple_of(ROWS.0 / 2);
    (down, COLUMNS)
}

/// `left * right`, or `onto + left * right`, row-major in a new buffer, on all threads.
///
/// # Panics
/// The inner sizes differ, or `onto` is not of the product's size.
pub(crate) fn parallel_matmul(left: Matrix<'_>, right: Matrix<'_>, onto: Option<&[f32]>) -> Vec<f32> {
    let (rows, columns, inner) = (left.rows, right.columns, left.columns);
    assert_eq!(inner, right.rows);
    assert!(onto.is_none_or(|onto| onto.len() == rows * columns));
    if rows * columns * inner == 0 {
        return onto.map_or_else(|| vec![0.0; rows * columns], <[f32]>::to_vec);
    }
    let (high, wide) = tile(rows, columns, inner);
    let is_shared = wide == columns && rows > high;
    if is_shared && left.strides.1 == 1 && has_wide_registers() {
        return product_with_panels(left, right, high, onto);
    }
    if right.strides.1 != 1 && rows.div_ceil(high) > 1 && wide == columns {
        // Every tile would turn the same matrix.
        let turned = turned(right);
        return parallel_matmul(left, Matrix::new(&turned, inner, columns, columns), onto);
    }
    let mut out: Vec<f32> = Vec::with_capacity(rows * columns);
    let start = Start::new(&mut out);
    let across = columns.div_ceil(wide);
    let tiles = rows.div_ceil(high) * across;
    (0..tiles).into_par_iter().with_max_len(1).for_each(|index| {
        let (row, column) = (index / across * high, index % across * wide);
        let (high, wide) = (high.min(rows - row), wide.min(columns - column));
        if let Some(onto) = onto {
            for row in row..row + high {
                let from = row * columns + column;
                // SAFETY: inside both buffers, and of this tile alone.
                unsafe { start.at(from).copy_from_nonoverlapping(onto[from..from + wide].as_ptr(), wide) };
            }
        }
        let (left, right) = (left.part((row, 0), high, inner), right.part((0, column), inner, wide));
        // SAFETY: tiles do not overlap and lie inside the buffer, which holds numbers where `onto` was copied.
        unsafe { matmul_at(start.at(row * columns + column), columns, onto.is_some(), 1.0, left, right) };
    });
    // SAFETY: the tiles cover the buffer, and each was written.
    unsafe { out.set_len(rows * columns) };
    out
}

/// The same in tiles of `high` contiguous rows, for which `right` is laid out once.
fn product_with_panels(left: Matrix<'_>, right: Matrix<'_>, high: usize, onto: Option<&[f32]>) -> Vec<f32> {
    let (rows, columns, inner) = (left.rows, right.columns, left.columns);
    let panels = Panels::new(right);
    let mut out: Vec<f32> = Vec::with_capacity(rows * columns);
    let start = Start::new(&mut out);
    let tiles = rows.div_ceil(high);
    (0..tiles).into_par_iter().with_max_len(1).for_each(|tile| {
        let row = tile * high;
        let left = left.part((row, 0), high.min(rows - row), inner);
        // SAFETY: tiles do not overlap and lie inside the buffer.
        unsafe {
            let onto = onto.map(|onto| onto[row * columns..].as_ptr());
            panels.product(left, start.at(row * columns), onto);
        };
    });
    // SAFETY: the tiles cover the buffer, and each was written.
    unsafe { out.set_len(rows * columns) };
    out
}

/// The matrix in contiguous rows.
fn turned(matrix: Matrix<'_>) -> Vec<f32> {
    assert_eq!(matrix.strides.0, 1, "the transpose of contiguous rows");
    let Matrix { rows, columns, strides, .. } = matrix;
    let high = ROWS.0;
    computed(rows * columns, high * columns, |task, out| {
        let (first, count) = (task * high, out.len() / columns);
        transpose(&matrix.data[first..], columns, count, strides.1, out, columns);
    })
}

/// Where a buffer begins that several threads write, each its own part.
pub(crate) struct Start<T>(*mut T);

impl<T> Start<T> {
    /// The buffer of an empty vector.
    pub(crate) fn new(buffer: &mut Vec<T>) -> Self {
        Self(buffer.as_mut_ptr())
    }

    /// # Safety
    /// `offset` lies inside the buffer.
    pub(crate) unsafe fn at(&self, offset: usize) -> *mut T {
        // SAFETY: the caller's to hold.
        unsafe { self.0.add(offset) }
    }
}

// SAFETY: the address alone is shared; who writes where is decided by its user.
unsafe impl<T: Send> Sync for Start<T> {}

#[cfg(test)]
pub(crate) mod tests;
