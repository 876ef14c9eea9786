//! The queries of one chunk on their way back through their region, and the gradients of that.

use super::chunks::{CHUNK, square};
use super::region::{Older, REGION, Region};
use crate::machine::matmul::{Matrix, matmul};
use crate::machine::simd::vectorised;

/// The queries of one chunk of a region.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) region: &'a Region<'a>,
    /// The number of the chunk in the region.
    pub(super) chunk: usize,
    /// `[rows, head_dim]`.
    pub(super) q: Matrix<'a>,
    pub(super) older: &'a Older,
}

/// Gradients that rows of a chunk have alone, `[rows, head_dim]` but for the last.
pub(super) struct Own<'a> {
    pub(super) q: &'a mut [f32],
    /// Of k and w, as far as their own chunk reads them.
    pub(super) k: &'a mut [f32],
    pub(super) w: &'a mut [f32],
    /// Of Y.
    pub(super) taken: &'a mut [f32],
    /// Of X, `[rows, CHUNK]`.
    pub(super) crossed: &'a mut [f32],
}

/// Gradients that the queries of a head share.
pub(super) struct SharedGradients<'a> {
    /// Of the keys as the chunk after theirs meets them, `[rows, head_dim]`.
    pub(super) keys: &'a mut [f32],
    /// Of M, `[chunks, head_dim, head_dim]`.
    pub(super) steps: &'a mut [f32],
    /// Of the keys before the region, as its queries meet them, `[head_dim, stride]`.
    pub(super) older: &'a mut [f32],
}

/// Buffers of one thread.
pub(super) struct Scratch {
    /// `[CHUNK, head_dim]`.
    of_left: Vec<f32>,
    /// `[CHUNK, head_dim]`.
    next: Vec<f32>,
    of_along: Vec<f32>,
}

impl Scratch {
    pub(super) fn new(dim: usize) -> Self {
        let [of_left, next] = [(); 2].map(|()| vec![0.0; CHUNK * dim]);
        Self { of_left, next, of_along: vec![0.0; CHUNK * CHUNK] }
    }
}

/// What is left of the queries of one chunk on their way back through the region.
pub(super) struct Walk {
    /// `[stages, CHUNK, head_dim]`: after their own chunk, and after each one before it.
    left: Vec<f32>,
    /// P: what they have along the directions of their own chunk.
    along: Vec<f32>,
}

impl Walk {
    pub(super) fn new(dim: usize) -> Self {
        Self { left: vec![0.0; REGION * CHUNK * dim], along: vec![0.0; CHUNK * CHUNK] }
    }

    pub(super) fn fill(&mut self, At { region, chunk, q, .. }: At<'_>) {
        let (rows, dim) = (region.rows(chunk), region.dim());
        let size = CHUNK * dim;
        matmul(&mut self.along, CHUNK, false, 1.0, q, region.head.directions(&rows).transposed());
        lower(&mut self.along, rows.len());
        q.copy_into(&mut self.left, dim);
        let along = square(&self.along, rows.len());
        matmul(&mut self.left, dim, true, -1.0, along, region.operators.taken(&rows));
        for (stage, before) in region.before(chunk).enumerate() {
            let (left, next) = self.left.split_at_mut((stage + 1) * size);
            let left = Matrix::new(&left[stage * size..], rows.len(), dim, dim);
            matmul(next, dim, false, 1.0, left, region.operators.step(before));
        }
    }

    /// What is left after so many chunks before their own.
    fn left(&self, region: &Region<'_>, chunk: usize, stage: usize) -> Matrix<'_> {
        let dim = region.dim();
        Matrix::new(&self.left[stage * CHUNK * dim..], region.rows(chunk).len(), dim, dim)
    }

    /// The scaled scores of all keys up to their chunk, in rows `stride` apart.
    pub(super) fn scores(&self, At { region, chunk, q, older }: At<'_>, scores: &mut [f32], stride: usize) {
        let (rows, operators) = (region.rows(chunk), region.operators);
        let own = &mut scores[rows.start..];
        matmul(own, stride, false, region.scale, q, region.head.keys(&rows).transposed());
        let along = square(&self.along, rows.len());
        matmul(own, stride, true, -region.scale, along, operators.crossed(&rows));
        for (stage, before) in region.before(chunk).enumerate() {
            let rows = region.cut.rows(before);
            let (left, keys) = (self.left(region, chunk, stage), operators.keys(&rows).transposed());
            matmul(&mut scores[rows.start..], stride, false, region.scale, left, keys);
        }
        if region.first() > 0 {
            let left = self.left(region, chunk, chunk);
            matmul(scores, stride, false, region.scale, left, older.matrix(region));
        }
    }

    /// From the gradient of the scores: sets what rows of the chunk have alone, and adds to the sums.
    pub(super) fn backward(
        &self,
        at: At<'_>,
        of_scores: Matrix<'_>,
        own: Own<'_>,
        sums: &mut SharedGradients<'_>,
        scratch: &mut Scratch,
    ) {
        let At { region, chunk, q, .. } = at;
        let (rows, dim, scale) = (region.rows(chunk), region.dim(), region.scale);
        self.until_own(at, of_scores, sums, scratch);
        let Scratch { of_left, of_along, .. } = scratch;
        let Own { q: of_q, k, w, taken, crossed } = own;
        let (head, operators) = (&region.head, region.operators);
        let (of_own, along) = (of_scores.columns(rows.start, rows.len()), square(&self.along, rows.len()));
        of_q.copy_from_slice(&of_left[..of_q.len()]);
        let of_left = Matrix::new(of_left, rows.len(), dim, dim);
        matmul(of_along, CHUNK, false, -scale, of_own, operators.crossed(&rows).transposed());
        matmul(of_along, CHUNK, true, -1.0, of_left, operators.taken(&rows).transposed());
        lower(of_along, rows.len());
        let of_along = square(of_along, rows.len());
        matmul(of_q, dim, true, scale, of_own, head.keys(&rows));
        matmul(of_q, dim, true, 1.0, of_along, head.directions(&rows));
        matmul(k, dim, false, scale, of_own.transposed(), q);
        matmul(w, dim, false, 1.0, of_along.transposed(), q);
        matmul(taken, dim, false, -1.0, along.transposed(), of_left);
        matmul(crossed, CHUNK, false, -scale, along.transposed(), of_own);
    }

    /// The gradient of what is left of the queries after their own chunk, into the scratch; adds to the sums of the keys and
    /// steps before it.
    fn until_own(
        &self,
        at: At<'_>,
        of_scores: Matrix<'_>,
        sums: &mut SharedGradients<'_>,
        scratch: &mut Scratch,
    ) {
        let At { region, chunk, older, .. } = at;
        let (rows, dim, scale) = (region.rows(chunk), region.dim(), region.scale);
        let Scratch { of_left, next, .. } = scratch;
        of_left.fill(0.0);
        if region.first() > 0 {
            let of_older = of_scores.columns(0, region.first());
            matmul(of_left, dim, false, scale, of_older, older.matrix(region).transposed());
            let left = self.left(region, chunk, chunk);
            matmul(sums.older, older.stride, true, scale, left.transposed(), of_older);
        }
        for (stage, before) in region.before(chunk).enumerate().rev() {
            let (keys, left) = (region.cut.rows(before), self.left(region, chunk, stage));
            let of_scores = of_scores.columns(keys.start, keys.len());
            let of_next = Matrix::new(of_left, rows.len(), dim, dim);
            matmul(&mut sums.steps[before * dim * dim..], dim, true, 1.0, left.transposed(), of_next);
            matmul(next, dim, false, 1.0, of_next, region.operators.step(before).transposed());
            matmul(next, dim, true, scale, of_scores, region.operators.keys(&keys));
            matmul(&mut sums.keys[keys.start * dim..], dim, true, scale, of_scores.transposed(), left);
            std::mem::swap(of_left, next);
        }
    }
}

vectorised! {
    /// Clears what follows the diagonal.
    fn lower(x: &mut [f32], count: usize) {
        for (row, x) in x.chunks_exact_mut(CHUNK).enumerate().take(count) {
            x[row + 1..count].fill(0.0);
        }
    }
}
