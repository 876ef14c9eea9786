//! The products of the head, and those of f32.

use super::rows::round_in_place;
use crate::machine::matmul::{Matrix, STRIP, SharedMatrix};
use crate::machine::simd::Number;
use rayon::prelude::*;
use std::ops::Range;

/// Columns of hidden states that one task turns: whole lines.
const TURNED: usize = 16;

/// The three products of hidden states `[rows, width]` and weights `[width, classes]`, tile by tile.
pub(super) trait Products: Sync {
    /// The type of logits and of their gradient.
    type Number: Number + Default;
    /// Hidden states of some rows, laid out for the gradient of the weights.
    type Block: Sync;
    /// [`STRIP`] columns of the logits' gradient, laid out for the same.
    type Strip: Default + Send + Sync;

    /// Rows, width and classes.
    fn sizes(&self) -> [usize; 3];

    /// Numbers from a row of logits to the next.
    fn stride(&self) -> usize;

    /// The logits of some rows.
    fn logits(&self, rows: Range<usize>, out: &mut [Self::Number]);

    /// Leaves the logits' gradient as precise as logits are.
    fn round(&self, _: &mut [Self::Number]) {}

    /// The gradient of hidden states, from that of their logits.
    fn hidden_gradient(&self, slopes: &[Self::Number], out: &mut [f32]);

    /// Lays out the hidden states of some rows, by all threads.
    fn block(&self, rows: Range<usize>) -> Self::Block;

    /// Lays out `wide` columns of the logits' gradient of some rows, from `first` on.
    fn lay_out(&self, slopes: &[Self::Number], first: usize, wide: usize, strip: &mut Self::Strip);

    /// Adds to the gradient of a strip of the weights, `[channels, STRIP]` from a channel on that is a multiple of [`STRIP`].
    fn add_weight_gradient(&self, block: &Self::Block, strip: &Self::Strip, channel: usize, sums: &mut [f32]);
}

/// Those of f32, or of numbers of bf16 in f32 where the processor multiplies no bf16.
pub(super) struct Wide<'a> {
    hidden: &'a [f32],
    sizes: [usize; 3],
    forward: SharedMatrix<'a>,
    backward: Option<SharedMatrix<'a>>,
    rounds: bool,
}

impl<'a> Wide<'a> {
    /// With or without the gradient of hidden states; logits and their gradient are rounded to bf16 with `rounds`.
    pub(super) fn new(
        hidden: &'a [f32],
        weights: Matrix<'a>,
        sizes: [usize; 3],
        gradient: bool,
        rounds: bool,
    ) -> Self {
        let backward = gradient.then(|| SharedMatrix::new(weights.transposed()));
        Self { hidden, sizes, forward: SharedMatrix::new(weights), backward, rounds }
    }
}

impl Products for Wide<'_> {
    type Number = f32;
    /// The transpose, `[width, rows]`.
    type Block = Vec<f32>;
    /// `[rows, STRIP]`.
    type Strip = Vec<f32>;

    fn sizes(&self) -> [usize; 3] {
        self.sizes
    }

    fn stride(&self) -> usize {
        self.sizes[2]
    }

    fn logits(&self, rows: Range<usize>, out: &mut [f32]) {
        let width = self.sizes[1];
        let hidden = &self.hidden[rows.start * width..rows.end * width];
        self.forward.product(Matrix::new(hidden, rows.len(), width, width), out, false);
        self.round(out);
    }

    fn round(&self, slopes: &mut [f32]) {
        if self.rounds {
            round_in_place(slopes);
        }
    }

    fn hidden_gradient(&self, slopes: &[f32], out: &mut [f32]) {
        let classes = self.sizes[2];
        let slopes = Matrix::new(slopes, slopes.len() / classes, classes, classes);
        self.backward.as_ref().expect("the gradient of hidden states is wanted").product(slopes, out, false);
    }

    fn block(&self, rows: Range<usize>) -> Vec<f32> {
        let width = self.sizes[1];
        let hidden = &self.hidden[rows.start * width..rows.end * width];
        let hidden = Matrix::new(hidden, rows.len(), width, width);
        crate::machine::buffers::computed(width * rows.len(), TURNED * rows.len(), |task, out| {
            let first = task * TURNED;
            hidden.columns(first, TURNED.min(width - first)).transpose_into(out, rows.len());
        })
    }

    fn lay_out(&self, slopes: &[f32], first: usize, wide: usize, strip: &mut Vec<f32>) {
        let classes = self.sizes[2];
        // What the last strip leaves of an earlier one is added to columns that nothing reads.
        strip.resize(slopes.len() / classes * STRIP, 0.0);
        for (row, strip) in slopes.chunks_exact(classes).zip(strip.chunks_exact_mut(STRIP)) {
            strip[..wide].copy_from_slice(&row[first..first + wide]);
        }
    }

    fn add_weight_gradient(&self, block: &Vec<f32>, strip: &Vec<f32>, channel: usize, sums: &mut [f32]) {
        let (rows, channels) = (strip.len() / STRIP, sums.len() / STRIP);
        let hidden = Matrix::new(&block[channel * rows..], channels, rows, rows);
        SharedMatrix::strip(strip).product(hidden, sums, true);
    }
}

/// The hidden states of some rows, one after the other.
pub(super) fn gathered(hidden: &[f32], width: usize, rows: &[usize]) -> Vec<f32> {
    let mut out = vec![0.0; rows.len() * width];
    let places = out.par_chunks_mut(width.max(1)).zip(rows);
    places.for_each(|(out, row)| out.copy_from_slice(&hidden[row * width..][..width]));
    out
}

/// The inverse: what lies one after the other, as some of `count` rows; the others are 0.
pub(super) fn scattered(values: &[f32], width: usize, rows: &[usize], count: usize) -> Vec<f32> {
    let mut out = vec![0.0; count * width];
    for (values, row) in values.chunks_exact(width.max(1)).zip(rows) {
        out[row * width..][..width].copy_from_slice(values);
    }
    out
}
