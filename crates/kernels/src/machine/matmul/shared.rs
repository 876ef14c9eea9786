//! A matrix that many small products share, each on the thread that wants it.

use super::rows::{COLUMNS, Panels};
use super::{Matrix, has_wide_registers, matmul};

/// Columns of a strip: a part of a matrix that is a product's right factor as it lies.
pub(crate) const STRIP: usize = COLUMNS;

/// The right factor of products: laid out once for all of them where registers have 512 bits, and else as it lies.
pub(crate) enum SharedMatrix<'a> {
    Panels(Panels<'a>),
    AsItLies(Matrix<'a>),
}

impl<'a> SharedMatrix<'a> {
    /// Contiguous rows, or the transpose of such; laid out by all threads.
    pub(crate) fn new(matrix: Matrix<'a>) -> Self {
        if has_wide_registers() { Self::Panels(Panels::new(matrix)) } else { Self::AsItLies(matrix) }
    }

    /// Contiguous rows of [`STRIP`] numbers, which need no laying out.
    pub(crate) fn strip(numbers: &'a [f32]) -> Self {
        if has_wide_registers() {
            return Self::Panels(Panels::of_one(numbers));
        }
        Self::AsItLies(Matrix::new(numbers, numbers.len() / COLUMNS, COLUMNS, COLUMNS))
    }

    /// `out = left * self`, or `out += left * self` with `add`, in contiguous rows; those of `left` are contiguous too.
    ///
    /// # Panics
    /// The sizes do not fit each other, or the inner one is 0.
    pub(crate) fn product(&self, left: Matrix<'_>, out: &mut [f32], add: bool) {
        assert!(left.columns > 0, "a product with something to add up");
        match self {
            Self::AsItLies(matrix) => matmul(out, matrix.columns, add, 1.0, left, *matrix),
            Self::Panels(panels) => {
                assert!(out.len() >= left.rows * panels.columns());
                let out = out.as_mut_ptr();
                // SAFETY: out is borrowed mutably and holds as many rows of as many columns; it may be added to itself.
                unsafe { panels.product(left, out, add.then_some(out.cast_const())) }
            }
        }
    }
}
