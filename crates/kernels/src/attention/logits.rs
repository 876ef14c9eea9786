//! The logits of one block of queries: products of q and k, and what is added to them.

use super::bias::add_bias;
use super::block::{Block, Keys, Operands};
use super::counted::{Counts, add_counted};
use super::relative::{self, KeyTable, Scratch};
use crate::machine::simd::LANES;

/// Fills `logits` with those of the block: minus infinity where a key is hidden, up to the next
/// multiple of [`LANES`] after [`Operands::row_end`]; what follows in a row is left undefined.
///
/// `keys` and `table` hold at least the block's keys.
pub(super) fn fill_logits(
    operands: &Operands<'_>,
    block: &Block,
    keys: &Keys,
    table: &KeyTable,
    scratch: &mut Scratch,
    counts: &mut Counts,
    logits: &mut [f32],
) {
    for segment in block.seen() {
        let (queries, keys) = (operands.query_matrix(block, segment), keys[segment.range].of(segment));
        operands.multiply(&mut logits[segment.at..], block.stride, false, operands.scale, queries, keys);
    }
    relative::add_keys(operands, block, scratch, logits);
    add_counted(operands, block, counts, logits);
    add_bias(operands, block, logits);
    relative::add_queries(operands, block, table, logits);
    for (row, logits) in logits.chunks_mut(block.stride).take(block.rows).enumerate() {
        for segment in block.seen() {
            let [sinks, near] = operands.runs(block, row, segment);
            for hidden in [segment.start..sinks.start, sinks.end..near.start, near.end..segment.end] {
                logits[segment.columns(&hidden)].fill(f32::NEG_INFINITY);
            }
        }
        let end = operands.row_end(block, row);
        logits[end..end.next_multiple_of(LANES)].fill(f32::NEG_INFINITY);
    }
}
