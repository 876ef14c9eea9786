//! Matrix products on slices, on the calling thread.

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

    /// The transpose, in place.
    pub(crate) fn transposed(self) -> Self {
        let Self { data, rows, columns, strides } = self;
        Self { data, rows: columns, columns: rows, strides: (strides.1, strides.0) }
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
        product(&mut out, 2, false, 1.0, Matrix::new(&[], 2, 0, 0), Matrix::new(&[], 0, 2, 2));
        assert_eq!(out, [0.0; 4]);
    }
}
