//! Products of many rows with a matrix that all of them share (activations times weights), in registers of 512 bits.
//!
//! The product of the `gemm` crate lays out both factors in parts that fit into the caches, once for every tile: 4% of a
//! training step. Here the shared matrix is laid out once, in panels of 64 columns, and the rows are read as they lie. Six
//! rows of a panel are summed in 24 registers, over [`INNER`] numbers at a time: a sum is the sum of such parts, in their
//! order. A step takes 0.975 times as long at widths 128 and 256 (Zen 4, two threads). Gradients of weights, whose inner size is that of
//! all tokens, stay with the crate: laying both factors out whole would cost as much as is won.

use super::{Matrix, Start, transpose};
use crate::machine::buffers::written;
use std::borrow::Cow;
use std::mem::MaybeUninit;

/// Columns of a panel: four registers.
pub(super) const COLUMNS: usize = 64;
/// Rows that are summed at once: with four registers a row, 24 of 32.
const ROWS: usize = 6;
/// Numbers of a row whose products are summed in registers. With 1,024 a step at width 256 takes 1% longer.
const INNER: usize = if cfg!(miri) { 4 } else { 256 };

/// A matrix `[inner, columns]` in panels of [`COLUMNS`] columns: `[panel, inner, column]`. What the matrix does not fill is 0.
pub(super) struct Panels<'a> {
    numbers: Cow<'a, [f32]>,
    inner: usize,
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
        Panels { numbers: Cow::Owned(numbers), inner }
    }

    /// A matrix of [`COLUMNS`] columns in contiguous rows, which is one panel as it lies.
    pub(super) fn of_one(numbers: &'a [f32]) -> Self {
        Self { numbers: Cow::Borrowed(numbers), inner: numbers.len() / COLUMNS }
    }

    fn part(&self, panel: usize, first: usize, count: usize) -> &[f32] {
        &self.numbers[(panel * self.inner + first) * COLUMNS..][..count * COLUMNS]
    }
}

/// `left * right`, or that added to numbers that begin at `onto`, for contiguous rows of `left`; the rows of out and `onto` lie
/// `columns` apart.
///
/// # Safety
/// Nothing else uses the rows from `row` on, as many as `left` has, of the buffer that begins at `out`. It has `columns`
/// columns, as the matrix in panels and what begins at `onto`, which has the same rows and may be the same buffer.
pub(super) unsafe fn product_of_rows(
    out: &Start<f32>,
    row: usize,
    columns: usize,
    left: Matrix<'_>,
    right: &Panels<'_>,
    onto: Option<*const f32>,
) {
    assert!(left.strides.1 == 1 && left.columns == right.inner);
    for first in (0..right.inner).step_by(INNER) {
        let count = INNER.min(right.inner - first);
        for panel in 0..columns.div_ceil(COLUMNS) {
            let column = panel * COLUMNS;
            let numbers = right.part(panel, first, count);
            for offset in (0..left.rows).step_by(ROWS) {
                let high = ROWS.min(left.rows - offset);
                let from = &left.data[offset * left.strides.0 + first..];
                assert!(from.len() >= (high - 1) * left.strides.0 + count);
                let place = (row + offset) * columns + column;
                // SAFETY: the place lies inside both buffers, as the caller promises.
                let (to, onto) = unsafe { (out.at(place), onto.map(|onto| onto.add(place))) };
                let before = if first > 0 { Some(to.cast_const()) } else { onto };
                let block = Block {
                    left: from.as_ptr(),
                    step: left.strides.0,
                    panel: numbers,
                    out: to,
                    before,
                    stride: columns,
                    wide: COLUMNS.min(columns - column),
                };
                // SAFETY: the rows of left are there (asserted), and those of out and of `onto` by the caller's promise.
                unsafe { block.add(high) }
            }
        }
    }
}

/// Some rows of a panel.
struct Block<'a> {
    /// Rows `step` apart.
    left: *const f32,
    step: usize,
    /// `[inner, COLUMNS]`.
    panel: &'a [f32],
    /// Rows `stride` apart, `wide` numbers of each.
    out: *mut f32,
    /// What is added, in rows as those of out.
    before: Option<*const f32>,
    stride: usize,
    wide: usize,
}

impl Block<'_> {
    /// Writes the sums of `high` rows, at most [`ROWS`].
    ///
    /// # Safety
    /// There are as many rows of left, of out and of what is added, and the processor has registers of 512 bits.
    unsafe fn add(&self, high: usize) {
        // SAFETY: the caller's to hold.
        unsafe {
            match high {
                1 => self.rows::<1>(),
                2 => self.rows::<2>(),
                3 => self.rows::<3>(),
                4 => self.rows::<4>(),
                5 => self.rows::<5>(),
                _ => self.rows::<6>(),
            }
        }
    }

    /// [`add`](Self::add) for R rows.
    ///
    /// # Safety
    /// As there.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[target_feature(enable = "avx512f")]
    unsafe fn rows<const R: usize>(&self) {
        use std::arch::x86_64::{
            __mmask16, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_storeu_ps,
            _mm512_maskz_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps,
        };
        const LANES: usize = 16;
        const WIDE: usize = COLUMNS / LANES;
        let mut sums = [[_mm512_setzero_ps(); WIDE]; R];
        // SAFETY: as many rows as the caller promises, and of each only the columns that the mask lets through. Nothing here
        // can overflow, and checks for it would take the sums out of their registers.
        unsafe {
            let mut left = self.left;
            for numbers in self.panel.as_chunks::<COLUMNS>().0 {
                let mut right = [_mm512_setzero_ps(); WIDE];
                for (at, right) in right.iter_mut().enumerate() {
                    *right = _mm512_loadu_ps(numbers.as_ptr().wrapping_add(at * LANES));
                }
                let mut from = left;
                for sums in &mut sums {
                    let number = _mm512_set1_ps(*from);
                    for (sum, right) in sums.iter_mut().zip(right) {
                        *sum = _mm512_fmadd_ps(number, right, *sum);
                    }
                    from = from.wrapping_add(self.step);
                }
                left = left.wrapping_add(1);
            }
            for (row, sums) in sums.iter().enumerate() {
                for (at, sum) in sums.iter().enumerate() {
                    let offset = row * self.stride + at * LANES;
                    let count = self.wide.saturating_sub(at * LANES).min(LANES);
                    let mask = ((1_u32 << count) - 1) as __mmask16;
                    let mut sum = *sum;
                    if let Some(before) = self.before {
                        sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, before.wrapping_add(offset)), sum);
                    }
                    _mm512_mask_storeu_ps(self.out.wrapping_add(offset), mask, sum);
                }
            }
        }
    }

    /// The same in plain loops, for Miri.
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    unsafe fn rows<const R: usize>(&self) {
        for row in 0..R {
            for column in 0..self.wide {
                let mut sum = 0.0_f32;
                for (index, numbers) in self.panel.chunks_exact(COLUMNS).enumerate() {
                    // SAFETY: the caller's to hold.
                    sum = unsafe { *self.left.add(row * self.step + index) }.mul_add(numbers[column], sum);
                }
                let offset = row * self.stride + column;
                // SAFETY: the caller's to hold.
                unsafe {
                    self.out.add(offset).write(self.before.map_or(0.0, |before| *before.add(offset)) + sum)
                };
            }
        }
    }
}
