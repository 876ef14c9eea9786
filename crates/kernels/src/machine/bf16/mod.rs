//! Products of bf16 numbers on the CPU, with sums in f32.
//!
//! **How:** the processor's own dot products where it has them (`dot.rs`: AVX512-BF16, asked at run time), which do two
//! multiplications and two additions for each f32 of a register, twice as many as f32 arithmetic does. The right matrix
//! is laid out once in panels of 64 columns (`panels.rs`); the left one is read as it lies, unless it is a transpose.
//! Elsewhere the factors are made f32 and multiplied by [`parallel_matmul`]: the same numbers but for the order of sums,
//! in no less time than f32.
//!
//! **Bits:** every sum is taken in an order that the shape alone decides, so a second run and any number of threads give
//! the same. Processors with and without the dot products differ in the last bits of the sums. The instruction takes
//! numbers below 2^-126 for 0.
//!
//! **Not here:** AMX and Arm's BFMMLA, whose intrinsics the stable compiler does not have.

mod dot;
mod numbers;
mod panels;
mod small;

pub(crate) use dot::{Arithmetic, arithmetic};
pub(crate) use numbers::{rounded, widened};
pub(crate) use panels::{COLUMNS, Panels, lay_out_strip};
pub(crate) use small::matmul_rounded;

use crate::machine::matmul::{Matrix, Start, parallel_matmul};
use burn::tensor::bf16;
use dot::{Left, ROWS};
use numbers::{round_all, round_onto, round_to_f32};
use rayon::prelude::*;
use std::mem::MaybeUninit;

/// Pairs of numbers that are summed in registers before the sums are put aside: a panel of so many stays in the
/// second cache.
const PAIRS: usize = if cfg!(miri) { 4 } else { 512 };

/// What multiplies bf16 numbers on this machine's CPU, in words.
pub fn arithmetic_name() -> &'static str {
    match arithmetic() {
        Arithmetic::Dot => "by the processor's dot products (AVX512-BF16)",
        Arithmetic::Widened => "in f32: the processor has no dot products of bf16 (AVX512-BF16)",
    }
}

/// A matrix of contiguous rows `[rows, columns]`, or the transpose of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bf16Matrix<'a> {
    data: &'a [bf16],
    rows: usize,
    columns: usize,
    turned: bool,
}

impl<'a> Bf16Matrix<'a> {
    /// Contiguous rows.
    ///
    /// # Panics
    /// There are not `rows * columns` numbers.
    pub(crate) fn new(data: &'a [bf16], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns);
        Self { data, rows, columns, turned: false }
    }

    pub(crate) fn transposed(self) -> Self {
        Self { rows: self.columns, columns: self.rows, turned: !self.turned, ..self }
    }

    /// The same on numbers in f32.
    fn widened<'b>(&self, data: &'b [f32]) -> Matrix<'b> {
        if self.turned {
            Matrix::new(data, self.columns, self.rows, self.rows).transposed()
        } else {
            Matrix::new(data, self.rows, self.columns, self.columns)
        }
    }
}

/// `left * right`, row-major. `store` makes the numbers of the result from sums in f32: it receives where the sums
/// begin in the result, some sums of one row, and as many places, all of which it must fill.
///
/// # Panics
/// The inner sizes differ.
pub(crate) fn product<T: Copy + Send>(
    arithmetic: Arithmetic,
    left: Bf16Matrix<'_>,
    right: Bf16Matrix<'_>,
    store: impl Fn(usize, &[f32], &mut [MaybeUninit<T>]) + Sync,
) -> Vec<T> {
    assert_eq!(left.columns, right.rows);
    if arithmetic == Arithmetic::Widened || left.rows * right.columns * left.columns == 0 {
        return widened_product(left, right, store);
    }
    let (rows, columns) = (left.rows, right.columns);
    let right = Panels::new(right);
    let left = Left::new(left);
    let mut out: Vec<T> = Vec::with_capacity(rows * columns);
    let start = Start::new(&mut out);
    let across = columns.div_ceil(COLUMNS);
    let high = left.tile_rows();
    let tiles = rows.div_ceil(high) * across;
    (0..tiles).into_par_iter().for_each_init(
        || vec![0.0; high * COLUMNS],
        |sums, index| {
            let (row, panel) = (index / across * high, index % across);
            let (high, wide) = (high.min(rows - row), COLUMNS.min(columns - panel * COLUMNS));
            tile(&left, row, high, right.panel(panel), sums, false);
            for (offset, sums) in sums.chunks_exact(COLUMNS).take(high).enumerate() {
                let from = (row + offset) * columns + panel * COLUMNS;
                // SAFETY: inside the buffer, and of this tile alone.
                let places = unsafe { std::slice::from_raw_parts_mut(start.at(from).cast(), wide) };
                store(from, &sums[..wide], places);
            }
        },
    );
    // SAFETY: the tiles cover the buffer, and `store` fills what it is given.
    unsafe { out.set_len(rows * columns) };
    out
}

/// The sums of `high` rows from `row` on and of one panel, in rows of [`COLUMNS`]: written, or added to what is there.
fn tile(left: &Left<'_>, row: usize, high: usize, panel: &[u32], sums: &mut [f32], add: bool) {
    let pairs = panel.len() / COLUMNS;
    for first in (0..pairs).step_by(PAIRS) {
        let panel = &panel[first * COLUMNS..][..PAIRS.min(pairs - first) * COLUMNS];
        for offset in (0..high).step_by(ROWS) {
            let count = ROWS.min(high - offset);
            let sums = &mut sums[offset * COLUMNS..(offset + count) * COLUMNS];
            left.add(row + offset, count, first, panel, sums, add || first > 0);
        }
    }
}

/// The sums of contiguous rows and of one panel, in rows of [`COLUMNS`], on the calling thread.
///
/// # Panics
/// A row has an odd number of numbers, or not as many as the panel.
pub(crate) fn rows_with_panel(left: Bf16Matrix<'_>, panel: &[u32], sums: &mut [f32]) {
    assert!(!left.turned && left.columns == 2 * (panel.len() / COLUMNS), "rows of whole pairs");
    tile(&Left::Rows(left), 0, left.rows, panel, sums, false);
}

/// Adds to `sums`, in rows of [`COLUMNS`], those of one panel's columns as the rows of a transpose, and of another panel: on
/// the calling thread.
pub(crate) fn add_panel_with_panel(left: &[u32], panel: &[u32], sums: &mut [f32]) {
    tile(&Left::Panel(left), 0, sums.len() / COLUMNS, panel, sums, true);
}

/// The same by products in f32.
fn widened_product<T: Copy + Send>(
    left: Bf16Matrix<'_>,
    right: Bf16Matrix<'_>,
    store: impl Fn(usize, &[f32], &mut [MaybeUninit<T>]) + Sync,
) -> Vec<T> {
    let (rows, columns) = (left.rows, right.columns);
    let (left_values, right_values) = (widened(left.data), widened(right.data));
    let sums = parallel_matmul(left.widened(&left_values), right.widened(&right_values), None);
    let mut out: Vec<T> = Vec::with_capacity(rows * columns);
    let width = columns.max(1);
    let places = out.spare_capacity_mut()[..rows * columns].par_chunks_mut(width);
    places
        .zip(sums.par_chunks(width))
        .enumerate()
        .for_each(|(row, (out, sums))| store(row * columns, sums, out));
    // SAFETY: the rows cover the buffer, and `store` fills what it is given.
    unsafe { out.set_len(rows * columns) };
    out
}

/// The product rounded to bf16.
pub(crate) fn rounded_product(left: Bf16Matrix<'_>, right: Bf16Matrix<'_>) -> Vec<bf16> {
    product(arithmetic(), left, right, |_, sums, out| round_all(sums, out))
}

/// The product rounded to bf16, as f32; added to `onto` if it is given.
///
/// # Panics
/// `onto` is not of the product's size.
pub(crate) fn stream_product(left: Bf16Matrix<'_>, right: Bf16Matrix<'_>, onto: Option<&[f32]>) -> Vec<f32> {
    assert!(onto.is_none_or(|onto| onto.len() == left.rows * right.columns));
    product(arithmetic(), left, right, |from, sums, out| match onto {
        None => round_to_f32(sums, out),
        Some(onto) => round_onto(sums, &onto[from..], out),
    })
}

#[cfg(test)]
mod tests;
