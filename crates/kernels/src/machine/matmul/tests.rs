use super::*;
use crate::testing::{numbers, on_threads};

#[test]
fn products_of_both_orientations() {
    let left: Vec<f32> = (0..6).map(|i| i as f32).collect();
    let right: Vec<f32> = (0..8).map(|i| i as f32 - 3.0).collect();
    // [2, 3] x [3, 2], the second with rows 3 apart.
    let (a, b) = (Matrix::new(&left, 2, 3, 3), Matrix::new(&right, 3, 2, 3));
    let mut out = vec![1.0; 4];
    matmul(&mut out, 2, false, 2.0, a, b);
    assert_eq!(out, [12.0, 18.0, 12.0, 36.0]);
    matmul(&mut out, 2, true, 1.0, b.transposed(), a.transposed());
    assert_eq!(out, [12.0 + 6.0, 18.0 + 6.0, 12.0 + 9.0, 36.0 + 18.0]);
    let mut turned = vec![0.0; 8];
    b.transpose_into(&mut turned, 4);
    assert_eq!(turned, [-3.0, 0.0, 3.0, 0.0, -2.0, 1.0, 4.0, 0.0]);
    matmul(&mut out, 2, false, 1.0, Matrix::new(&[], 2, 0, 0), Matrix::new(&[], 0, 2, 2));
    assert_eq!(out, [0.0; 4]);
}

/// The product by its definition, in f64, and the sum of the magnitudes, to which rounding errors are relative.
pub(crate) fn expected(left: Matrix<'_>, right: Matrix<'_>, onto: Option<&[f32]>) -> Vec<[f64; 2]> {
    let at = |m: Matrix<'_>, i, j| f64::from(m.data[i * m.strides.0 + j * m.strides.1]);
    let mut out = Vec::new();
    for i in 0..left.rows {
        for j in 0..right.columns {
            let added = onto.map_or(0.0, |onto| f64::from(onto[i * right.columns + j]));
            let terms = (0..left.columns).map(|n| at(left, i, n) * at(right, n, j)).chain([added]);
            out.push(terms.fold([0.0, 0.0], |[sum, size], term| [sum + term, size + term.abs()]));
        }
    }
    out
}

#[track_caller]
pub(crate) fn assert_near(what: &str, out: &[f32], expected: &[[f64; 2]]) {
    assert_eq!(out.len(), expected.len(), "{what}");
    for (out, &[expected, size]) in out.iter().zip(expected) {
        let off = (f64::from(*out) - expected).abs();
        assert!(off <= 1e-6 * size, "{what}: {out} is {off} off");
    }
}

/// Rows, columns and inner size under Miri, where tiles are small (the constants of the module): one tile, tiles of whole rows,
/// tiles of some columns, and edges that no tile fills.
const MIRI_SHAPES: &[(usize, usize, usize)] = &[(3, 5, 2), (18, 3, 2), (5, 9, 7), (2, 9, 4)];

#[test]
fn tiles_cover_every_shape() {
    let shapes: &[(usize, usize, usize)] = if cfg!(miri) {
        MIRI_SHAPES
    } else {
        &[
            (1, 1, 1),
            (1, 300, 5),
            (130, 70, 3),
            (300, 65, 40),
            (65, 130, 400),
            // Sums in more than one part.
            (610, 66, 515),
            (2, 3, 0),
            (0, 3, 2),
        ]
    };
    for &(rows, columns, inner) in shapes {
        let (a, b) = (numbers(1, rows * inner), numbers(2, inner * columns));
        let onto = numbers(3, rows * columns);
        let lefts = [Matrix::new(&a, rows, inner, inner), Matrix::strided(&a, rows, inner, (1, rows))];
        let rights =
            [Matrix::new(&b, inner, columns, columns), Matrix::strided(&b, inner, columns, (1, inner))];
        for left in lefts {
            for right in rights {
                for onto in [None, Some(&onto[..])] {
                    let out = on_threads(2, || parallel_matmul(left, right, onto));
                    let what = format!("{rows} x {columns} x {inner}");
                    assert_near(&what, &out, &expected(left, right, onto));
                }
            }
        }
    }
}

#[test]
fn products_on_one_thread_of_every_shape() {
    let shapes: &[(usize, usize, usize)] = if cfg!(miri) {
        MIRI_SHAPES
    } else {
        &[(1, 1, 1), (3, 16, 5), (33, 31, 32), (32, 50, 64), (47, 64, 600), (29, 130, 9)]
    };
    for &(rows, columns, inner) in shapes {
        let (a, b) = (numbers(1, rows * inner), numbers(2, inner * columns));
        let lefts = [Matrix::new(&a, rows, inner, inner), Matrix::strided(&a, rows, inner, (1, rows))];
        let rights =
            [Matrix::new(&b, inner, columns, columns), Matrix::strided(&b, inner, columns, (1, inner))];
        for (left, right) in lefts.into_iter().flat_map(|left| rights.map(|right| (left, right))) {
            assert_product(matmul, [left, right], [left, right]);
        }
    }
}

/// Compares the product of what is `given` with the definition on what is `exact`, added or not, in rows with numbers between them,
/// which stay; the last one ends with the buffer.
#[track_caller]
pub(crate) fn assert_product(
    product: fn(&mut [f32], usize, bool, f32, Matrix<'_>, Matrix<'_>),
    given: [Matrix<'_>; 2],
    exact: [Matrix<'_>; 2],
) {
    let [left, right] = given;
    let (rows, columns, inner, factor) = (left.rows, right.columns, left.columns, 0.7);
    let (stride, expected) = (columns + 3, expected(exact[0], exact[1], None));
    let before = numbers(3, (rows - 1) * stride + columns);
    for add in [false, true] {
        let mut out = before.clone();
        product(&mut out, stride, add, factor, left, right);
        for (index, (out, before)) in out.iter().zip(&before).enumerate() {
            let (row, column) = (index / stride, index % stride);
            if column >= columns {
                assert_eq!(out.to_bits(), before.to_bits());
                continue;
            }
            let [sum, size] = expected[row * columns + column];
            let added = if add { f64::from(*before) } else { 0.0 };
            let off = (f64::from(*out) - added - f64::from(factor) * sum).abs();
            assert!(off <= 1e-6 * (size + added.abs()), "{rows} x {columns} x {inner}: {off} off");
        }
    }
}

/// A matrix laid out for products, and a strip as it lies, onto numbers that are added to in place.
#[test]
fn products_with_a_shared_matrix() {
    for (rows, columns, inner) in [(3, 5, 2), (7, 66, 9), (13, STRIP, 5)] {
        let (a, b) = (numbers(1, rows * inner), numbers(2, inner * columns));
        let (left, right) = (Matrix::new(&a, rows, inner, inner), Matrix::new(&b, inner, columns, columns));
        let mut shared = vec![SharedMatrix::new(right)];
        if columns == STRIP {
            shared.push(SharedMatrix::strip(&b));
        }
        for shared in shared {
            let mut out = vec![f32::NAN; rows * columns];
            shared.product(left, &mut out, false);
            assert_near("from zero", &out, &expected(left, right, None));
            let onto = out.clone();
            shared.product(left, &mut out, true);
            assert_near("added", &out, &expected(left, right, Some(&onto)));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn the_number_of_threads_changes_no_bit() {
    for [rows, columns, inner] in [[700, 200, 96], [4161, 130, 128], [1025, 512, 1000], [200, 700, 1000]] {
        let (a, b) = (numbers(1, rows * inner), numbers(2, inner * columns));
        let right = Matrix::new(&b, inner, columns, columns);
        let lefts = [Matrix::new(&a, rows, inner, inner), Matrix::strided(&a, rows, inner, (1, rows))];
        for left in lefts {
            let [one, three, many] =
                [1, 3, 64].map(|threads| on_threads(threads, || parallel_matmul(left, right, None)));
            assert!(one == three && one == many, "{rows} x {columns} x {inner}");
        }
    }
}
