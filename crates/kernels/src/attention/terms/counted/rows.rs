//! Gates and counts of a block of queries, and what they add to the logits.

use super::Vectors;
use crate::attention::block::Tile;
use crate::attention::terms::{Room, at_least};
use crate::machine::matmul::matmul;
use crate::machine::simd::{LANES, sigmoid, vectorised};
use std::ops::Range;

/// What a block keeps of its gates and counts.
pub(super) struct Counts<'a> {
    /// `[rows, stride of the vectors]`: the products of the queries with the vectors.
    pub(super) table: &'a mut [f32],
    /// The gradient of the same.
    pub(super) gradient: &'a mut [f32],
    /// The parts of the gradient of one row.
    pub(super) tables: &'a mut [f32],
    /// `[rows, stride of the block]`, in the columns of [`counted`](Self::counted).
    pub(super) gates: &'a mut [f32],
    /// The counts, in the same columns.
    pub(super) sums: &'a mut [f32],
    /// The columns of each row whose keys were counted. Those before have the last vector.
    pub(super) counted: &'a mut [Range<usize>],
}

/// Tables that take turns: neighbouring keys often count to the same vector, and each addition to one number would wait
/// for the one before.
pub(super) const TABLES: usize = 4;

impl<'a> Counts<'a> {
    pub(super) fn of(room: &'a mut Room, vectors: &Vectors, tile: Tile<'_>) -> Self {
        let Room { buffers: [table, gradient, tables, gates, sums], columns, .. } = room;
        let (of_vectors, of_keys) = (tile.block.rows * vectors.stride, tile.block.rows * tile.block.stride);
        Self {
            table: at_least(table, of_vectors),
            gradient: at_least(gradient, of_vectors),
            tables: at_least(tables, TABLES * vectors.stride),
            gates: at_least(gates, of_keys),
            sums: at_least(sums, of_keys),
            counted: columns,
        }
    }
}

/// The columns of the keys that a row counts: sinks are read past the keys between, which are counted too.
pub(super) fn columns(Tile { operands, block }: Tile<'_>, row: usize) -> Range<usize> {
    let Some(segment) = block.seen().next() else { return 0..0 };
    let [sinks, near] = operands.runs(block, row, segment);
    let start = if sinks.is_empty() { near.start } else { sinks.start };
    segment.columns(&(start..near.end))
}

/// What multiplies the logits of a row, as they come from the product of q and k, in their gates.
pub(super) fn gate_scale(Tile { operands, block }: Tile<'_>, vectors: &Vectors, row: usize) -> f32 {
    vectors.gate_scale * operands.row_factor(block, row).unwrap_or(1.0)
}

/// Adds the products of queries with the vectors that they count to, before the rows' factors.
pub(super) fn add_counted(vectors: &Vectors, tile: Tile<'_>, room: &mut Room, logits: &mut [f32]) {
    let counts = Counts::of(room, vectors, tile);
    let (block, stride) = (tile.block, vectors.stride);
    matmul(counts.table, stride, false, 1.0, tile.queries(), vectors.columns());
    for row in 0..block.rows {
        let columns = columns(tile, row);
        let at = row * block.stride + columns.start..row * block.stride + columns.end;
        let uncounted = add_row(
            &counts.table[row * stride..][..stride],
            gate_scale(tile, vectors, row),
            vectors.last(),
            &mut logits[at.clone()],
            &mut counts.gates[at.clone()],
            &mut counts.sums[at],
        );
        counts.counted[row] = columns.start + uncounted..columns.end;
    }
}

/// The entries of a row's table on both sides of each count, and how far each count is past the first.
#[inline(always)]
pub(super) fn around(table: &[f32], counts: &[f32; LANES]) -> Around {
    let low = counts.map(|count| count as i32);
    let mut around = Around { low, below: [0.0; LANES], above: [0.0; LANES], share: [0.0; LANES] };
    for lane in 0..LANES {
        around.share[lane] = counts[lane] - low[lane] as f32;
        let low = low[lane].cast_unsigned() as usize;
        around.below[lane] = table[low];
        around.above[lane] = table[low + 1];
    }
    around
}

/// See [`around`].
pub(super) struct Around {
    pub(super) low: [i32; LANES],
    pub(super) below: [f32; LANES],
    pub(super) above: [f32; LANES],
    pub(super) share: [f32; LANES],
}

vectorised! {
    /// Adds to the logits of one row, whose last key is the query's own. Gives the number of keys that were not counted,
    /// since the count had reached `last`: these are the first.
    fn add_row(
        table: &[f32],
        gate_scale: f32,
        last: usize,
        logits: &mut [f32],
        gates: &mut [f32],
        counts: &mut [f32],
    ) -> usize {
        let limit = last as f32;
        let mut counted = 0.0;
        let mut end = logits.len();
        // Of numbers that are none, all are read. Chunks begin at the query's own key, wherever the block begins.
        while end > 0 {
            if counted >= limit {
                break;
            }
            let start = end.saturating_sub(LANES);
            // The nearest key in the last lane; in front there may be lanes without a key.
            let from = LANES - (end - start);
            let mut gate = [0.0; LANES];
            gate[from..].copy_from_slice(&logits[start..end]);
            for x in &mut gate {
                *x = sigmoid(*x * gate_scale);
            }
            let mut count = gate;
            for shift in [1, 2, 4, 8] {
                let before = count;
                for lane in 0..LANES - shift {
                    count[lane] = before[lane] + before[lane + shift];
                }
            }
            for x in &mut count {
                let sum = *x + counted;
                *x = if sum > limit { limit } else { sum };
            }
            counted = count[0];
            let around = around(table, &count);
            let mut added = [0.0; LANES];
            for (lane, added) in added.iter_mut().enumerate() {
                *added = around.below[lane] + (around.above[lane] - around.below[lane]) * around.share[lane];
            }
            for (x, added) in logits[start..end].iter_mut().zip(&added[from..]) {
                *x += added;
            }
            gates[start..end].copy_from_slice(&gate[from..]);
            counts[start..end].copy_from_slice(&count[from..]);
            end = start;
        }
        for x in &mut logits[..end] {
            *x += table[last];
        }
        end
    }
}
