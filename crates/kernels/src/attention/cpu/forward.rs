//! Attention on the CPU, a block of queries at a time.
//!
//! A block is 32 query rows of one head, with all keys that any of them sees: its logits take 2 MiB at 16,384
//! keys. The gradient (`backward.rs`) takes one batch row and key head at a time, in pieces of rows where
//! these are few, so that what a key receives is added in one order. Few rows over many keys are cut by keys
//! (`cpu/split.rs`). The products take 75% to 90% of the time: at 64 channels they run at 100 to 114
//! GFLOP/s on a Zen 4 core.
//!
//! **What paid:** transposing the keys of a long text once and not for every 128 queries, which took 7% of
//! the time at 16,384 tokens; keeping rows of transposed keys from lying a multiple of 2 KiB apart (4% of the
//! first product); buffers that begin a line of the cache (6% to 15% of it).

use super::call::Engine;
use crate::attention::block::pieces::{ROWS, SHARED, task_rows};
use crate::attention::block::{Block, Keys, Operands};
use crate::attention::normaliser::Weighed;
use crate::attention::spec::{NOTHING_SEEN, Shape};
use crate::attention::terms::{KeyTable, Room};
use crate::machine::autodiff::permuted_tensor_of;
use crate::machine::buffers::zeros;
use crate::machine::matmul::Matrix;
use crate::machine::simd::LANES;
use burn_flex::FlexTensor;
use rayon::prelude::*;
use std::cmp::Reverse;
use std::sync::{Mutex, PoisonError};

/// The output `[batch, heads, queries, value_dim]`, and the log of each row's sum of exp(logits),
/// `[batch, heads, queries]`.
///
/// Both are laid out as `[batch, queries, heads, ..]`, so that merging the heads of the output costs nothing.
pub(super) fn forward(engine: &Engine<'_>) -> [FlexTensor; 2] {
    let (operands, shape) = (engine.operands, engine.operands.shape);
    let out_row = shape.heads * shape.value_dim;
    let mut out = zeros(shape.batch * shape.queries * out_row);
    let mut log_sums = vec![NOTHING_SEEN; shape.batch * shape.queries * shape.heads];
    let mut tasks = Vec::new();
    let task_rows = task_rows(shape.batch, shape.queries);
    {
        let (mut out, mut log_sums) = (&mut out[..], &mut log_sums[..]);
        for batch in 0..shape.batch {
            for first in (0..shape.queries).step_by(task_rows) {
                let rows = task_rows.min(shape.queries - first);
                let (out_rows, out_rest) = out.split_at_mut(rows * out_row);
                let (sum_rows, sum_rest) = log_sums.split_at_mut(rows * shape.heads);
                (out, log_sums) = (out_rest, sum_rest);
                tasks.push(Task { batch, first, rows, out: out_rows, log_sums: sum_rows });
            }
        }
    }
    let scratch = operands.scratch() * engine.heads_at_once();
    let shared = shared_keys(engine);
    if shared.is_some() {
        // Late rows see more keys.
        tasks.sort_by_key(|task| Reverse(task.first));
    }
    let make = || (vec![0.0; scratch], Own::new(engine));
    let run = |(logits, own): &mut (Vec<f32>, Own), task: Task<'_>| {
        task.run(engine, shared.as_ref(), logits, own);
    };
    if shared.is_some() {
        in_order(tasks, make, run);
    } else {
        tasks.into_par_iter().for_each_init(make, run);
    }
    tensors(shape, out, log_sums)
}

/// The output `[batch, queries, heads, value_dim]` and the log sums `[batch, queries, heads]` as they are handed on.
pub(super) fn tensors(shape: Shape, out: Vec<f32>, log_sums: Vec<f32>) -> [FlexTensor; 2] {
    let Shape { batch, queries, heads, value_dim, .. } = shape;
    [
        permuted_tensor_of(out, [batch, queries, heads, value_dim], [0, 2, 1, 3]),
        permuted_tensor_of(log_sums, [batch, queries, heads], [0, 2, 1]),
    ]
}

/// Runs tasks on all threads so that the first ones begin first: what is left at the end should be short.
fn in_order<T: Send, B>(tasks: Vec<T>, make: impl Fn() -> B + Sync, run: impl Fn(&mut B, T) + Sync) {
    let queue = Mutex::new(tasks.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    (0..rayon::current_num_threads()).into_par_iter().with_max_len(1).for_each(|_| {
        let mut buffers = None;
        while let Some(task) = next() {
            run(buffers.get_or_insert_with(&make), task);
        }
    });
}

/// All keys, if the tasks share them.
struct SharedKeys {
    /// Transposed, for each batch row and key head.
    transposed: Vec<Keys>,
    /// What the terms compute of them, for each batch row and query head.
    tables: Vec<Vec<KeyTable>>,
}

fn shared_keys(engine: &Engine<'_>) -> Option<SharedKeys> {
    let operands = engine.operands;
    let Shape { batch, heads, key_heads, queries, .. } = operands.shape;
    if queries <= SHARED && engine.heads_at_once() == 1 {
        return None;
    }
    let transposed = |index: usize| {
        let all = operands.all_rows(index / key_heads, index % key_heads * (heads / key_heads));
        let mut keys = Keys::default();
        operands.transpose_keys(&all, &mut keys);
        keys
    };
    let table = |index: usize| {
        let mut tables = Vec::new();
        engine.tables(&operands.all_rows(index / heads, index % heads), &mut tables);
        tables
    };
    Some(SharedKeys {
        transposed: (0..batch * key_heads).into_par_iter().map(transposed).collect(),
        tables: (0..batch * heads).into_par_iter().map(table).collect(),
    })
}

/// The keys that one task sees, if it shares none, and the buffers of one thread.
pub(super) struct Own {
    pub(super) transposed: Keys,
    pub(super) tables: Vec<KeyTable>,
    pub(super) rooms: Vec<Vec<Room>>,
}

impl Own {
    pub(super) fn new(engine: &Engine<'_>) -> Self {
        Self { transposed: Keys::default(), tables: Vec::new(), rooms: engine.rooms() }
    }
}

/// Some query rows of one batch row, all heads.
struct Task<'a> {
    batch: usize,
    first: usize,
    rows: usize,
    /// `[rows, heads * value_dim]`.
    out: &'a mut [f32],
    /// `[rows, heads]`.
    log_sums: &'a mut [f32],
}

impl Task<'_> {
    /// Without shared keys, `own` receives those that the task sees.
    fn run(self, engine: &Engine<'_>, shared: Option<&SharedKeys>, logits: &mut [f32], own: &mut Own) {
        let (operands, at_once) = (engine.operands, engine.heads_at_once());
        let Shape { heads, key_heads, value_dim, .. } = operands.shape;
        let group = operands.shape.group();
        for first in (0..heads).step_by(at_once) {
            if shared.is_none() {
                let span = operands.span(self.batch, first, self.first, self.rows);
                if first % group == 0 {
                    operands.transpose_keys(&span, &mut own.transposed);
                }
                engine.tables(&span, &mut own.tables);
            }
            let Own { transposed, tables, rooms } = &mut *own;
            let keys = |head: usize| match shared {
                Some(shared) => &shared.transposed[self.batch * key_heads + head / group],
                None => &*transposed,
            };
            let tables = match shared {
                Some(shared) => &shared.tables[self.batch * heads + first..][..at_once],
                None => std::slice::from_ref(tables),
            };
            for row in (0..self.rows).step_by(ROWS) {
                let block = |head| operands.block(self.batch, head, self.first + row);
                let blocks: Vec<Block> = (first..first + at_once).map(block).collect();
                if blocks[0].width == 0 {
                    continue;
                }
                engine.fill_logits(&blocks, keys, tables, rooms, logits, &mut []);
                let size = logits.len() / at_once;
                for ((block, logits), rooms) in blocks.iter().zip(logits.chunks_mut(size)).zip(&mut *rooms) {
                    let out = &mut self.out[row * heads * value_dim..];
                    let out = (&mut out[block.head * value_dim..], heads * value_dim);
                    let log_sums = (&mut self.log_sums[row * heads + block.head..], heads);
                    attend(engine, block, logits, rooms, out, log_sums);
                }
            }
        }
    }
}

/// One block with its logits: rows of `out` and numbers of `log_sums` lie so far apart; the former hold zeros, the latter
/// [`NOTHING_SEEN`].
pub(super) fn attend(
    engine: &Engine<'_>,
    block: &Block,
    logits: &mut [f32],
    rooms: &mut [Room],
    (out, stride): (&mut [f32], usize),
    (log_sums, step): (&mut [f32], usize),
) {
    let operands = engine.operands;
    let mut sums = [0.0; ROWS];
    weigh(operands, block, logits, &mut sums, log_sums, step);
    block.gather(logits);
    for (index, segment) in block.seen_once().enumerate() {
        let probabilities = Matrix::new(&logits[segment.at..], block.rows, segment.len(), block.stride);
        let values = operands.value_matrix(block, &segment);
        operands.multiply(out, stride, index > 0, 1.0, probabilities, values);
    }
    for (term, room) in engine.terms.iter().zip(rooms) {
        term.to_output(engine.tile(block), room, logits, (&mut *out, stride));
    }
    for (row, sum) in sums.iter().enumerate().take(block.rows) {
        let inverse = if *sum == 0.0 { 0.0 } else { 1.0 / sum };
        for x in &mut out[row * stride..][..operands.shape.value_dim] {
            *x *= inverse;
        }
    }
}

/// Replaces logits by weights, zero where hidden, to be divided by `sums`. What the normaliser keeps of the rows, the softmax the
/// logs of the sums of exp(logit), goes to `log_sums` (one every `step`).
fn weigh(
    operands: &Operands,
    block: &Block,
    logits: &mut [f32],
    sums: &mut [f32; ROWS],
    log_sums: &mut [f32],
    step: usize,
) {
    for row in 0..block.rows {
        let logits = &mut logits[row * block.stride..][..block.stride];
        let (seen, rest) = logits.split_at_mut(operands.row_end(block, row).next_multiple_of(LANES));
        let Weighed { divisor, kept } = if seen.is_empty() {
            Weighed { divisor: 0.0, kept: NOTHING_SEEN }
        } else {
            operands.normaliser.weigh(seen, operands.place(block, row))
        };
        rest.fill(0.0);
        sums[row] = divisor;
        log_sums[row * step] = kept;
    }
}
