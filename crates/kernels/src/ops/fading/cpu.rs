//! Fading scores on the CPU, region by region.

use super::{Fading, Sizes};
use crate::machine::autodiff::{View, tensor_of};
use crate::machine::buffers::{computed, zeros};
use crate::machine::matmul::{Matrix, matmul};
use crate::machine::simd::{dot, exp, vectorised};
use burn_flex::FlexTensor;
use rayon::prelude::*;
use std::ops::Range;

/// Queries that share a reference row for all keys before them.
const REGION: usize = 32;
/// Rows whose pairs are computed one by one.
const FEW: usize = 8;

/// What is read of a head.
#[derive(Clone, Copy)]
struct Head<'a> {
    q: Matrix<'a>,
    k: Matrix<'a>,
    gates: Matrix<'a>,
    /// The row of the first query.
    first: usize,
}

/// Queries and keys, as rows of the text, with a reference row between them; or a few rows with one another.
enum Block {
    Cross { queries: Range<usize>, keys: Range<usize> },
    Few(Range<usize>),
}

/// The blocks of the queries in rows `region`.
fn blocks(region: Range<usize>) -> Vec<Block> {
    fn within(rows: Range<usize>, blocks: &mut Vec<Block>) {
        if rows.len() <= FEW {
            return blocks.push(Block::Few(rows));
        }
        let middle = rows.start + rows.len() / 2;
        blocks.push(Block::Cross { queries: middle..rows.end, keys: rows.start..middle });
        within(rows.start..middle, blocks);
        within(middle..rows.end, blocks);
    }
    let before = (region.start > 0).then(|| Block::Cross { queries: region.clone(), keys: 0..region.start });
    let mut all: Vec<Block> = before.into_iter().collect();
    within(region, &mut all);
    all
}

/// Rows of q or k with the factors that fade them, and the factors.
#[derive(Default)]
struct Faded {
    x: Vec<f32>,
    factors: Vec<f32>,
}

impl Faded {
    /// Rows `rows` of the gates against a reference row, `sign` 1 for queries and -1 for keys; x are the rows themselves.
    fn fill(&mut self, x: Matrix<'_>, gates: Matrix<'_>, rows: &Range<usize>, reference: usize, sign: f32) {
        let [count, width] = x.size();
        for buffer in [&mut self.x, &mut self.factors] {
            buffer.clear();
            buffer.resize(count * width, 0.0);
        }
        let out = self.x.chunks_exact_mut(width).zip(self.factors.chunks_exact_mut(width));
        for ((row, (faded, factors)), at) in (0..).zip(out).zip(rows.clone()) {
            fade(x.row(row), gates.row(at), gates.row(reference), sign, faded, factors);
        }
    }

    fn matrix(&self, rows: usize, width: usize) -> Matrix<'_> {
        Matrix::new(&self.x, rows, width, width)
    }
}

#[derive(Default)]
struct Buffers {
    q: Faded,
    k: Faded,
    /// What a product gives.
    product: Vec<f32>,
    /// Factors of one pair of rows, and a key times these.
    pair: [Vec<f32>; 2],
}

impl Head<'_> {
    fn width(&self) -> usize {
        self.k.size()[1]
    }

    /// Queries by their rows of the text.
    fn queries(&self, rows: &Range<usize>) -> Matrix<'_> {
        self.q.rows(&(rows.start - self.first..rows.end - self.first))
    }

    /// Both sides of a block, faded.
    fn fade(&self, queries: &Range<usize>, keys: &Range<usize>, Buffers { q, k, .. }: &mut Buffers) {
        let reference = keys.end - 1;
        q.fill(self.queries(queries), self.gates, queries, reference, 1.0);
        k.fill(self.k.rows(keys), self.gates, keys, reference, -1.0);
    }

    /// Fills the scores of a region, in rows `stride` apart.
    fn scores(&self, region: &Range<usize>, out: &mut [f32], stride: usize, buffers: &mut Buffers) {
        let width = self.width();
        for block in blocks(region.clone()) {
            match block {
                Block::Cross { queries, keys } => {
                    self.fade(&queries, &keys, buffers);
                    let Buffers { q, k, .. } = &*buffers;
                    let out = &mut out[(queries.start - region.start) * stride + keys.start..];
                    let keys = k.matrix(keys.len(), width).transposed();
                    matmul(out, stride, false, 1.0, q.matrix(queries.len(), width), keys);
                }
                Block::Few(rows) => {
                    let q = self.queries(&rows);
                    let [factors, faded] = pair_buffers(&mut buffers.pair, width);
                    for (row, i) in rows.clone().enumerate() {
                        let of_row = &mut out[(i - region.start) * stride..][rows.start..=i];
                        for (out, j) in of_row.iter_mut().zip(rows.clone()) {
                            let (own, other) = (self.gates.row(i), self.gates.row(j));
                            fade(self.k.row(j), own, other, 1.0, faded, factors);
                            *out = product(q.row(row), faded);
                        }
                    }
                }
            }
        }
    }

    /// Adds what q and k receive from the gradient of the scores of a region: q by its rows among the queries.
    fn backward(
        &self,
        region: &Range<usize>,
        of_scores: Matrix<'_>,
        [of_q, of_k]: [&mut [f32]; 2],
        buffers: &mut Buffers,
    ) {
        let width = self.width();
        for block in blocks(region.clone()) {
            match block {
                Block::Cross { queries, keys } => {
                    self.fade(&queries, &keys, buffers);
                    let Buffers { q, k, product, .. } = &mut *buffers;
                    let of_block = of_scores
                        .rows(&(queries.start - region.start..queries.end - region.start))
                        .columns(keys.start, keys.len());
                    product.resize(queries.len().max(keys.len()) * width, 0.0);
                    matmul(product, width, false, 1.0, of_block, k.matrix(keys.len(), width));
                    add_products(&mut of_q[(queries.start - self.first) * width..], product, &q.factors);
                    let of_keys = of_block.transposed();
                    matmul(product, width, false, 1.0, of_keys, q.matrix(queries.len(), width));
                    add_products(&mut of_k[keys.start * width..], product, &k.factors);
                }
                Block::Few(rows) => {
                    let q = self.queries(&rows);
                    let [factors, faded] = pair_buffers(&mut buffers.pair, width);
                    for (row, i) in rows.clone().enumerate() {
                        let of_row = &of_scores.row(i - region.start)[rows.start..=i];
                        for (of_score, j) in of_row.iter().zip(rows.clone()) {
                            let (own, other) = (self.gates.row(i), self.gates.row(j));
                            fade(self.k.row(j), own, other, 1.0, faded, factors);
                            add_scaled(&mut of_q[(i - self.first) * width..][..width], faded, *of_score);
                            fade_again(q.row(row), factors, faded);
                            add_scaled(&mut of_k[j * width..][..width], faded, *of_score);
                        }
                    }
                }
            }
        }
    }
}

/// Both buffers of a pair, of `width` numbers.
fn pair_buffers(pair: &mut [Vec<f32>; 2], width: usize) -> [&mut [f32]; 2] {
    pair.each_mut().map(|buffer| {
        buffer.resize(width, 0.0);
        &mut buffer[..]
    })
}

impl Fading {
    fn head<'a>(&self, [q, k, gates]: &'a [View<4>; 3], index: usize) -> Head<'a> {
        let Sizes { heads, queries, rows, head_dim, .. } = self.sizes;
        let (batch, head) = (index / heads, index % heads);
        let [k, gates] = [k, gates].map(|x| x.head_rows(batch, head, 0, rows, head_dim));
        Head { q: q.head_rows(batch, head, 0, queries, head_dim), k, gates, first: self.first }
    }

    pub(super) fn forward(&self, views: &[View<4>; 3]) -> Vec<f32> {
        let Sizes { batch, heads, queries, rows, .. } = self.sizes;
        let mut scores = zeros(batch * heads * queries * rows);
        let of_heads = scores.par_chunks_mut((queries * rows).max(1)).enumerate();
        let regions = of_heads.flat_map(|(index, of_head)| {
            of_head.par_chunks_mut(REGION * rows).enumerate().map(move |region| (index, region))
        });
        regions.for_each_init(Buffers::default, |buffers, (index, (region, out))| {
            let start = self.first + region * REGION;
            let region = start..start + out.len() / rows;
            self.head(views, index).scores(&region, out, rows, buffers);
        });
        scores
    }

    pub(super) fn backward(&self, views: &[View<4>; 3], of_scores: &View<4>) -> [FlexTensor; 3] {
        let Sizes { batch, heads, queries, rows, head_dim } = self.sizes;
        let [mut of_q, mut of_k] = [queries, rows].map(|rows| zeros(batch * heads * rows * head_dim));
        let of_heads = of_q.par_chunks_mut((queries * head_dim).max(1));
        let of_heads = of_heads.zip(of_k.par_chunks_mut((rows * head_dim).max(1))).enumerate();
        of_heads.for_each_init(Buffers::default, |buffers, (index, (of_q, of_k))| {
            let head = self.head(views, index);
            for start in (0..queries).step_by(REGION) {
                let count = REGION.min(queries - start);
                let gradient = of_scores.head_rows(index / heads, index % heads, start, count, rows);
                let region = self.first + start..self.first + start + count;
                head.backward(&region, gradient, [&mut *of_q, &mut *of_k], buffers);
            }
        });
        let per_head = rows * head_dim;
        let of_gates = computed(batch * heads * per_head, per_head, |index, out| {
            let head = self.head(views, index);
            for (row, out) in out.chunks_exact_mut(head_dim).enumerate() {
                let at = index * per_head + row * head_dim;
                subtract_products(out, head.k.row(row), &of_k[at..at + head_dim]);
                if let Some(query) = row.checked_sub(self.first).filter(|query| *query < queries) {
                    let at = (index * queries + query) * head_dim;
                    add_products(out, head.q.row(query), &of_q[at..at + head_dim]);
                }
            }
        });
        let shape = |rows: usize| [batch, heads, rows, head_dim];
        [tensor_of(of_q, shape(queries)), tensor_of(of_k, shape(rows)), tensor_of(of_gates, shape(rows))]
    }
}

vectorised! {
    /// `factors = exp(sign (gates - reference))`, and x times these.
    fn fade(x: &[f32], gates: &[f32], reference: &[f32], sign: f32, faded: &mut [f32], factors: &mut [f32]) {
        let out = faded.iter_mut().zip(factors);
        for ((faded, factor), (x, (gate, reference))) in out.zip(x.iter().zip(gates.iter().zip(reference))) {
            *factor = exp(sign * (gate - reference));
            *faded = x * *factor;
        }
    }

    fn fade_again(x: &[f32], factors: &[f32], faded: &mut [f32]) {
        for (faded, (x, factor)) in faded.iter_mut().zip(x.iter().zip(factors)) {
            *faded = x * factor;
        }
    }

    fn product(x: &[f32], y: &[f32]) -> f32 {
        dot(x, y)
    }

    fn add_products(sums: &mut [f32], x: &[f32], y: &[f32]) {
        for (sum, (x, y)) in sums.iter_mut().zip(x.iter().zip(y)) {
            *sum += x * y;
        }
    }

    fn subtract_products(sums: &mut [f32], x: &[f32], y: &[f32]) {
        for (sum, (x, y)) in sums.iter_mut().zip(x.iter().zip(y)) {
            *sum -= x * y;
        }
    }

    fn add_scaled(sums: &mut [f32], x: &[f32], factor: f32) {
        for (sum, x) in sums.iter_mut().zip(x) {
            *sum += factor * x;
        }
    }
}
