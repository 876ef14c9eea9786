//! Causal linear attention on the CPU: head by head, and where these are few, by ranges of rows.
//!
//! A range begins with what the keys before it add up to ([`State`]). Where a head has several, the sums of each are made first, by all
//! threads, and then added up in the order of the ranges. That is work done twice: with `rope.toml` as linear attention, reading 16,384
//! tokens takes 1 to 4% longer on one thread (Zen 4).

use super::Shape;
use crate::attention::block::pieces::{Cut, PIECES};
use crate::machine::autodiff::{View, tensor_of, values};
use crate::machine::buffers::{GRAIN, Rest, computed, zeros};
use crate::machine::matmul::{Matrix, matmul};
use crate::machine::simd::{add, dot, exp, vectorised};
use crate::ops::rotary::cpu::{Table, rotate};
use burn_flex::FlexTensor;
use rayon::prelude::*;
use std::ops::Range;

/// Rows of a chunk.
pub(super) const CHUNK: usize = 64;

/// The queries of each range of a head.
fn ranges(shape: Shape) -> Vec<Range<usize>> {
    let Shape { batch, heads, queries, .. } = shape;
    let least = Cut::current().linear_rows;
    let parts = PIECES.div_ceil((batch * heads).max(1)).min(queries / least).max(1);
    let rows = queries.div_ceil(parts).next_multiple_of(CHUNK);
    (0..queries).step_by(rows.max(1)).map(|start| start..queries.min(start + rows)).collect()
}

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
    /// The queries of each range of a head.
    pub(super) ranges: Vec<Range<usize>>,
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
            ranges: ranges(call.shape),
        }
    }

    /// Gives every range of every head, with its number among all, to `each`.
    pub(super) fn each_range<T: Send>(&self, tasks: Vec<T>, each: impl Fn(usize, Head<'_>, T) + Sync) {
        let Shape { queries, keys, head_dim, value_dim, .. } = self.shape;
        let [q, turned_q] = [&self.q.plain, self.q.numerator()].map(values);
        let [k, turned_k] = [&self.k.plain, self.k.numerator()].map(values);
        let v = values(&self.v);
        tasks.into_par_iter().enumerate().for_each(|(index, task)| {
            let (head, range) = (index / self.ranges.len(), &self.ranges[index % self.ranges.len()]);
            let own = self.keys_of(range);
            let [q, turned_q] = [&q, &turned_q].map(|x| part(x, head * queries, range, head_dim));
            let [k, turned_k] = [&k, &turned_k].map(|x| part(x, head * keys, &own, head_dim));
            let v = part(&v, head * keys, &own, value_dim);
            let first = self.shape.first + range.start - own.start;
            let shape = Shape { queries: range.len(), keys: own.len(), first, ..self.shape };
            each(index, Head { q, turned_q, k, turned_k, v, shape }, task);
        });
    }

    /// The keys of a range of queries; the first one also has those before all queries, and the last one those after them.
    fn keys_of(&self, range: &Range<usize>) -> Range<usize> {
        let Shape { queries, keys, first, .. } = self.shape;
        let start = if range.start == 0 { 0 } else { first + range.start };
        start..if range.end == queries { keys } else { first + range.end }
    }

    /// The numbers of each range of each head among `width` for every query, or every key.
    pub(super) fn parts<'a>(&self, x: &'a mut [f32], of_keys: bool, width: usize) -> Vec<&'a mut [f32]> {
        let mut rest = Rest(x);
        let rows = |range: &Range<usize>| if of_keys { self.keys_of(range).len() } else { range.len() };
        let ranges = (0..self.shape.batch * self.shape.heads).flat_map(|_| &self.ranges);
        ranges.map(|range| rest.next(rows(range) * width)).collect()
    }

    /// What comes before each range of each head, or after it if they are gone through from the last one on, given what each adds.
    pub(super) fn states(
        &self,
        from_last: bool,
        add: impl Fn(usize, &Head<'_>, &mut State) + Sync,
    ) -> Vec<State> {
        let Shape { batch, heads, .. } = self.shape;
        let count = self.ranges.len();
        let mut states: Vec<State> = (0..batch * heads * count).map(|_| State::new(self.shape)).collect();
        if count == 1 {
            return states;
        }
        self.each_range(states.iter_mut().collect(), |index, head, state| add(index, &head, state));
        for of_head in states.chunks_mut(count) {
            if from_last {
                of_head.reverse();
            }
            let mut sum = State::new(self.shape);
            for state in of_head.iter_mut() {
                let before = sum.clone();
                sum.add(state);
                *state = before;
            }
            if from_last {
                of_head.reverse();
            }
        }
        states
    }

    /// What the keys before each range of each head add up to.
    pub(super) fn states_before(&self) -> Vec<State> {
        self.states(false, |_, head, state| {
            let keys = 0..head.shape.keys;
            head.add_products(&keys, &mut state.products);
            head.add_keys(&keys, &mut state.sum);
        })
    }
}

/// Some rows of a head.
fn part<'a>(x: &'a [f32], row: usize, rows: &Range<usize>, width: usize) -> &'a [f32] {
    &x[(row + rows.start) * width..(row + rows.end) * width]
}

/// What rows add up to that a range has before it or after it.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// `[head_dim, value_dim]`.
    pub(super) products: Vec<f32>,
    /// `[head_dim]`.
    pub(super) sum: Vec<f32>,
}

impl State {
    fn new(Shape { head_dim, value_dim, .. }: Shape) -> Self {
        Self { products: vec![0.0; head_dim * value_dim], sum: vec![0.0; head_dim] }
    }

    fn add(&mut self, other: &Self) {
        add(&mut self.products, &other.products);
        add(&mut self.sum, &other.sum);
    }
}

/// The rows of one range of one head.
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

    pub(super) fn add_products(&self, keys: &Range<usize>, products: &mut [f32]) {
        let turned = self.keys(keys).transposed();
        matmul(products, self.shape.value_dim, true, 1.0, turned, self.values(keys));
    }

    pub(super) fn add_keys(&self, keys: &Range<usize>, sum: &mut [f32]) {
        let width = self.shape.head_dim;
        self.k[keys.start * width..keys.end * width].chunks_exact(width).for_each(|key| add(sum, key));
    }

    /// The output of the rows, `[queries, value_dim]`, and their denominators.
    fn forward(&self, State { mut products, mut sum }: State, out: &mut [f32], denominators: &mut [f32]) {
        let Shape { head_dim, value_dim, first, .. } = self.shape;
        let mut pairs = vec![0.0; CHUNK * CHUNK];
        self.add_products(&(0..first), &mut products);
        self.add_keys(&(0..first), &mut sum);
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
    let operands = Operands::new(call);
    let parts = operands.parts(&mut out, false, value_dim).into_iter();
    let parts = parts.zip(operands.parts(&mut denominators, false, 1));
    operands.each_range(
        parts.zip(operands.states_before()).collect(),
        |_, head, ((out, denominators), state)| {
            head.forward(state, out, denominators);
        },
    );
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
