//! The gradient of causal linear attention: one pass over the chunks for what queries receive of earlier keys, and one from the
//! end for all else. Where a head is cut into ranges of rows (`cpu.rs`), the first pass over a range begins with the sums of what is before
//! it, and the second with those of what is after it.

use super::Shape;
use super::cpu::{CHUNK, Call, Features, Head, Operands, State, hide, rows_of};
use crate::machine::autodiff::{View, tensor_of, values};
use crate::machine::buffers::{GRAIN, computed, zeros};
use crate::machine::matmul::{Matrix, matmul};
use crate::machine::simd::{add, dot, vectorised};
use crate::ops::rotary::cpu::{Table, rotate};
use burn_flex::FlexTensor;
use rayon::prelude::*;
use std::ops::Range;

#[derive(Clone, Debug)]
pub(super) struct Saved {
    pub(super) call: Call,
    /// `[batch, heads, queries, value_dim]`.
    pub(super) output: FlexTensor,
    /// `[batch, heads, queries]`.
    pub(super) denominators: Vec<f32>,
}

impl Saved {
    /// The gradients of q, k and v from that of the output.
    pub(super) fn gradients(self, output: &FlexTensor) -> [FlexTensor; 3] {
        let Shape { batch, heads, queries, keys, head_dim, value_dim, .. } = self.call.shape;
        let operands = Operands::new(&self.call);
        let turns = self.call.tables.is_some();
        let [of_queries, of_keys] = [queries, keys].map(|rows| rows * head_dim);
        let all = |size: usize| zeros(batch * heads * size);
        let through = self.through(&operands, &View::new(output));
        let before = operands.states_before();
        let after = operands.states(true, |index, head, state| head.add_queries(&through[index], state));
        // What is turned has gradients of its own.
        let [mut q, mut k, mut v] = [of_queries, of_keys, keys * value_dim].map(all);
        let turned_dim = if turns { head_dim } else { 0 };
        let [mut turned_q, mut turned_k] = [queries, keys].map(|rows| all(rows * turned_dim));
        {
            let pairs = |q, k, width| {
                let [q, k] = [(q, false), (k, true)].map(|(x, of_keys)| operands.parts(x, of_keys, width));
                q.into_iter().zip(k).map(|(q, k)| [q, k])
            };
            let plain = pairs(&mut q, &mut k, head_dim);
            let turned = pairs(&mut turned_q, &mut turned_k, turned_dim);
            let own = plain.zip(turned).zip(operands.parts(&mut v, true, value_dim));
            let own = own.map(|((plain, turned), v)| Own { plain, turned: turns.then_some(turned), v });
            let tasks = own.zip(before.into_iter().zip(after)).collect();
            operands.each_range(tasks, |index, head, (own, states)| {
                head.backward(&through[index], own, states.into());
            });
        }
        let [q_table, k_table] = match &self.call.tables {
            Some([q, k]) => [Some(q), Some(k)],
            None => [None, None],
        };
        let q = through_features(&operands.q, q, turned_q, q_table, [batch, heads, queries, head_dim]);
        let k = through_features(&operands.k, k, turned_k, k_table, [batch, heads, keys, head_dim]);
        [q, k, tensor_of(v, [batch, heads, keys, value_dim])]
    }

    /// Of each range of each head, from the gradient of the output.
    fn through(&self, operands: &Operands, gradient: &View<4>) -> Vec<Through> {
        let Shape { batch, heads, queries, value_dim, .. } = self.call.shape;
        let (kept, [of_batch, of_head, of_row, _]) = (values(&self.output), gradient.strides());
        let count = operands.ranges.len();
        let of_range = |index: usize| {
            let (head, range) = (index / count, &operands.ranges[index % count]);
            let rows = head * queries + range.start..head * queries + range.end;
            let start = head / heads * of_batch + head % heads * of_head + range.start * of_row;
            let gradient = (&gradient.data()[start..], of_row);
            let kept = &kept[rows.start * value_dim..rows.end * value_dim];
            Through::new(&self.denominators[rows], kept, gradient, value_dim)
        };
        (0..batch * heads * count).into_par_iter().map(of_range).collect()
    }
}

/// The gradients of one range of one head.
struct Own<'a> {
    /// Of the features of q and of k, in the denominator; in both sums where nothing turns.
    plain: [&'a mut [f32]; 2],
    /// Of the turned features.
    turned: Option<[&'a mut [f32]; 2]>,
    v: &'a mut [f32],
}

/// The gradients of numerators `[queries, value_dim]` and denominators `[queries]`.
struct Through {
    numerators: Vec<f32>,
    denominators: Vec<f32>,
}

impl Through {
    /// The rows of the gradient lie a stride apart.
    fn new(denominators: &[f32], output: &[f32], gradient: (&[f32], usize), value_dim: usize) -> Self {
        let mut numerators = vec![0.0; output.len()];
        let mut of_denominators = vec![0.0; denominators.len()];
        divide_back(denominators, output, gradient, value_dim, &mut numerators, &mut of_denominators);
        Self { numerators, denominators: of_denominators }
    }
}

impl Head<'_> {
    /// `states`: what the keys before the range add up to, and the queries after it.
    fn backward(&self, through: &Through, own: Own<'_>, states: [State; 2]) {
        let Own { plain: [q, k], turned, v } = own;
        let [sums, products] = [
            states.each_ref().map(|state| &state.sum[..]),
            states.each_ref().map(|state| &state.products[..]),
        ];
        self.through_sums(through, sums, q, k);
        match turned {
            Some([turned_q, turned_k]) => self.through_numerators(through, products, turned_q, turned_k, v),
            None => self.through_numerators(through, products, q, k, v),
        }
    }

    /// Adds what the queries give to earlier keys.
    fn add_queries(&self, through: &Through, State { products, sum }: &mut State) {
        let Shape { queries, head_dim, value_dim, .. } = self.shape;
        let (numerators, queries) =
            (rows_of(&through.numerators, &(0..queries), value_dim), self.queries(&(0..queries)));
        matmul(products, value_dim, true, 1.0, queries.transposed(), numerators);
        for (q, denominator) in self.q.chunks_exact(head_dim).zip(&through.denominators) {
            add_scaled(sum, *denominator, q);
        }
    }

    /// Adds what queries and keys receive by the denominators: those of the keys up to a query, and of the queries from a key
    /// on.
    fn through_sums(&self, through: &Through, [before, after]: [&[f32]; 2], q: &mut [f32], k: &mut [f32]) {
        let (first, width) = (self.shape.first, self.shape.head_dim);
        let mut sum = before.to_vec();
        self.add_keys(&(0..first), &mut sum);
        let (early, own) = k.split_at_mut(first * width);
        sums_back(&through.denominators, [self.q, &self.k[first * width..]], &mut sum, after, q, own);
        early.chunks_exact_mut(width).for_each(|key| add(key, &sum));
    }

    /// The same by the numerators, and what the values receive.
    fn through_numerators(
        &self,
        through: &Through,
        [before, after]: [&[f32]; 2],
        q: &mut [f32],
        k: &mut [f32],
        v: &mut [f32],
    ) {
        let Shape { head_dim, value_dim, first, .. } = self.shape;
        let numerators = |rows: &Range<usize>| rows_of(&through.numerators, rows, value_dim);
        let mut products = before.to_vec();
        self.add_products(&(0..first), &mut products);
        for queries in self.chunks() {
            let past = Matrix::new(&products, head_dim, value_dim, value_dim).transposed();
            matmul(&mut q[queries.start * head_dim..], head_dim, true, 1.0, numerators(&queries), past);
            self.add_products(&self.own(&queries), &mut products);
        }
        // From here on the products of later queries and the gradients of their numerators.
        products.copy_from_slice(after);
        let [mut pairs, mut gradient] = [(); 2].map(|()| vec![0.0; CHUNK * CHUNK]);
        for queries in self.chunks().rev() {
            let (own, count) = (self.own(&queries), queries.len());
            self.pairs(&queries, &mut pairs);
            let output = numerators(&queries);
            matmul(&mut gradient, count, false, 1.0, output, self.values(&own).transposed());
            hide(count, &mut gradient);
            let [weights, of_weights] = [&pairs, &gradient].map(|x| Matrix::new(x, count, count, count));
            matmul(&mut q[queries.start * head_dim..], head_dim, true, 1.0, of_weights, self.keys(&own));
            let of_k = &mut k[own.start * head_dim..];
            matmul(of_k, head_dim, true, 1.0, of_weights.transposed(), self.queries(&queries));
            matmul(&mut v[own.start * value_dim..], value_dim, true, 1.0, weights.transposed(), output);
            self.through_later(&own, &products, k, v);
            matmul(&mut products, value_dim, true, 1.0, self.queries(&queries).transposed(), output);
        }
        self.through_later(&(0..first), &products, k, v);
    }

    /// Adds what keys and values receive of later queries, given the products of these.
    fn through_later(&self, keys: &Range<usize>, later: &[f32], k: &mut [f32], v: &mut [f32]) {
        let Shape { head_dim, value_dim, .. } = self.shape;
        let later = Matrix::new(later, head_dim, value_dim, value_dim);
        let of_k = &mut k[keys.start * head_dim..];
        matmul(of_k, head_dim, true, 1.0, self.values(keys), later.transposed());
        matmul(&mut v[keys.start * value_dim..], value_dim, true, 1.0, self.keys(keys), later);
    }
}

/// The gradient before the features, from those of the plain and of the turned ones.
fn through_features(
    features: &Features,
    plain: Vec<f32>,
    turned: Vec<f32>,
    table: Option<&Table>,
    shape: [usize; 4],
) -> FlexTensor {
    let back = table.map(|table| rotate(&View::new(&tensor_of(turned, shape)), shape, table, -1.0));
    let features = values(&features.plain);
    let of_input = computed(plain.len(), GRAIN, |task, out| {
        let from = task * GRAIN..task * GRAIN + out.len();
        out.copy_from_slice(&plain[from.clone()]);
        if let Some(back) = &back {
            add(out, &back[from.clone()]);
        }
        features_back(&features[from], out);
    });
    tensor_of(of_input, shape)
}

#[inline(always)]
fn add_scaled(sum: &mut [f32], factor: f32, x: &[f32]) {
    for (sum, x) in sum.iter_mut().zip(x) {
        *sum += factor * x;
    }
}

vectorised! {
    /// The gradients of numerators and denominators, from the output and its gradient.
    fn divide_back(
        denominators: &[f32],
        output: &[f32],
        gradient: (&[f32], usize),
        value_dim: usize,
        numerators: &mut [f32],
        of_denominators: &mut [f32],
    ) {
        let rows = output.chunks_exact(value_dim).zip(numerators.chunks_exact_mut(value_dim));
        let rows = rows.zip(denominators.iter().zip(of_denominators)).enumerate();
        for (row, ((output, numerators), (denominator, of_denominator))) in rows {
            let gradient = &gradient.0[row * gradient.1..][..value_dim];
            // The smallest denominator is no sum: what is divided by it takes part in no gradient, which would be infinite.
            let inverse = if *denominator > f32::MIN_POSITIVE { 1.0 / *denominator } else { 0.0 };
            *of_denominator = -inverse * dot(gradient, output);
            for (numerator, gradient) in numerators.iter_mut().zip(gradient) {
                *numerator = inverse * gradient;
            }
        }
    }

    /// Adds to the gradients of q and of their keys k, `[queries, width]`, from those of the denominators; `sum` is that of
    /// earlier keys, and afterwards that of what these and later queries (`after`) give to these.
    fn sums_back(
        denominators: &[f32],
        of: [&[f32]; 2],
        sum: &mut [f32],
        after: &[f32],
        of_q: &mut [f32],
        of_k: &mut [f32],
    ) {
        let width = sum.len();
        let [q, k] = of.map(|x| x.chunks_exact(width));
        for ((of_q, k), denominator) in of_q.chunks_exact_mut(width).zip(k).zip(denominators) {
            add(sum, k);
            for (of_q, sum) in of_q.iter_mut().zip(sum.iter()) {
                *of_q += denominator * sum;
            }
        }
        sum.copy_from_slice(after);
        let rows = of_k.chunks_exact_mut(width).take(denominators.len()).zip(q).zip(denominators);
        for ((of_k, q), denominator) in rows.rev() {
            add_scaled(sum, *denominator, q);
            add(of_k, sum);
        }
    }

    /// Through `elu(x) + 1`, whose slope is 1 above 0, and the feature itself below.
    fn features_back(features: &[f32], out: &mut [f32]) {
        for (out, feature) in out.iter_mut().zip(features) {
            *out *= if *feature > 1.0 { 1.0 } else { *feature };
        }
    }
}
