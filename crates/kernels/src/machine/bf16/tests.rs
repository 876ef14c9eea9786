use super::*;
use crate::machine::matmul::tests::{assert_near, expected};
use crate::machine::simd::Number;
use crate::testing::{numbers, on_threads};

fn sums(arithmetic: Arithmetic, left: Bf16Matrix<'_>, right: Bf16Matrix<'_>) -> Vec<f32> {
    product(arithmetic, left, right, |from, sums, out| {
        assert!(from + sums.len() <= left.rows * right.columns && sums.len() == out.len());
        out.write_copy_of_slice(sums);
    })
}

/// Every orientation, sizes around the tiles' own, odd sizes, and more pairs than are summed at once.
#[test]
fn products_of_every_shape_in_both_arithmetics() {
    let shapes: &[(usize, usize, usize)] = if cfg!(miri) {
        &[(1, 1, 1), (2, 3, 0), (0, 3, 2), (7, 66, 3), (9, 5, 12), (66, 3, 10)]
    } else {
        &[
            (1, 1, 1),
            (2, 3, 0),
            (0, 3, 2),
            (7, 65, 3),
            (64, 64, 32),
            (65, 130, 34),
            (130, 20, 77),
            (5, 66, 2060),
        ]
    };
    for &(rows, columns, inner) in shapes {
        let (a, b) = (rounded(&numbers(1, rows * inner)), rounded(&numbers(2, inner * columns)));
        let lefts = [Bf16Matrix::new(&a, rows, inner), Bf16Matrix::new(&a, inner, rows).transposed()];
        let rights = [Bf16Matrix::new(&b, inner, columns), Bf16Matrix::new(&b, columns, inner).transposed()];
        let wide = [widened(&a), widened(&b)];
        for (left, right) in lefts.into_iter().flat_map(|left| rights.map(|right| (left, right))) {
            let expected = expected(left.widened(&wide[0]), right.widened(&wide[1]), None);
            for arithmetic in [Arithmetic::Dot, Arithmetic::Widened] {
                let out = on_threads(2, || sums(arithmetic, left, right));
                // A sum of n terms, each rounded: far below the n units that are possible.
                assert_near(&format!("{arithmetic:?} {rows} x {columns} x {inner}"), &out, &expected);
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn the_number_of_threads_changes_no_bit_of_dot_products() {
    let (a, b) = (rounded(&numbers(1, 700 * 96)), rounded(&numbers(2, 700 * 200)));
    let (left, right) = (Bf16Matrix::new(&a, 700, 96).transposed(), Bf16Matrix::new(&b, 700, 200));
    let products = || sums(Arithmetic::Dot, left, right);
    assert_eq!(on_threads(1, products), on_threads(3, products));
}

/// Against the type's own conversion, for every upper half and lower halves around the middle.
#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn rounding_is_to_the_nearest_even() {
    for upper in 0..=u16::MAX {
        for lower in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
            let x = f32::from_bits(u32::from(upper) << 16 | lower);
            let (own, other) = (bf16::round(x), bf16::from_f32(x));
            assert_eq!(own.to_bits(), other.to_bits(), "{x:e}");
        }
        let half = bf16::from_bits(upper);
        assert!(half.is_nan() && half.widen().is_nan() || half.widen().to_bits() == half.to_f32().to_bits());
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn whole_slices_are_rounded_and_widened() {
    let x = numbers(1, 2 * crate::machine::buffers::GRAIN + 5);
    let halves = rounded(&x);
    assert_eq!(halves, x.iter().map(|x| bf16::round(*x)).collect::<Vec<bf16>>());
    assert_eq!(widened(&halves), halves.iter().map(|x| x.widen()).collect::<Vec<_>>());
}
