//! A product of two small matrices of f32, rounded to bf16 on their way, on the calling thread.
//!
//! Attention multiplies blocks of 32 rows. Both factors are laid out as pairs of neighbours along the inner dimension, a part
//! of it at a time, for the processor's dot products of bf16. What is laid out fits into the second cache, and sums of up to 24
//! registers stay in registers over [`INNER`] numbers. Keys and values are laid out once more for each block: to keep them laid
//! out gained nothing (experiments/log.md).

#![cfg_attr(
    not(all(target_arch = "x86_64", not(miri))),
    allow(
        dead_code,
        unused_imports,
        unused_variables,
        reason = "other processors take the plain loop alone"
    )
)]

use super::dot::{Arithmetic, arithmetic};
use super::numbers::round_all;
use crate::machine::matmul::{self, Matrix};
use crate::machine::simd::{Number, vectorised};
use burn::tensor::bf16;
use std::cell::RefCell;
use std::mem::MaybeUninit;

/// Numbers of a register.
const LANES: usize = 16;
/// Columns at once: four registers.
const COLUMNS: usize = 4 * LANES;
/// Numbers whose products are summed in registers, an even number.
const INNER: usize = if cfg!(miri) { 4 } else { 256 };

/// `out = factor * left * right`, or `out += ..` with `add`; the rows of out lie `stride` apart. Factors are rounded to bf16, and sums
/// are f32, in an order that the shape alone decides. The left factor may be the transpose of contiguous rows.
///
/// # Panics
/// The inner sizes differ, out is too short, or the right factor is a transpose.
pub(crate) fn matmul_rounded(
    out: &mut [f32],
    stride: usize,
    add: bool,
    factor: f32,
    left: Matrix<'_>,
    right: Matrix<'_>,
) {
    let ([rows, inner], [right_rows, columns]) = (left.size(), right.size());
    assert_eq!(inner, right_rows);
    if rows == 0 || columns == 0 {
        return;
    }
    assert!(stride >= columns && out.len() >= (rows - 1) * stride + columns);
    if inner == 0 {
        return matmul::matmul(out, stride, add, factor, left, right);
    }
    thread_local! {
        static FACTORS: RefCell<Factors> = RefCell::new(Factors::default());
    }
    // Buffers of their own for each call, should one ever come inside another.
    let mut factors = FACTORS.take();
    for first in (0..inner).step_by(INNER) {
        let part = first..(first + INNER).min(inner);
        factors.lay_out_left(left, &part);
        for column in (0..columns).step_by(COLUMNS) {
            let wide = COLUMNS.min(columns - column);
            factors.lay_out_right(right.rows(&part).columns(column, wide));
            let sums = Sums { out: &mut out[column..], stride, add: add || first > 0, factor, wide };
            factors.multiply(rows, sums);
        }
    }
    FACTORS.set(factors);
}

/// Both factors as words of two bf16, neighbours along the inner dimension, the first in the lower half. What they do not
/// fill is 0.
#[derive(Default)]
struct Factors {
    /// Pair p of row r is `left[r * row_step + p * pair_step]`.
    left: Vec<u32>,
    row_step: usize,
    pair_step: usize,
    /// `[pairs, COLUMNS]`.
    right: Vec<u32>,
    pairs: usize,
}

/// Where sums go: `wide` columns of rows that lie `stride` apart.
struct Sums<'a> {
    out: &'a mut [f32],
    stride: usize,
    add: bool,
    factor: f32,
    wide: usize,
}

impl Factors {
    /// A part of the inner dimension.
    fn lay_out_left(&mut self, left: Matrix<'_>, part: &std::ops::Range<usize>) {
        let [rows, _] = left.size();
        self.pairs = part.len().div_ceil(2);
        if let Some(across) = left.as_transpose() {
            // Of contiguous rows, two make a row of pairs.
            (self.row_step, self.pair_step) = (1, rows.next_multiple_of(LANES));
            pair_rows(across.rows(part), self.pair_step, &mut self.left);
        } else {
            (self.row_step, self.pair_step) = (self.pairs, 1);
            pair_within_rows(left.columns(part.start, part.len()), self.pairs, &mut self.left);
        }
    }

    fn lay_out_right(&mut self, right: Matrix<'_>) {
        pair_rows(right, COLUMNS, &mut self.right);
    }

    /// The products of all rows with the columns at hand.
    fn multiply(&self, rows: usize, sums: Sums<'_>) {
        let Sums { out, stride, add, factor, wide } = sums;
        assert!((1..=COLUMNS).contains(&wide) && self.right.len() >= self.pairs * COLUMNS);
        assert!(self.left.len() > (rows - 1) * self.row_step + (self.pairs - 1) * self.pair_step);
        assert!(out.len() >= (rows - 1) * stride + wide);
        let mut row = 0;
        while row < rows {
            let tile = Tile {
                left: &self.left[row * self.row_step..],
                steps: [self.row_step, self.pair_step],
                right: &self.right[..self.pairs * COLUMNS],
                out: &mut out[row * stride..],
                stride,
                add,
                factor,
                wide,
            };
            row += tile.run(rows - row);
        }
    }
}

/// Rows of a product, and the columns at hand.
struct Tile<'a> {
    left: &'a [u32],
    steps: [usize; 2],
    /// `[pairs, COLUMNS]`.
    right: &'a [u32],
    out: &'a mut [f32],
    stride: usize,
    add: bool,
    factor: f32,
    wide: usize,
}

impl Tile<'_> {
    /// Writes as many rows as registers hold sums of, of those that are left; gives how many.
    fn run(self, left: usize) -> usize {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if arithmetic() == Arithmetic::Dot {
            // SAFETY: the processor has the instructions; the caller asserted that left, right and out hold all rows.
            return unsafe { self.run_by_registers(left) };
        }
        self.run_plainly()
    }

    /// One row in plain arithmetic, where there is no instruction.
    fn run_plainly(self) -> usize {
        let halves = |word: u32| [f32::from_bits(word << 16), f32::from_bits(word & 0xffff_0000)];
        for column in 0..self.wide {
            let mut sum = 0.0;
            for (pair, words) in self.right.chunks_exact(COLUMNS).enumerate() {
                let [a, b] = halves(self.left[pair * self.steps[1]]);
                let [upper, lower] = halves(words[column]);
                sum += b * lower;
                sum += a * upper;
            }
            let out = &mut self.out[column];
            *out = if self.add { *out + self.factor * sum } else { self.factor * sum };
        }
        1
    }

    /// # Safety
    /// The processor has AVX512-BF16, and the slices hold `left` rows.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe fn run_by_registers(self, left: usize) -> usize {
        // SAFETY: the caller's to hold.
        unsafe {
            match (self.wide.div_ceil(LANES), left) {
                (1, 16..) => self.rows::<16, 1>(),
                (1, 8..) => self.rows::<8, 1>(),
                (2, 12..) => self.rows::<12, 2>(),
                (2, 8..) => self.rows::<8, 2>(),
                (3, 8..) => self.rows::<8, 3>(),
                (4, 6..) => self.rows::<6, 4>(),
                (wide, 4..) => match wide {
                    1 => self.rows::<4, 1>(),
                    2 => self.rows::<4, 2>(),
                    3 => self.rows::<4, 3>(),
                    _ => self.rows::<4, 4>(),
                },
                (wide, 2..) => match wide {
                    1 => self.rows::<2, 1>(),
                    2 => self.rows::<2, 2>(),
                    3 => self.rows::<2, 3>(),
                    _ => self.rows::<2, 4>(),
                },
                (1, _) => self.rows::<1, 1>(),
                (2, _) => self.rows::<1, 2>(),
                (3, _) => self.rows::<1, 3>(),
                (_, _) => self.rows::<1, 4>(),
            }
        }
    }

    /// Writes R rows of W registers; gives R.
    ///
    /// # Safety
    /// As for [`run_by_registers`](Self::run_by_registers), for R rows; W registers are as wide as the columns at hand.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[target_feature(enable = "avx512f,avx512bf16")]
    unsafe fn rows<const R: usize, const W: usize>(self) -> usize {
        use std::arch::x86_64::{
            __m512bh, __m512i, __mmask16, _mm512_add_ps, _mm512_dpbf16_ps, _mm512_loadu_si512,
            _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_mul_ps, _mm512_set1_epi32, _mm512_set1_ps,
            _mm512_setzero_ps, _mm512_setzero_si512,
        };
        let bf16s = |x: __m512i| -> __m512bh {
            // SAFETY: two types of the same 512 bits.
            unsafe { std::mem::transmute(x) }
        };
        let mut masks: [__mmask16; W] = [0; W];
        for (at, mask) in masks.iter_mut().enumerate() {
            *mask = ((1_u32 << (self.wide - at * LANES).min(LANES)) - 1) as __mmask16;
        }
        let [row_step, pair_step] = self.steps;
        let mut sums = [[_mm512_setzero_ps(); W]; R];
        // SAFETY: R rows of all pairs, and of out only the columns that the masks let through. Nothing here can overflow, and
        // checks for it would take the sums out of their registers.
        unsafe {
            let mut left = self.left.as_ptr();
            for words in self.right.as_chunks::<COLUMNS>().0 {
                let mut right = [_mm512_setzero_si512(); W];
                for (at, right) in right.iter_mut().enumerate() {
                    *right = _mm512_loadu_si512(words.as_ptr().wrapping_add(at * LANES).cast());
                }
                let mut from = left;
                for sums in &mut sums {
                    let pair = _mm512_set1_epi32((*from).cast_signed());
                    for (sum, right) in sums.iter_mut().zip(right) {
                        *sum = _mm512_dpbf16_ps(*sum, bf16s(pair), bf16s(right));
                    }
                    from = from.wrapping_add(row_step);
                }
                left = left.wrapping_add(pair_step);
            }
            let factor = _mm512_set1_ps(self.factor);
            let out = self.out.as_mut_ptr();
            for (row, sums) in sums.iter().enumerate() {
                for (at, sum) in sums.iter().enumerate() {
                    let to = out.wrapping_add(row * self.stride + at * LANES);
                    let mut sum = _mm512_mul_ps(*sum, factor);
                    if self.add {
                        sum = _mm512_add_ps(_mm512_maskz_loadu_ps(masks[at], to), sum);
                    }
                    _mm512_mask_storeu_ps(to, masks[at], sum);
                }
            }
        }
        R
    }
}

/// Pairs of contiguous rows, one below the other: `[pairs, step]`.
fn pair_rows(x: Matrix<'_>, step: usize, words: &mut Vec<u32>) {
    let [rows, columns] = x.size();
    let pairs = rows.div_ceil(2);
    words.resize(words.len().max(pairs * step), 0);
    for (pair, words) in words.chunks_exact_mut(step).take(pairs).enumerate() {
        let upper = x.row(2 * pair);
        let (words, rest) = words.split_at_mut(columns);
        rest.fill(0);
        if 2 * pair + 1 < rows {
            pair_two(upper, x.row(2 * pair + 1), words);
        } else {
            pair_with_zero(upper, words);
        }
    }
}

/// Pairs of neighbours within contiguous rows: `[rows, pairs]`.
fn pair_within_rows(x: Matrix<'_>, pairs: usize, words: &mut Vec<u32>) {
    let [rows, columns] = x.size();
    words.resize(words.len().max(rows * pairs), 0);
    for (row, words) in words.chunks_exact_mut(pairs).take(rows).enumerate() {
        words[pairs - 1] = 0;
        // SAFETY: words of 32 bits are places for twice as many of 16, all of which any bits may fill.
        let places = unsafe {
            std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<MaybeUninit<bf16>>(), columns)
        };
        round_all(x.row(row), places);
    }
}

vectorised! {
    /// Each number of a row with the one below.
    fn pair_two(upper: &[f32], lower: &[f32], words: &mut [u32]) {
        for ((word, upper), lower) in words.iter_mut().zip(upper).zip(lower) {
            *word = u32::from(bf16::round(*upper).to_bits()) | u32::from(bf16::round(*lower).to_bits()) << 16;
        }
    }

    fn pair_with_zero(upper: &[f32], words: &mut [u32]) {
        for (word, upper) in words.iter_mut().zip(upper) {
            *word = u32::from(bf16::round(*upper).to_bits());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::bf16::{rounded, widened};
    use crate::machine::matmul::tests::assert_product;
    use crate::testing::numbers;

    /// Sizes around those of registers, odd ones, and more numbers than are summed at once.
    #[test]
    fn products_of_every_shape_are_those_of_rounded_numbers() {
        let shapes: &[(usize, usize, usize)] = if cfg!(miri) {
            &[(1, 1, 1), (3, 5, 2), (7, 66, 9), (13, 17, 5)]
        } else {
            &[
                (1, 1, 1),
                (3, 5, 2),
                (32, 64, 64),
                (32, 70, 37),
                (17, 33, 5),
                (130, 48, 32),
                (32, 64, 600),
                (7, 130, 513),
            ]
        };
        for &(rows, columns, inner) in shapes {
            let given = [numbers(1, rows * inner), numbers(2, inner * columns)];
            let exact = given.each_ref().map(|x| widened(&rounded(x)));
            for turned in [false, true] {
                let [given, exact] = [&given, &exact].map(|[left, right]| {
                    let left = if turned {
                        Matrix::new(left, inner, rows, rows).transposed()
                    } else {
                        Matrix::new(left, rows, inner, inner)
                    };
                    [left, Matrix::new(right, inner, columns, columns)]
                });
                assert_product(matmul_rounded, given, exact);
            }
        }
    }
}
