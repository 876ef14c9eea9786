//! What vectors by distance add to the logits and the output of a block of queries.

use super::buckets::{BucketMap, collect, put, read, spread};
use super::vectors::Vectors;
use crate::attention::block::{Block, Operands};
use crate::attention::keys::Segment;
use crate::attention::pieces::ROWS;
use crate::machine::matmul::{Matrix, matmul};
use crate::machine::simd::{LANES, vectorised};
use std::ops::Range;

/// The table of a block, `[rows, buckets]`: a buffer of one thread.
#[derive(Default)]
pub(in crate::attention) struct Scratch {
    table: Vec<f32>,
}

impl Scratch {
    /// A table of zeros.
    pub(super) fn zeros(&mut self, block: &Block, used: usize) -> &mut [f32] {
        let table = self.any(block, used);
        table.fill(0.0);
        table
    }

    /// A table of any numbers.
    fn any(&mut self, block: &Block, used: usize) -> &mut [f32] {
        let count = block.rows * used;
        if self.table.len() < count {
            self.table.resize(count, 0.0);
        }
        &mut self.table[..count]
    }
}

/// The products of the keys of one head with vectors, times the scale.
#[derive(Default)]
pub(in crate::attention) struct KeyTable {
    /// `[keys, used]`, the first bucket first.
    values: Vec<f32>,
    /// The first key.
    first: usize,
    used: usize,
}

impl KeyTable {
    /// Takes the keys that the rows of a block see, if there are vectors to multiply them with.
    pub(in crate::attention) fn fill(&mut self, operands: &Operands<'_>, block: &Block) {
        let Some(vectors) = &operands.relative.queries else { return };
        let keys = block.all_seen();
        (self.first, self.used) = (keys.start, vectors.map.used(reach(operands, block)));
        self.values.resize(keys.len() * self.used, 0.0);
        let right = vectors.columns(block.head, self.used);
        let keys = operands.key_matrix(block, &keys);
        matmul(&mut self.values, self.used, false, operands.scale, keys, right);
    }

    /// The same keys with zeros.
    pub(super) fn zeros_like(&mut self, other: &Self) {
        (self.first, self.used) = (other.first, other.used);
        self.values.clear();
        self.values.resize(other.values.len(), 0.0);
    }

    /// Buckets of a key.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// All of it, `[keys, used]`.
    pub(super) fn matrix(&self) -> Matrix<'_> {
        Matrix::new(&self.values, self.values.len() / self.used.max(1), self.used, self.used)
    }

    fn of(&self, key: usize) -> &[f32] {
        &self.values[(key - self.first) * self.used..][..self.used]
    }

    fn of_mut(&mut self, key: usize) -> &mut [f32] {
        &mut self.values[(key - self.first) * self.used..][..self.used]
    }
}

/// The distances below this are those of a block's rows and keys.
pub(super) fn reach(operands: &Operands<'_>, block: &Block) -> usize {
    operands.position(block, block.rows) - block.all_seen().start
}

/// Calls `visit` with the row, the columns of the logits and the farthest distance of each run of keys that a row sees.
fn visible(operands: &Operands<'_>, block: &Block, mut visit: impl FnMut(usize, Range<usize>, usize)) {
    for row in 0..block.rows {
        let position = operands.position(block, row);
        for segment in block.seen() {
            for run in operands.runs(block, row, segment).into_iter().filter(|run| !run.is_empty()) {
                let columns = segment.columns(&run);
                let at = row * block.stride;
                visit(row, at + columns.start..at + columns.end, position - run.start);
            }
        }
    }
}

/// Adds to each logit, or gradient of a probability, the entry of its row and bucket.
fn spread_rows(operands: &Operands<'_>, block: &Block, map: &BucketMap, table: &[f32], x: &mut [f32]) {
    let used = table.len() / block.rows;
    visible(operands, block, |row, columns, farthest| {
        spread(map, &table[row * used..][..used], farthest, &mut x[columns]);
    });
}

/// Sums probabilities, or gradients of logits, by row and bucket.
pub(super) fn collect_rows<'s>(
    operands: &Operands<'_>,
    block: &Block,
    vectors: &Vectors,
    x: &[f32],
    scratch: &'s mut Scratch,
) -> &'s [f32] {
    let used = vectors.map.used(reach(operands, block));
    let table = scratch.zeros(block, used);
    visible(operands, block, |row, columns, farthest| {
        collect(&vectors.map, &x[columns], farthest, &mut table[row * used..][..used]);
    });
    table
}

/// Adds `scale * (q · keys[n] + bias)` to the logits.
pub(in crate::attention) fn add_keys(
    operands: &Operands<'_>,
    block: &Block,
    scratch: &mut Scratch,
    logits: &mut [f32],
) {
    let Some(vectors) = &operands.relative.keys else { return };
    let used = vectors.map.used(reach(operands, block));
    let table = scratch.any(block, used);
    let bias = operands.relative.key_bias.as_ref();
    if let Some(bias) = bias {
        let bias = &bias[block.head * vectors.buckets + vectors.first(used)..][..used];
        for row in table.chunks_mut(used) {
            for (x, bias) in row.iter_mut().zip(bias) {
                *x = operands.scale * bias;
            }
        }
    }
    let queries = operands.query_matrix(block, &Segment::default());
    matmul(table, used, bias.is_some(), operands.scale, queries, vectors.columns(block.head, used));
    spread_rows(operands, block, &vectors.map, table, logits);
}

/// Adds `scale * queries[n] · k` to the logits.
pub(in crate::attention) fn add_queries(
    operands: &Operands<'_>,
    block: &Block,
    table: &KeyTable,
    logits: &mut [f32],
) {
    if let Some(vectors) = &operands.relative.queries {
        add_columns(&vectors.map, table, block, operands.position(block, 0), logits);
    }
}

/// Adds `probabilities · values[n]` to the output, whose rows lie `stride` apart.
pub(in crate::attention) fn add_values(
    operands: &Operands<'_>,
    block: &Block,
    probabilities: &[f32],
    scratch: &mut Scratch,
    (out, stride): (&mut [f32], usize),
) {
    let Some(vectors) = &operands.relative.values else { return };
    let table = collect_rows(operands, block, vectors, probabilities, scratch);
    let used = table.len() / block.rows;
    let table = Matrix::new(table, block.rows, used, used);
    matmul(out, stride, true, 1.0, table, vectors.rows(block.head, used));
}

/// Adds to the gradients of the probabilities what comes through the vectors of values; `output` is the gradient of the
/// output, `[rows, value_dim]`.
pub(in crate::attention) fn through_values(
    operands: &Operands<'_>,
    block: &Block,
    output: Matrix<'_>,
    scratch: &mut Scratch,
    gradient: &mut [f32],
) {
    let Some(vectors) = &operands.relative.values else { return };
    let used = vectors.map.used(reach(operands, block));
    let table = scratch.any(block, used);
    matmul(table, used, false, 1.0, output, vectors.columns(block.head, used));
    spread_rows(operands, block, &vectors.map, table, gradient);
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
                        *entry = table.of(key)[bucket];
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
                    read(map, table.of(key), position + ahead - key, &mut column[ahead..block.rows]);
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
    pub(super) fn collect_columns(
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
                        table.of_mut(key)[bucket] += sum;
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
                    put(map, &column[ahead..block.rows], position + ahead - key, table.of_mut(key));
                }
            }
        }
    }
}
