//! Products of many rows with a matrix that all of them share (activations times weights), in registers of 512 bits.
//!
//! The product of the `gemm` crate lays out both factors in parts that fit into the caches, once for every tile: 4% of a
//! training step. Here the shared matrix is laid out once, in panels of 64 columns, and the rows are read as they lie
//! (`direct.rs`). A step takes 0.975 times as long at widths 128 and 256 (Zen 4, two threads). Gradients of weights, whose
//! inner size is that of all tokens, stay with the crate: laying both factors out whole would cost as much as is won.

use super::direct::{self, INNER};
use super::{Matrix, transpose};
use crate::machine::buffers::written;
use std::borrow::Cow;
use std::mem::MaybeUninit;

/// Columns of a panel: four registers.
pub(super) const COLUMNS: usize = 64;

/// A matrix `[inner, columns]` in panels of [`COLUMNS`] columns: `[panel, inner, column]`. What the matrix does not fill is 0.
pub(crate) struct Panels<'a> {
    numbers: Cow<'a, [f32]>,
    inner: usize,
    columns: usize,
}

impl<'a> Panels<'a> {
    /// Of contiguous rows, or of the transpose of such.
    pub(super) fn new(matrix: Matrix<'_>) -> Panels<'static> {
        let Matrix { rows: inner, columns, strides, .. } = matrix;
        let size = inner * COLUMNS;
        let numbers = written(columns.div_ceil(COLUMNS) * size, size, |panel, out| {
            out.fill(MaybeUninit::new(0.0));
            // SAFETY: all of it has just been written.
            let out = unsafe { out.assume_init_mut() };
            let first = panel * COLUMNS;
            let part = matrix.columns(first, COLUMNS.min(columns - first));
            if strides.1 == 1 {
                for (row, out) in out.chunks_exact_mut(COLUMNS).enumerate() {
                    out[..part.columns].copy_from_slice(&part.data[row * strides.0..][..part.columns]);
                }
            } else {
                transpose(part.data, part.columns, inner, strides.1, out, COLUMNS);
            }
        });
        Panels { numbers: Cow::Owned(numbers), inner, columns }
    }

    /// A matrix of [`COLUMNS`] columns in contiguous rows, which is one panel as it lies.
    pub(super) fn of_one(numbers: &'a [f32]) -> Self {
        Self { numbers: Cow::Borrowed(numbers), inner: numbers.len() / COLUMNS, columns: COLUMNS }
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// `out = left * self`, or that added to numbers from `onto` on, for contiguous rows of `left`; those of out and `onto` lie side by
    /// side.
    ///
    /// # Safety
    /// As for [`direct::product`].
    pub(super) unsafe fn product(&self, left: Matrix<'_>, out: *mut f32, onto: Option<*const f32>) {
        assert!(left.strides.1 == 1 && left.columns == self.inner);
        let stride = self.columns;
        for first in (0..self.inner).step_by(INNER) {
            let part = first..self.inner.min(first + INNER);
            let left = left.columns(first, part.len());
            for (panel, numbers) in self.numbers.chunks_exact(self.inner * COLUMNS).enumerate() {
                let column = panel * COLUMNS;
                let right =
                    Matrix::new(numbers, self.inner, COLUMNS.min(stride - column), COLUMNS).rows(&part);
                let before = if first > 0 { Some(out.cast_const()) } else { onto };
                // SAFETY: the caller's to hold.
                unsafe {
                    let before = before.map(|before| before.add(column));
                    direct::product(out.add(column), stride, before, 1.0, left, right);
                }
            }
        }
    }
}
