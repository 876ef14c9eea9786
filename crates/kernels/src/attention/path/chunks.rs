//! What the rows of each chunk do to queries and keys, and the gradients of that.

use super::Shape;
use crate::machine::buffers::Rest;
use crate::machine::matmul::{Matrix, matmul};
use crate::machine::simd::{add, dot, vectorised};
use rayon::prelude::*;
use std::ops::Range;

/// Rows that act at once.
pub(super) const CHUNK: usize = 32;

/// Rows `0..end` in chunks, one of which begins with the first query. The first chunk may be shorter, and so may the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// Rows of a shorter first chunk; 0 without one.
    lead: usize,
    end: usize,
}

impl Cut {
    pub(super) fn new(shape: Shape) -> Self {
        Self { lead: shape.first % CHUNK, end: shape.end() }
    }

    pub(super) fn count(&self) -> usize {
        usize::from(self.lead > 0) + (self.end - self.lead).div_ceil(CHUNK)
    }

    pub(super) fn index(&self, row: usize) -> usize {
        usize::from(self.lead > 0) + (row - self.lead) / CHUNK
    }

    pub(super) fn rows(&self, chunk: usize) -> Range<usize> {
        let edge = |chunk: usize| match (self.lead, chunk) {
            (0, _) => chunk * CHUNK,
            (_, 0) => 0,
            (lead, chunk) => lead + (chunk - 1) * CHUNK,
        };
        edge(chunk)..edge(chunk + 1).min(self.end)
    }
}

#[derive(Clone, Copy)]
pub(super) struct KeyHead<'a> {
    /// `[keys, head_dim]`.
    pub(super) k: Matrix<'a>,
    /// `[keys, head_dim]`.
    pub(super) w: Matrix<'a>,
    /// `[keys]`.
    pub(super) beta: &'a [f32],
    pub(super) dim: usize,
}

impl<'a> KeyHead<'a> {
    pub(super) fn keys(&self, rows: &Range<usize>) -> Matrix<'a> {
        self.k.rows(rows)
    }

    pub(super) fn directions(&self, rows: &Range<usize>) -> Matrix<'a> {
        self.w.rows(rows)
    }
}

/// Small matrices of one chunk, in rows [`CHUNK`] apart.
pub(super) struct Inner {
    /// `W W^T`.
    along: Vec<f32>,
    /// `(1 + strictly_lower(beta W W^T))^-1`.
    inverse: Vec<f32>,
    g: Vec<f32>,
    /// `strictly_lower(W K^T)`.
    of_keys: Vec<f32>,
}

impl Inner {
    pub(super) fn new() -> Self {
        let [along, inverse, g, of_keys] = [(); 4].map(|()| vec![0.0; CHUNK * CHUNK]);
        Self { along, inverse, g, of_keys }
    }

    fn fill(&mut self, head: &KeyHead<'_>, rows: &Range<usize>) {
        let (count, w) = (rows.len(), head.directions(rows));
        matmul(&mut self.along, CHUNK, false, 1.0, w, w.transposed());
        matmul(&mut self.of_keys, CHUNK, false, 1.0, w, head.keys(rows).transposed());
        strictly_lower(&mut self.of_keys, count);
        let beta = &head.beta[rows.clone()];
        invert(&self.along, beta, &mut self.inverse);
        scale_columns(&self.inverse, beta, &mut self.g);
    }
}

/// A matrix of one chunk, of rows [`CHUNK`] apart.
pub(super) fn square(x: &[f32], rows: usize) -> Matrix<'_> {
    Matrix::new(x, rows, rows, CHUNK)
}

/// What the chunks of one key head do.
pub(super) struct Operators {
    /// `[rows, head_dim]`: the keys as later chunks meet them.
    keys: Vec<f32>,
    /// `[rows, head_dim]`: Y, what products with w take from a query of the chunk itself.
    taken: Vec<f32>,
    /// `[rows, CHUNK]`: X, what they take from its scores.
    crossed: Vec<f32>,
    /// `[chunks, head_dim, head_dim]`: M, by which a later query goes on.
    steps: Vec<f32>,
    dim: usize,
}

impl Operators {
    /// Those of each head.
    pub(super) fn of_all(heads: &[KeyHead<'_>], cut: Cut, end: usize) -> Vec<Self> {
        let chunks = cut.count();
        let mut all: Vec<Self> = heads
            .iter()
            .map(|head| Self {
                keys: vec![0.0; end * head.dim],
                taken: vec![0.0; end * head.dim],
                crossed: vec![0.0; end * CHUNK],
                steps: vec![0.0; chunks * head.dim * head.dim],
                dim: head.dim,
            })
            .collect();
        let tasks: Vec<_> = all
            .iter_mut()
            .zip(heads)
            .flat_map(|(own, head)| {
                let dim = head.dim;
                let [mut keys, mut taken, mut crossed] =
                    [&mut own.keys, &mut own.taken, &mut own.crossed].map(|all| Rest(all));
                let steps = own.steps.chunks_mut(dim * dim).enumerate();
                steps
                    .map(|(chunk, step)| {
                        let rows = cut.rows(chunk);
                        let (narrow, wide) = (rows.len() * CHUNK, rows.len() * dim);
                        (head, rows, step, [keys.next(wide), taken.next(wide), crossed.next(narrow)])
                    })
                    .collect::<Vec<_>>()
            })
            .collect();
        tasks.into_par_iter().for_each_init(Inner::new, |inner, (head, rows, step, out)| {
            fill(inner, head, &rows, step, out);
        });
        all
    }

    pub(super) fn keys(&self, rows: &Range<usize>) -> Matrix<'_> {
        Matrix::new(&self.keys[rows.start * self.dim..], rows.len(), self.dim, self.dim)
    }

    pub(super) fn taken(&self, rows: &Range<usize>) -> Matrix<'_> {
        Matrix::new(&self.taken[rows.start * self.dim..], rows.len(), self.dim, self.dim)
    }

    pub(super) fn crossed(&self, rows: &Range<usize>) -> Matrix<'_> {
        square(&self.crossed[rows.start * CHUNK..], rows.len())
    }

    pub(super) fn step(&self, chunk: usize) -> Matrix<'_> {
        let size = self.dim * self.dim;
        Matrix::new(&self.steps[chunk * size..][..size], self.dim, self.dim, self.dim)
    }
}

/// One chunk of [`Operators`].
fn fill(
    inner: &mut Inner,
    head: &KeyHead<'_>,
    rows: &Range<usize>,
    step: &mut [f32],
    [keys, taken, crossed]: [&mut [f32]; 3],
) {
    let (count, dim) = (rows.len(), head.dim);
    inner.fill(head, rows);
    let (g, w) = (square(&inner.g, count), head.directions(rows));
    matmul(taken, dim, false, 1.0, g, w);
    matmul(crossed, CHUNK, false, 1.0, g, square(&inner.of_keys, count));
    head.keys(rows).copy_into(keys, dim);
    matmul(keys, dim, true, -1.0, square(crossed, count).transposed(), w);
    matmul(step, dim, false, -1.0, w.transposed(), Matrix::new(taken, count, dim, dim));
    step.iter_mut().step_by(dim + 1).for_each(|x| *x += 1.0);
}

/// The gradients of what a chunk does: of the keys as later chunks meet them, of Y, X and M.
pub(super) struct OfChunk<'a> {
    /// `[rows, head_dim]`.
    pub(super) keys: &'a [f32],
    /// `[rows, head_dim]`.
    pub(super) taken: &'a mut [f32],
    /// `[rows, CHUNK]`.
    pub(super) crossed: &'a mut [f32],
    /// `[head_dim, head_dim]`.
    pub(super) step: &'a [f32],
}

/// Adds what k and w of a chunk receive, `[rows, head_dim]`, and sets what beta receives, from the gradients of what the chunk
/// does.
pub(super) fn backward(
    inner: &mut Inner,
    head: &KeyHead<'_>,
    rows: &Range<usize>,
    operators: &Operators,
    of: OfChunk<'_>,
    [k, w, beta]: [&mut [f32]; 3],
) {
    let (count, dim) = (rows.len(), head.dim);
    inner.fill(head, rows);
    let OfChunk { keys: of_keys, taken: of_taken, crossed: of_crossed, step: of_step } = of;
    let wide = |x| Matrix::new(x, count, dim, dim);
    let directions = head.directions(rows);
    let of_step = Matrix::new(of_step, dim, dim, dim);
    // The keys: K - X^T W.
    add(k, of_keys);
    matmul(of_crossed, CHUNK, true, -1.0, directions, wide(of_keys).transposed());
    matmul(w, dim, true, -1.0, operators.crossed(rows), wide(of_keys));
    // The step: 1 - W^T Y.
    matmul(w, dim, true, -1.0, operators.taken(rows), of_step.transposed());
    matmul(of_taken, dim, true, -1.0, directions, of_step);
    // Y = G W and X = G L.
    let (of_taken, of_crossed, g) = (wide(of_taken), square(of_crossed, count), square(&inner.g, count));
    let [mut of_g, mut of_l] = [(); 2].map(|()| vec![0.0; CHUNK * CHUNK]);
    matmul(&mut of_g, CHUNK, false, 1.0, of_taken, directions.transposed());
    matmul(&mut of_g, CHUNK, true, 1.0, of_crossed, square(&inner.of_keys, count).transposed());
    matmul(w, dim, true, 1.0, g.transposed(), of_taken);
    matmul(&mut of_l, CHUNK, false, 1.0, g.transposed(), of_crossed);
    // L = strictly_lower(W K^T).
    strictly_lower(&mut of_l, count);
    matmul(w, dim, true, 1.0, square(&of_l, count), head.keys(rows));
    matmul(k, dim, true, 1.0, square(&of_l, count).transposed(), directions);
    // G = U beta, column by column, and U the inverse of 1 + N: dN = -U^T dU U^T.
    let strengths = &head.beta[rows.clone()];
    through_columns(&inner.inverse, strengths, &mut of_g, beta);
    let inverse = square(&inner.inverse, count).transposed();
    matmul(&mut of_l, CHUNK, false, 1.0, inverse, square(&of_g, count));
    matmul(&mut of_g, CHUNK, false, -1.0, square(&of_l, count), inverse);
    // N = strictly_lower(beta W W^T), row by row.
    strictly_lower(&mut of_g, count);
    through_rows(&inner.along, strengths, &mut of_g, beta);
    matmul(w, dim, true, 1.0, square(&of_g, count), directions);
    matmul(w, dim, true, 1.0, square(&of_g, count).transposed(), directions);
}

vectorised! {
    /// Clears the diagonal and what follows it.
    fn strictly_lower(x: &mut [f32], count: usize) {
        for (row, x) in x.chunks_exact_mut(CHUNK).enumerate().take(count) {
            x[row..count].fill(0.0);
        }
    }

    /// `(1 + strictly_lower(beta along))^-1`, row after row.
    fn invert(along: &[f32], beta: &[f32], inverse: &mut [f32]) {
        for (row, strength) in beta.iter().enumerate() {
            let (before, own) = inverse.split_at_mut(row * CHUNK);
            let own = &mut own[..CHUNK];
            own.fill(0.0);
            own[row] = 1.0;
            for (earlier, before) in before.chunks_exact(CHUNK).enumerate() {
                let factor = strength * along[row * CHUNK + earlier];
                for (own, before) in own.iter_mut().zip(before) {
                    *own -= factor * before;
                }
            }
        }
    }

    fn scale_columns(x: &[f32], factors: &[f32], out: &mut [f32]) {
        for (x, out) in x.chunks_exact(CHUNK).zip(out.chunks_exact_mut(CHUNK)).take(factors.len()) {
            for ((out, x), factor) in out.iter_mut().zip(x).zip(factors) {
                *out = x * factor;
            }
        }
    }

    /// From the gradient of `x factors`, column by column: that of the factors, and in its place that of x.
    fn through_columns(x: &[f32], factors: &[f32], gradient: &mut [f32], of_factors: &mut [f32]) {
        of_factors.fill(0.0);
        for (x, gradient) in x.chunks_exact(CHUNK).zip(gradient.chunks_exact_mut(CHUNK)).take(factors.len()) {
            let columns = of_factors.iter_mut().zip(factors);
            for ((of_factor, factor), (gradient, x)) in columns.zip(gradient.iter_mut().zip(x)) {
                *of_factor += *gradient * x;
                *gradient *= factor;
            }
        }
    }

    /// The same row by row; adds to that of the factors.
    fn through_rows(x: &[f32], factors: &[f32], gradient: &mut [f32], of_factors: &mut [f32]) {
        let rows = x.chunks_exact(CHUNK).zip(gradient.chunks_exact_mut(CHUNK));
        let count = factors.len();
        for ((x, gradient), (factor, of_factor)) in rows.zip(factors.iter().zip(of_factors)) {
            *of_factor += dot(&x[..count], &gradient[..count]);
            for gradient in gradient {
                *gradient *= factor;
            }
        }
    }
}
