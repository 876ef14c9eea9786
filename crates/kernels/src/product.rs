//! Matrix products on slices, on the calling thread.

use crate::lanes::{LANES, vectorised};
use gemm::Parallelism;

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
        assert!(rows == 0 || columns == 0 || data.len() >= (rows - 1) * stride + columns);
        Self { data, rows, columns, strides: (stride, 1) }
    }

    /// Writes the transpose, in rows that lie `stride` apart.
    ///
    /// # Panics
    /// The matrix is itself a transpose, or out is too short.
    pub(crate) fn transpose_into(self, out: &mut [f32], stride: usize) {
        assert_eq!(self.strides.1, 1, "rows that lie contiguously");
        transpose(self.data, self.rows, self.columns, self.strides.0, out, stride);
    }

    /// The transpose, in place.
    pub(crate) fn transposed(self) -> Self {
        let Self { data, rows, columns, strides } = self;
        Self { data, rows: columns, columns: rows, strides: (strides.1, strides.0) }
    }
}

vectorised! {
    fn transpose(x: &[f32], rows: usize, columns: usize, x_stride: usize, out: &mut [f32], out_stride: usize) {
        for first in (0..rows).step_by(LANES) {
            let count = LANES.min(rows - first);
            for from in (0..columns).step_by(LANES) {
                let wide = LANES.min(columns - from);
                let x = &x[first * x_stride + from..];
                let out = &mut out[from * out_stride + first..];
                if count == LANES && wide == LANES {
                    // A whole tile: with both sizes known, whole lines are read and written.
                    let mut tile = [[0.0_f32; LANES]; LANES];
                    for (row, tile) in tile.iter_mut().enumerate() {
                        tile.copy_from_slice(&x[row * x_stride..row * x_stride + LANES]);
                    }
                    for column in 0..LANES {
                        let out = &mut out[column * out_stride..column * out_stride + LANES];
                        for lane in 0..LANES {
                            out[lane] = tile[lane][column];
                        }
                    }
                } else {
                    for column in 0..wide {
                        for row in 0..count {
                            out[column * out_stride + row] = x[row * x_stride + column];
                        }
                    }
                }
            }
        }
    }
}

/// `out = factor * left * right`, or `out += ..` with `add`; the rows of out lie `stride` apart.
///
/// # Panics
/// The inner sizes differ, or out is too short.
pub(crate) fn product(
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
    // SAFETY: the last element of each matrix lies inside its slice (asserted here and in
    // `Matrix::new`), out is borrowed mutably, and its rows do not overlap.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            out.as_mut_ptr(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_both_orientations() {
        let left: Vec<f32> = (0..6).map(|i| i as f32).collect();
        let right: Vec<f32> = (0..8).map(|i| i as f32 - 3.0).collect();
        // [2, 3] x [3, 2], the second with rows 3 apart.
        let (a, b) = (Matrix::new(&left, 2, 3, 3), Matrix::new(&right, 3, 2, 3));
        let mut out = vec![1.0; 4];
        product(&mut out, 2, false, 2.0, a, b);
        assert_eq!(out, [12.0, 18.0, 12.0, 36.0]);
        product(&mut out, 2, true, 1.0, b.transposed(), a.transposed());
        assert_eq!(out, [12.0 + 6.0, 18.0 + 6.0, 12.0 + 9.0, 36.0 + 18.0]);
        let mut turned = vec![0.0; 8];
        b.transpose_into(&mut turned, 4);
        assert_eq!(turned, [-3.0, 0.0, 3.0, 0.0, -2.0, 1.0, 4.0, 0.0]);
        product(&mut out, 2, false, 1.0, Matrix::new(&[], 2, 0, 0), Matrix::new(&[], 0, 2, 2));
        assert_eq!(out, [0.0; 4]);
    }
}
