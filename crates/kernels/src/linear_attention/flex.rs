//! Causal linear attention on the CPU, head by head.

use super::Shape;
use crate::autodiff::{View, tensor_of, values};
use crate::buffers::{GRAIN, computed, zeros};
use crate::matmul::{Matrix, matmul};
use crate::pieces::{even, note};
use crate::rotary::flex::{Table, rotate};
use crate::simd::{add, dot, exp, vectorised};
use burn_flex::FlexTensor;
use rayon::prelude::*;
use std::ops::Range;

/// Rows of a chunk.
pub(super) const CHUNK: usize = 64;

/// One call: its tensors and settings.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// q, k and v.
    pub(super) inputs: [FlexTensor; 3],
    /// Those of q and k.
    pub(super) tables: Option<[Table; 2]>,
    pub(super) shape: Shape,
}

/// Features `[batch, heads, length, head_dim]`.
pub(super) struct Features {
    pub(super) plain: FlexTensor,
    /// Turned by position; absent where nothing rotates.
    turned: Option<FlexTensor>,
}

impl Features {
    pub(super) fn new(x: &FlexTensor, table: Option<&Table>, shape: [usize; 4]) -> Self {
        let x = values(x);
        let plain = computed(x.len(), GRAIN, |task, out| features(&x[task * GRAIN..], out));
        let plain = tensor_of(plain, shape);
        let turned = table.map(|table| tensor_of(rotate(&View::new(&plain), shape, table, 1.0), shape));
        Self { plain, turned }
    }

    /// What the numerator reads.
    pub(super) fn numerator(&self) -> &FlexTensor {
        self.turned.as_ref().unwrap_or(&self.plain)
    }
}

/// The features of q and k, and v.
pub(super) struct Operands {
    pub(super) q: Features,
    pub(super) k: Features,
    v: FlexTensor,
    pub(super) shape: Shape,
}

impl Operands {
    pub(super) fn new(call: &Call) -> Self {
        let Shape { batch, heads, queries, keys, head_dim, .. } = call.shape;
        let [q, k, v] = &call.inputs;
        let [of_q, of_k] = match &call.tables {
            Some([q, k]) => [Some(q), Some(k)],
            None => [None, None],
        };
        Self {
            q: Features::new(q, of_q, [batch, heads, queries, head_dim]),
            k: Features::new(k, of_k, [batch, heads, keys, head_dim]),
            v: v.clone(),
            shape: call.shape,
        }
    }

    /// Gives every head, with its number, to `each`.
    pub(super) fn heads<T: Send>(&self, tasks: Vec<T>, each: impl Fn(usize, Head<'_>, T) + Sync) {
        let Shape { queries, keys, head_dim, value_dim, .. } = self.shape;
        let [q, turned_q] = [&self.q.plain, self.q.numerator()].map(values);
        let [k, turned_k] = [&self.k.plain, self.k.numerator()].map(values);
        let v = values(&self.v);
        note("linear attention", || even(tasks.len(), tasks.len() * keys));
        tasks.into_par_iter().enumerate().for_each(|(index, task)| {
            let head = Head {
                q: &q[index * queries * head_dim..][..queries * head_dim],
                turned_q: &turned_q[index * queries * head_dim..][..queries * head_dim],
                k: &k[index * keys * head_dim..][..keys * head_dim],
                turned_k: &turned_k[index * keys * head_dim..][..keys * head_dim],
                v: &v[index * keys * value_dim..][..keys * value_dim],
                shape: self.shape,
            };
            each(index, head, task);
        });
    }
}

/// The rows of one head.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) q: &'a [f32],
    turned_q: &'a [f32],
    pub(super) k: &'a [f32],
    turned_k: &'a [f32],
    v: &'a [f32],
    pub(super) shape: Shape,
}

impl<'a> Head<'a> {
    /// The keys of the queries in a range.
    pub(super) fn own(&self, queries: &Range<usize>) -> Range<usize> {
        self.shape.first + queries.start..self.shape.first + queries.end
    }

    /// The chunks of the queries, the first rows first.
    pub(super) fn chunks(&self) -> impl DoubleEndedIterator<Item = Range<usize>> + use<> {
        let queries = self.shape.queries;
        (0..queries.div_ceil(CHUNK)).map(move |chunk| chunk * CHUNK..queries.min((chunk + 1) * CHUNK))
    }

    pub(super) fn queries(&self, rows: &Range<usize>) -> Matrix<'a> {
        rows_of(self.turned_q, rows, self.shape.head_dim)
    }

    pub(super) fn keys(&self, rows: &Range<usize>) -> Matrix<'a> {
        rows_of(self.turned_k, rows, self.shape.head_dim)
    }

    pub(super) fn values(&self, rows: &Range<usize>) -> Matrix<'a> {
        rows_of(self.v, rows, self.shape.value_dim)
    }

    /// Fills `[rows, rows]` with the products of the queries of a chunk with their keys: 0 for later ones.
    pub(super) fn pairs(&self, queries: &Range<usize>, pairs: &mut [f32]) {
        let keys = self.keys(&self.own(queries)).transposed();
        matmul(pairs, queries.len(), false, 1.0, self.queries(queries), keys);
        hide(queries.len(), pairs);
    }

    /// Adds the products of some keys and their values.
    pub(super) fn add_products(&self, keys: &Range<usize>, products: &mut [f32]) {
        let turned = self.keys(keys).transposed();
        matmul(products, self.shape.value_dim, true, 1.0, turned, self.values(keys));
    }

    /// One head's output in rows `stride` apart, and its denominators.
    fn forward(&self, out: &mut [f32], denominators: &mut [f32]) {
        let Shape { head_dim, value_dim, first, .. } = self.shape;
        let mut products = vec![0.0; head_dim * value_dim];
        let mut sum = vec![0.0; head_dim];
        let mut pairs = vec![0.0; CHUNK * CHUNK];
        self.add_products(&(0..first), &mut products);
        self.k[..first * head_dim].chunks_exact(head_dim).for_each(|key| add(&mut sum, key));
        for queries in self.chunks() {
            let (own, rows) = (self.own(&queries), queries.clone());
            self.pairs(&queries, &mut pairs);
            let out = &mut out[queries.start * value_dim..];
            let weights = Matrix::new(&pairs, rows.len(), rows.len(), rows.len());
            matmul(out, value_dim, false, 1.0, weights, self.values(&own));
            let past = Matrix::new(&products, head_dim, value_dim, value_dim);
            matmul(out, value_dim, true, 1.0, self.queries(&queries), past);
            let [q, k] = [(self.q, &queries), (self.k, &own)].map(|(x, rows)| &x[rows.start * head_dim..]);
            divide([q, k], &mut sum, out, value_dim, &mut denominators[queries]);
            self.add_products(&own, &mut products);
        }
    }
}

/// Rows of a matrix of contiguous rows.
pub(super) fn rows_of<'a>(x: &'a [f32], rows: &Range<usize>, width: usize) -> Matrix<'a> {
    Matrix::new(&x[rows.start * width..rows.end * width], rows.len(), width, width)
}

/// `[batch, heads, queries, value_dim]`, and the denominators `[batch, heads, queries]`.
pub(super) fn forward(call: &Call) -> (FlexTensor, Vec<f32>) {
    let Shape { batch, heads, queries, value_dim, .. } = call.shape;
    let mut out = zeros(batch * heads * queries * value_dim);
    let mut denominators = zeros(batch * heads * queries);
    let tasks = out.chunks_mut(queries * value_dim).zip(denominators.chunks_mut(queries)).collect();
    Operands::new(call).heads(tasks, |_, head, (out, denominators)| head.forward(out, denominators));
    (tensor_of(out, [batch, heads, queries, value_dim]), denominators)
}

vectorised! {
    /// `elu(x) + 1`: `x + 1` above 0, `exp(x)` below.
    fn features(x: &[f32], out: &mut [f32]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = if *x > 0.0 { *x + 1.0 } else { exp(*x) };
        }
    }

    /// Clears what follows the diagonal.
    pub(super) fn hide(rows: usize, pairs: &mut [f32]) {
        for row in 0..rows {
            pairs[row * rows..][row + 1..rows].fill(0.0);
        }
    }

    /// Divides rows by the products of queries with the sum of the keys, to which each row's own key comes first.
    fn divide(
        of: [&[f32]; 2],
        sum: &mut [f32],
        out: &mut [f32],
        value_dim: usize,
        denominators: &mut [f32],
    ) {
        let [q, k] = of.map(|x| x.chunks_exact(sum.len()));
        let rows = out.chunks_exact_mut(value_dim).zip(denominators);
        for ((out, denominator), (q, k)) in rows.zip(q.zip(k)) {
            add(sum, k);
            // Features are positive, but a product of small ones may be too small for f32.
            *denominator = dot(q, sum).max(f32::MIN_POSITIVE);
            let inverse = 1.0 / *denominator;
            for out in out {
                *out *= inverse;
            }
        }
    }
}
