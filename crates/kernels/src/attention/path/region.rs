//! Some chunks of queries, and the keys before them.
//!
//! Inside a region, queries go from chunk to chunk (`walk.rs`). Keys before it come to the region instead: with
//! `A_c = M_{b-1} .. M_{c+1}` for the first chunk b of the region, a query that is left after the region meets the keys
//! `K' A_c^T` of chunk c. That is one product for each chunk and region, and one more for `A_{c-1} = A_c M_c`.

use super::chunks::{Cut, KeyHead, Operators};
use crate::machine::matmul::{Matrix, matmul};
use crate::machine::simd::LANES;
use std::ops::Range;

/// Chunks of a region.
pub(super) const REGION: usize = 4;

/// Chunks of queries of one head.
pub(super) struct Region<'a> {
    pub(super) head: KeyHead<'a>,
    pub(super) operators: &'a Operators,
    pub(super) cut: Cut,
    pub(super) chunks: Range<usize>,
    pub(super) scale: f32,
}

impl Region<'_> {
    /// The rows of its chunk n.
    pub(super) fn rows(&self, chunk: usize) -> Range<usize> {
        self.cut.rows(self.chunks.start + chunk)
    }

    /// Its first row: how many keys there are before it.
    pub(super) fn first(&self) -> usize {
        self.rows(0).start
    }

    /// The chunks of the region that the queries of its chunk n meet after their own, the nearest first.
    pub(super) fn before(
        &self,
        chunk: usize,
    ) -> impl DoubleEndedIterator<Item = usize> + ExactSizeIterator + use<> {
        let chunks = self.chunks.start..self.chunks.start + chunk;
        chunks.rev()
    }

    pub(super) fn dim(&self) -> usize {
        self.head.dim
    }
}

/// The keys before a region as its queries meet them.
#[derive(Default)]
pub(super) struct Older {
    /// `[head_dim, stride]`.
    turned: Vec<f32>,
    pub(super) stride: usize,
    /// `[chunks, head_dim, head_dim]`: A.
    ways: Vec<f32>,
}

impl Older {
    pub(super) fn fill(&mut self, region: &Region<'_>) {
        let (dim, size) = (region.dim(), region.dim() * region.dim());
        self.stride = region.first().next_multiple_of(LANES);
        self.turned.resize(dim * self.stride, 0.0);
        self.ways.resize(region.chunks.start * size, 0.0);
        for chunk in (0..region.chunks.start).rev() {
            let (ways, nearer) = self.ways.split_at_mut((chunk + 1) * size);
            let way = &mut ways[chunk * size..];
            if nearer.is_empty() {
                way.fill(0.0);
                way.iter_mut().step_by(dim + 1).for_each(|x| *x = 1.0);
            } else {
                let nearer = Matrix::new(&nearer[..size], dim, dim, dim);
                matmul(way, dim, false, 1.0, nearer, region.operators.step(chunk + 1));
            }
            let rows = region.cut.rows(chunk);
            let (way, keys) = (Matrix::new(way, dim, dim, dim), region.operators.keys(&rows));
            matmul(&mut self.turned[rows.start..], self.stride, false, 1.0, way, keys.transposed());
        }
    }

    /// `[head_dim, keys]`.
    pub(super) fn matrix(&self, region: &Region<'_>) -> Matrix<'_> {
        Matrix::new(&self.turned, region.dim(), region.first(), self.stride)
    }

    fn way(&self, chunk: usize, dim: usize) -> Matrix<'_> {
        Matrix::new(&self.ways[chunk * dim * dim..][..dim * dim], dim, dim, dim)
    }

    /// From the gradient of the keys as the region meets them, `[head_dim, stride]`, adds to those of the keys as the chunk
    /// after theirs meets them and of the steps between. `carried` is a scratch of two squares.
    pub(super) fn backward(
        &self,
        region: &Region<'_>,
        gradient: &[f32],
        carried: &mut [Vec<f32>; 2],
        of_keys: &mut [f32],
        of_steps: &mut [f32],
    ) {
        let (dim, operators) = (region.dim(), region.operators);
        let size = dim * dim;
        for carried in carried.iter_mut() {
            carried.resize(size, 0.0);
        }
        for chunk in 0..region.chunks.start {
            let rows = region.cut.rows(chunk);
            let own = Matrix::new(&gradient[rows.start..], dim, rows.len(), self.stride);
            let way = self.way(chunk, dim);
            matmul(&mut of_keys[rows.start * dim..], dim, true, 1.0, own.transposed(), way);
            // That of A: by its own keys, and by the A of the chunk before.
            let [of_way, before] = &mut *carried;
            matmul(of_way, dim, false, 1.0, own, operators.keys(&rows));
            if chunk > 0 {
                let before = Matrix::new(before, dim, dim, dim);
                matmul(of_way, dim, true, 1.0, before, operators.step(chunk).transposed());
                matmul(&mut of_steps[chunk * size..], dim, true, 1.0, way.transposed(), before);
            }
            carried.swap(0, 1);
        }
    }
}
