//! Vectors that are added to queries: they need the products of all keys with them, one table for each head.

use super::VectorTable;
use super::buckets::{BucketMap, put, read};
use super::vectors::{Order, Vectors, reach};
use crate::attention::block::pieces::ROWS;
use crate::attention::block::{Block, Operands, Tile};
use crate::attention::spec::{Shape, Sight};
use crate::attention::terms::{KeyTable, OfLogits, Part, Room, ScoreTerm, Scores, TileTerm, of_head};
use crate::machine::matmul::{Matrix, matmul};
use crate::machine::simd::{LANES, vectorised};
use crate::op::Any;
use burn::tensor::Tensor;
use burn_flex::FlexTensor;

#[derive(Clone, Debug)]
pub(super) struct Queries(pub(super) VectorTable);

impl ScoreTerm for Queries {
    fn inputs(&self) -> Vec<Any> {
        vec![self.0.vectors.clone().into()]
    }

    fn check(&self, sight: &Sight, shape: &Shape) {
        self.0.check(shape.head_dim, sight, shape);
    }

    /// Adds `scale * queries[n] · k_j`.
    fn plain_to_logits(&self, scores: &Scores<'_>, logits: Tensor<4>) -> Tensor<4> {
        let products = self.0.products(scores.k).swap_dims(2, 3); // [batch, heads, buckets, keys]
        let chosen = self.0.chosen(scores.sight, logits.dims(), &logits);
        logits + products.gather(2, chosen).mul_scalar(scores.scale)
    }

    fn on_cpu<'a>(&'a self, inputs: &'a [FlexTensor], _: f64) -> Box<dyn TileTerm + 'a> {
        Box::new(Values(Vectors::new(&inputs[0], &self.0, Order::FirstFirst)))
    }
}

/// The first bucket first, so that entries of a key's table run with the queries of a block.
struct Values(Vectors);

impl TileTerm for Values {
    fn of_keys(&self, tile: Tile<'_>, table: &mut KeyTable) {
        let keys = tile.block.all_seen();
        (table.first, table.width) = (keys.start, self.0.map.used(reach(tile)));
        table.values.resize(keys.len() * table.width, 0.0);
        let right = self.0.columns(tile.block.head, table.width);
        let keys = tile.operands.key_matrix(tile.block, &keys);
        matmul(&mut table.values, table.width, false, tile.operands.scale, keys, right);
    }

    fn to_logits(&self, tile: Tile<'_>, table: &KeyTable, logits: &mut [f32]) {
        add_columns(&self.0.map, table, tile.block, tile.position(), logits);
    }

    fn parts(&self, operands: &Operands) -> Vec<Part> {
        vec![Part::Sums(operands.shape.group() * self.0.size())]
    }

    fn gradients(&self, operands: &Operands, parts: Vec<Vec<f32>>) -> Vec<FlexTensor> {
        vec![self.0.gradient(&parts[0], operands.shape.heads)]
    }

    fn passes_on(&self) -> bool {
        true
    }

    fn through_logits(&self, tile: Tile<'_>, room: &mut Room, of: &OfLogits<'_>, _: &mut [&mut [f32]]) {
        let sums = &mut room.of_keys;
        if sums.values.is_empty() {
            (sums.first, sums.width) = (of.table.first, of.table.width);
            sums.values.resize(of.table.values.len(), 0.0);
        }
        collect_columns(&self.0.map, of.gradient, tile.block, tile.position(), sums);
    }

    fn to_keys(&self, tile: Tile<'_>, room: &mut Room, keys: &mut [f32], parts: &mut [&mut [f32]]) {
        let (vectors, scale, seen) = (&self.0, tile.operands.scale, tile.block.all_seen());
        let KeyTable { values, width: used, .. } = &mut room.of_keys;
        if values.is_empty() {
            return;
        }
        let table = Matrix::new(values, seen.len(), *used, *used);
        matmul(keys, vectors.width, true, scale, table, vectors.rows(tile.block.head, *used));
        let k = tile.operands.key_matrix(tile.block, &seen);
        let own = of_head(parts[0], tile, vectors.size());
        matmul(own, vectors.width, true, scale, table.transposed(), k);
        values.clear();
    }
}

fn of(table: &KeyTable, key: usize) -> &[f32] {
    &table.values[(key - table.first) * table.width..][..table.width]
}

fn of_mut(table: &mut KeyTable, key: usize) -> &mut [f32] {
    &mut table.values[(key - table.first) * table.width..][..table.width]
}

vectorised! {
    /// Adds to each logit the entry of its key and bucket; the first row is at `position`.
    fn add_columns(map: &BucketMap, table: &KeyTable, block: &Block, position: usize, logits: &mut [f32]) {
        for segment in block.seen() {
            for start in (segment.start..segment.end).step_by(LANES) {
                let keys = start..segment.end.min(start + LANES);
                let columns = segment.columns(&keys);
                let far = position.checked_sub(keys.end - 1).and_then(|nearest| map.shared_from(nearest));
                if let Some(bucket) = far {
                    let mut entries = [0.0; LANES];
                    for (entry, key) in entries.iter_mut().zip(keys) {
                        *entry = of(table, key)[bucket];
                    }
                    for row in 0..block.rows {
                        for (x, entry) in logits[row * block.stride..][columns.clone()].iter_mut().zip(&entries) {
                            *x += entry;
                        }
                    }
                    continue;
                }
                let mut tile = [[0.0_f32; ROWS]; LANES];
                for (key, column) in keys.zip(&mut tile) {
                    let ahead = key.saturating_sub(position);
                    read(map, of(table, key), position + ahead - key, &mut column[ahead..block.rows]);
                }
                for row in 0..block.rows {
                    for (x, column) in logits[row * block.stride..][columns.clone()].iter_mut().zip(&tile) {
                        *x += column[row];
                    }
                }
            }
        }
    }

    /// The reverse of [`add_columns`]: sums gradients of logits by key and bucket.
    fn collect_columns(
        map: &BucketMap,
        x: &[f32],
        block: &Block,
        position: usize,
        table: &mut KeyTable,
    ) {
        for segment in block.seen() {
            for start in (segment.start..segment.end).step_by(LANES) {
                let keys = start..segment.end.min(start + LANES);
                let columns = segment.columns(&keys);
                let far = position.checked_sub(keys.end - 1).and_then(|nearest| map.shared_from(nearest));
                if let Some(bucket) = far {
                    let mut sums = [0.0_f32; LANES];
                    for row in 0..block.rows {
                        for (sum, x) in sums.iter_mut().zip(&x[row * block.stride..][columns.clone()]) {
                            *sum += x;
                        }
                    }
                    for (key, sum) in keys.zip(&sums) {
                        of_mut(table, key)[bucket] += sum;
                    }
                    continue;
                }
                let mut tile = [[0.0_f32; ROWS]; LANES];
                for row in 0..block.rows {
                    for (x, column) in x[row * block.stride..][columns.clone()].iter().zip(&mut tile) {
                        column[row] = *x;
                    }
                }
                for (key, column) in keys.zip(&tile) {
                    let ahead = key.saturating_sub(position);
                    put(map, &column[ahead..block.rows], position + ahead - key, of_mut(table, key));
                }
            }
        }
    }
}
