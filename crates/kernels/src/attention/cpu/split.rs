//! Few query rows over many keys, as cached decoding reads them: each head's keys are cut into ranges.
//!
//! Each range gives a softmax of its own and the log of its sum, which are put together as [`merge`](mod@super::super::merge)
//! says, range after range. A call whose queries read all keys, as gates that count do, is not cut, nor one whose heads are
//! computed side by side, nor one with another normaliser than the softmax.

use super::call::{Call, Engine};
use super::forward::{Own, attend, tensors};
use crate::attention::block::pieces::ROWS;
use crate::attention::spec::{NOTHING_SEEN, Shape};
use burn_flex::FlexTensor;
use rayon::prelude::*;
use std::ops::Range;

/// The ranges of keys, where it pays to cut.
pub(super) fn ranges(call: &Call, engine: &Engine<'_>) -> Option<Vec<Range<usize>>> {
    let (operands, shape) = (&call.operands, call.operands.shape);
    if operands.reads_all_keys
        || engine.mixer().is_some()
        || !operands.normaliser.is_softmax()
        || shape.queries == 0
        || shape.batch * shape.heads == 0
    {
        return None;
    }
    let seen = operands.span(0, 0, 0, shape.queries).all_seen();
    call.cut.keys(&shape, seen.start..seen.end)
}

/// Attention of some rows to a range of keys.
struct Part {
    /// `[rows, value_dim]`.
    out: Vec<f32>,
    /// `[rows]`.
    log_sums: Vec<f32>,
}

/// As [`forward`](super::forward()), each head and range of keys by itself.
pub(super) fn forward(engine: &Engine<'_>, ranges: &[Range<usize>]) -> [FlexTensor; 2] {
    let shape = engine.operands.shape;
    let Shape { batch, heads, queries, value_dim, .. } = shape;
    let blocks = queries.div_ceil(ROWS);
    let parts: Vec<Part> = (0..batch * blocks * heads * ranges.len())
        .into_par_iter()
        .with_max_len(1)
        .map(|index| {
            let (index, range) = (index / ranges.len(), &ranges[index % ranges.len()]);
            let (index, head) = (index / heads, index % heads);
            part(engine, [index / blocks, head, index % blocks * ROWS], range)
        })
        .collect();
    let mut out = vec![0.0; batch * queries * heads * value_dim];
    let mut log_sums = vec![NOTHING_SEEN; batch * queries * heads];
    let of_head = out.chunks_mut(value_dim.max(1)).zip(&mut log_sums).enumerate();
    for (index, (out, log_sum)) in of_head {
        let (row, head) = (index / heads, index % heads);
        let (batch, row) = (row / queries, row % queries);
        let first = ((batch * blocks + row / ROWS) * heads + head) * ranges.len();
        *log_sum = merge(&parts[first..first + ranges.len()], row % ROWS, out);
    }
    tensors(shape, out, log_sums)
}

/// A block of rows and a range of keys.
fn part(engine: &Engine<'_>, [batch, head, first]: [usize; 3], keys: &Range<usize>) -> Part {
    let operands = engine.operands;
    let whole = operands.block(batch, head, first);
    let block = whole.within(keys);
    let value_dim = operands.shape.value_dim;
    let mut part = Part { out: vec![0.0; block.rows * value_dim], log_sums: vec![NOTHING_SEEN; block.rows] };
    if block.width > 0 {
        let mut own = Own::new(engine);
        let mut logits = vec![0.0; block.rows * block.stride];
        operands.transpose_keys(&block, &mut own.transposed);
        engine.tables(&block, &mut own.tables);
        let Own { transposed, tables, rooms } = &mut own;
        let blocks = std::slice::from_ref(&block);
        engine.fill_logits(
            blocks,
            |_| &*transposed,
            std::slice::from_ref(tables),
            rooms,
            &mut logits,
            &mut [],
        );
        let (out, log_sums) = ((&mut part.out[..], value_dim), (&mut part.log_sums[..], 1));
        attend(engine, &block, &mut logits, &mut rooms[0], out, log_sums);
    }
    part
}

/// Fills `out` with the attention of a row to the keys of all parts, and gives the log of its sum.
fn merge(parts: &[Part], row: usize, out: &mut [f32]) -> f32 {
    let largest = parts.iter().fold(NOTHING_SEEN, |largest, part| largest.max(part.log_sums[row]));
    let (mut sum, first) = (0.0, row * out.len());
    for part in parts {
        let weight = (part.log_sums[row] - largest).exp();
        sum += weight;
        for (out, x) in out.iter_mut().zip(&part.out[first..]) {
            *out += weight * x;
        }
    }
    for x in out {
        *x /= sum;
    }
    largest + sum.ln()
}
