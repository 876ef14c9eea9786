//! Matrices laid out for dot products of pairs.

use super::Bf16Matrix;
use crate::machine::simd::{LANES, vectorised};
use burn::tensor::bf16;
use rayon::prelude::*;
use std::mem::MaybeUninit;

/// Columns of a panel: four registers of 16 pairs.
pub(crate) const COLUMNS: usize = 64;
/// Pairs that one task lays out.
const PAIRS: usize = 64;

/// A matrix `[inner, columns]` in panels of [`COLUMNS`] columns: `[panel, pair, column]`, where a pair is two numbers of
/// a column, one below the other, the upper one in the lower half of 32 bits. What the matrix does not fill is 0.
#[derive(Debug)]
pub(crate) struct Panels {
    words: Vec<u32>,
    pairs: usize,
}

impl Panels {
    pub(crate) fn new(matrix: Bf16Matrix<'_>) -> Self {
        let Bf16Matrix { data, rows: inner, columns, turned } = matrix;
        let pairs = inner.div_ceil(2);
        let count = columns.div_ceil(COLUMNS) * pairs * COLUMNS;
        let mut words: Vec<u32> = Vec::with_capacity(count);
        let panels = words.spare_capacity_mut()[..count].par_chunks_mut(pairs * COLUMNS);
        panels.enumerate().for_each(|(panel, words)| {
            let column = panel * COLUMNS;
            let wide = COLUMNS.min(columns - column);
            words.par_chunks_mut(PAIRS * COLUMNS).enumerate().for_each(|(part, words)| {
                let row = 2 * part * PAIRS;
                let high = (words.len() / COLUMNS * 2).min(inner - row);
                words.fill(MaybeUninit::new(0));
                // SAFETY: all of the part has just been written.
                let words = unsafe { words.assume_init_mut() };
                if turned {
                    pair_within_rows(&data[column * inner + row..], inner, high, wide, words);
                } else {
                    pair_rows(&data[row * columns + column..], columns, high, wide, words);
                }
            });
        });
        // SAFETY: the parts cover the first `count` words, and each was written.
        unsafe { words.set_len(count) };
        Self { words, pairs }
    }

    /// All pairs of a panel: `[pair, column]`.
    pub(crate) fn panel(&self, panel: usize) -> &[u32] {
        &self.words[panel * self.pairs * COLUMNS..][..self.pairs * COLUMNS]
    }

    pub(crate) fn count(&self) -> usize {
        self.words.len() / (self.pairs * COLUMNS).max(1)
    }

    /// All words from `pair` of `column` on; the next column's is the next word, the next pair's [`COLUMNS`] further.
    pub(super) fn from(&self, column: usize, pair: usize) -> &[u32] {
        &self.words[(column / COLUMNS * self.pairs + pair) * COLUMNS + column % COLUMNS..]
    }
}

/// One panel of rows `stride` apart: `wide` columns from `first` on, in words that are used again.
pub(crate) fn lay_out_strip(x: &[bf16], stride: usize, first: usize, wide: usize, words: &mut Vec<u32>) {
    let rows = x.len() / stride;
    words.resize(rows.div_ceil(2) * COLUMNS, 0);
    if wide < COLUMNS {
        words.fill(0);
    }
    pair_rows(&x[first..], stride, rows, wide, words);
}

/// Two numbers of a column.
#[inline(always)]
fn pair(upper: bf16, lower: bf16) -> u32 {
    u32::from(upper.to_bits()) | u32::from(lower.to_bits()) << 16
}

vectorised! {
    /// Pairs of `high` rows, `stride` apart, of which `count` numbers are read.
    fn pair_rows(x: &[bf16], stride: usize, high: usize, count: usize, words: &mut [u32]) {
        for (index, words) in words.chunks_exact_mut(COLUMNS).enumerate() {
            let row = 2 * index;
            let upper = &x[row * stride..row * stride + count];
            if row + 1 < high {
                let lower = &x[(row + 1) * stride..(row + 1) * stride + count];
                for ((word, upper), lower) in words.iter_mut().zip(upper).zip(lower) {
                    *word = pair(*upper, *lower);
                }
            } else {
                for (word, upper) in words.iter_mut().zip(upper) {
                    *word = pair(*upper, bf16::ZERO);
                }
            }
        }
    }

    /// Pairs of the transpose of `count` rows, `stride` apart, of which `high` numbers are read.
    fn pair_within_rows(x: &[bf16], stride: usize, high: usize, count: usize, words: &mut [u32]) {
        for column in (0..count).step_by(LANES) {
            let width = LANES.min(count - column);
            for first in (0..high.div_ceil(2)).step_by(LANES) {
                let down = LANES.min(high.div_ceil(2) - first);
                // A tile of pairs, read along the rows and written across them.
                let mut tile = [[0_u32; LANES]; LANES];
                for (offset, tile) in tile.iter_mut().enumerate().take(width) {
                    let row = &x[(column + offset) * stride..(column + offset) * stride + high];
                    for (index, word) in tile.iter_mut().enumerate().take(down) {
                        let at = 2 * (first + index);
                        *word = pair(row[at], if at + 1 < high { row[at + 1] } else { bf16::ZERO });
                    }
                }
                for index in 0..down {
                    let words = &mut words[(first + index) * COLUMNS + column..][..width];
                    for (word, tile) in words.iter_mut().zip(&tile) {
                        *word = tile[index];
                    }
                }
            }
        }
    }
}
