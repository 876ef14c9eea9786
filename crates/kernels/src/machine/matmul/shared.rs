//! A matrix that many small products share, each on the thread that wants it.

use super::rows::{self, COLUMNS, Panels};
use super::{Matrix, Start, matmul, registers};

/// Columns of a strip: a part of a matrix that is a product's right factor as it lies.
pub(crate) const STRIP: usize = COLUMNS;

/// The right factor of products: laid out once for all of them where registers have 512 bits, and else as it lies.
pub(crate) struct SharedMatrix<'a>(Layout<'a>);

enum Layout<'a> {
    Panels { panels: Panels<'a>, columns: usize },
    AsItLies(Matrix<'a>),
}

impl<'a> SharedMatrix<'a> {
    /// Contiguous rows, or the transpose of such; laid out by all threads.
    pub(crate) fn new(matrix: Matrix<'a>) -> Self {
        if registers::applies() {
            return Self(Layout::Panels { panels: Panels::new(matrix), columns: matrix.columns });
        }
        Self(Layout::AsItLies(matrix))
    }

    /// Contiguous rows of [`STRIP`] numbers, which need no laying out.
    pub(crate) fn strip(numbers: &'a [f32]) -> Self {
        if registers::applies() {
            return Self(Layout::Panels { panels: Panels::of_one(numbers), columns: COLUMNS });
        }
        Self(Layout::AsItLies(Matrix::new(numbers, numbers.len() / COLUMNS, COLUMNS, COLUMNS)))
    }

    /// `out = left * self`, or `out += left * self` with `add`, in contiguous rows; those of `left` are contiguous too.
    ///
    /// # Panics
    /// The sizes do not fit each other, or the inner one is 0.
    pub(crate) fn product(&self, left: Matrix<'_>, out: &mut [f32], add: bool) {
        assert!(left.columns > 0, "a product with something to add up");
        match &self.0 {
            Layout::AsItLies(matrix) => matmul(out, matrix.columns, add, 1.0, left, *matrix),
            Layout::Panels { panels, columns } => {
                assert!(out.len() >= left.rows * columns);
                let start = Start::at_first(out);
                // SAFETY: out is borrowed mutably and holds as many rows of as many columns; it may be added to itself.
                unsafe {
                    let onto = add.then(|| start.at(0).cast_const());
                    rows::product_of_rows(&start, 0, *columns, left, panels, onto);
                }
            }
        }
    }
}
