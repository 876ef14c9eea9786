//! The gradients of vectors by distance.

use super::blocks::{KeyTable, Scratch, collect_columns, collect_rows};
use super::vectors::{Vectors, in_order};
use crate::attention::block::{Block, Operands};
use crate::attention::keys::Segment;
use crate::machine::autodiff::tensor_of;
use crate::machine::matmul::{Matrix, matmul};
use crate::machine::simd::add;
use burn_flex::FlexTensor;

/// The gradients of vectors that one batch row and key head receive.
pub(in crate::attention) struct Part<'a> {
    pub(in crate::attention) keys: &'a mut [f32],
    pub(in crate::attention) bias: &'a mut [f32],
    pub(in crate::attention) queries: &'a mut [f32],
    pub(in crate::attention) values: &'a mut [f32],
    /// Query heads of the key head.
    pub(in crate::attention) group: usize,
}

/// How many tensors have a gradient at most.
pub(in crate::attention) const PARTS: usize = 4;

/// The sizes of the gradients of a query head, `buckets * width` in the order of [`Vectors`]; the bias has the width 1.
pub(in crate::attention) fn sizes(operands: &Operands<'_>) -> [usize; PARTS] {
    let tables = &operands.relative;
    let of = |vectors: &Option<Vectors>| vectors.as_ref().map_or(0, |own| own.buckets * own.width);
    let bias = tables.keys.as_ref().filter(|_| tables.key_bias.is_some()).map_or(0, |own| own.buckets);
    [of(&tables.keys), bias, of(&tables.queries), of(&tables.values)]
}

/// The gradients of the tensors, from those of each batch row and head: summed over the batch, and over the heads where
/// they share vectors, in their order.
pub(in crate::attention) fn tensors(
    operands: &Operands<'_>,
    parts: [Vec<f32>; PARTS],
) -> [Option<FlexTensor>; PARTS] {
    let tables = &operands.relative;
    let heads = operands.shape.heads;
    let [keys, bias, queries, values] = parts;
    let total = |part: &[f32], size: usize| {
        let mut total = vec![0.0; size];
        for part in part.chunks(size.max(1)) {
            add(&mut total, part);
        }
        total
    };
    let of = |vectors: &Option<Vectors>, part: Vec<f32>| {
        let Vectors { buckets, width, order, shared, .. } = vectors.as_ref()?;
        let heads = if *shared { 1 } else { heads };
        let total = total(&part, heads * buckets * width);
        Some(tensor_of(in_order(&total, *buckets, *width, *order), [heads, *buckets, *width]))
    };
    let bias =
        tables.key_bias.as_ref().zip(tables.keys.as_ref()).map(|(_, Vectors { buckets, order, .. })| {
            let total = total(&bias, heads * buckets);
            tensor_of(in_order(&total, *buckets, 1, *order), [heads, *buckets])
        });
    [of(&tables.keys, keys), bias, of(&tables.queries, queries), of(&tables.values, values)]
}

/// The tables of keys of one head: their products with vectors, and the gradients of these.
#[derive(Default)]
pub(in crate::attention) struct KeyTables {
    pub(in crate::attention) products: KeyTable,
    gradient: KeyTable,
}

impl KeyTables {
    /// Begins a head, all of whose rows are one block.
    pub(in crate::attention) fn begin(&mut self, operands: &Operands<'_>, all: &Block) {
        self.products.fill(operands, all);
        self.gradient.zeros_like(&self.products);
    }

    /// Takes the gradient of a block's logits.
    pub(in crate::attention) fn collect(&mut self, operands: &Operands<'_>, block: &Block, gradient: &[f32]) {
        if let Some(vectors) = &operands.relative.queries {
            let position = operands.position(block, 0);
            collect_columns(&vectors.map, gradient, block, position, &mut self.gradient);
        }
    }
}

impl Part<'_> {
    /// The gradients of the vectors of values, from the probabilities and the gradient of the output, `[rows, value_dim]`.
    pub(in crate::attention) fn add_values(
        &mut self,
        operands: &Operands<'_>,
        block: &Block,
        probabilities: &[f32],
        output: Matrix<'_>,
        scratch: &mut Scratch,
    ) {
        let Some(vectors) = &operands.relative.values else { return };
        let table = collect_rows(operands, block, vectors, probabilities, scratch);
        let used = table.len() / block.rows;
        let table = Matrix::new(table, block.rows, used, used);
        let own = of_head(self.values, block, self.group, vectors);
        matmul(
            &mut own[vectors.first(used) * vectors.width..],
            vectors.width,
            true,
            1.0,
            table.transposed(),
            output,
        );
    }

    /// The gradients of the vectors of keys and of their bias, from that of q·k; adds to the gradient of the block's
    /// queries.
    pub(in crate::attention) fn add_keys(
        &mut self,
        operands: &Operands<'_>,
        block: &Block,
        gradient: &[f32],
        scratch: &mut Scratch,
        queries: &mut [f32],
    ) {
        let Some(vectors) = &operands.relative.keys else { return };
        let sums = collect_rows(operands, block, vectors, gradient, scratch);
        let used = sums.len() / block.rows;
        let (width, first, scale) = (vectors.width, vectors.first(used), operands.scale);
        let table = Matrix::new(sums, block.rows, used, used);
        matmul(queries, width, true, scale, table, vectors.rows(block.head, used));
        let own = of_head(self.keys, block, self.group, vectors);
        let q = operands.query_matrix(block, &Segment::default());
        matmul(&mut own[first * width..], width, true, scale, table.transposed(), q);
        if operands.relative.key_bias.is_some() {
            let own = &mut self.bias[block.head % self.group * vectors.buckets + first..];
            for row in sums.chunks(used) {
                for (own, x) in own.iter_mut().zip(row) {
                    *own += scale * x;
                }
            }
        }
    }

    /// The gradients of the vectors of queries, once all blocks of a head are collected; adds to the gradient of the
    /// keys from the first one seen on, `[keys, head_dim]`. `all` is all rows of the head that were collected.
    pub(in crate::attention) fn add_queries(
        &mut self,
        operands: &Operands<'_>,
        all: &Block,
        tables: &KeyTables,
        keys: &mut [f32],
    ) {
        let Some(vectors) = &operands.relative.queries else { return };
        let (width, scale, table, seen) =
            (vectors.width, operands.scale, tables.gradient.matrix(), all.all_seen());
        let used = tables.gradient.used();
        matmul(keys, width, true, scale, table, vectors.rows(all.head, used));
        let own = of_head(self.queries, all, self.group, vectors);
        let k = operands.key_matrix(all, &seen);
        matmul(own, width, true, scale, table.transposed(), k);
    }
}

fn of_head<'a>(part: &'a mut [f32], block: &Block, group: usize, vectors: &Vectors) -> &'a mut [f32] {
    let size = vectors.buckets * vectors.width;
    &mut part[block.head % group * size..][..size]
}
