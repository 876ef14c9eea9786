//! The bias of a block of queries: what is added to its logits, and the gradient of that.

use super::Shape;
use super::block::{Block, Operands};
use super::call::{BiasTensors, BiasValues, Call, reversed_rows};
use crate::machine::autodiff::tensor_of;
use crate::machine::simd::{self, LANES, sum, vectorised};
use burn_flex::FlexTensor;

/// The numbers of the lanes: 0 to 15.
const FIRST: [f32; LANES] = {
    let mut first = [0.0; LANES];
    let mut lane = 0;
    while lane < LANES {
        first[lane] = lane as f32;
        lane += 1;
    }
    first
};

vectorised! {
    /// Multiplies the logits by their row's factor and adds the bias, where keys are visible.
    pub(super) fn add_bias(operands: &Operands<'_>, block: &Block, logits: &mut [f32]) {
        let Shape { heads, queries, keys, .. } = operands.shape;
        if matches!(operands.bias, BiasValues::None) && operands.query_scale.is_none() {
            return;
        }
        let head_row = (block.batch * heads + block.head) * queries + block.first;
        for row in 0..block.rows {
            let logits = &mut logits[row * block.stride..][..block.stride];
            let position = operands.position(block, row);
            let factor = operands.row_factor(block, row).unwrap_or(1.0);
            for segment in block.seen() {
                for run in operands.runs(block, row, segment) {
                    let logits = &mut logits[segment.columns(&run)];
                    match &operands.bias {
                        BiasValues::None => {
                            for x in logits {
                                *x *= factor;
                            }
                        }
                        BiasValues::ByDistance { reversed, distances } => {
                            if run.is_empty() {
                                continue;
                            }
                            // Key j is at distance position - j: entry distances - 1 - (position - j).
                            let from = (block.head + 1) * distances - 1 - (position - run.start);
                            let bias = &reversed[from..from + logits.len()];
                            for (x, bias) in logits.iter_mut().zip(bias) {
                                *x = *x * factor + bias;
                            }
                        }
                        BiasValues::Slopes(slopes) => {
                            let slope = slopes[block.head];
                            // Whole numbers below 2^24 are exact in f32, however they are reached.
                            let mut distance = (position - run.start.min(position)) as f32;
                            for logits in logits.chunks_mut(LANES) {
                                for (x, lane) in logits.iter_mut().zip(&FIRST) {
                                    *x = *x * factor - slope * (distance - lane);
                                }
                                distance -= LANES as f32;
                            }
                        }
                        BiasValues::Pair { query, key } => {
                            let query = query[head_row + row];
                            let from = (block.batch * heads + block.head) * keys + run.start;
                            let key = &key[from..from + logits.len()];
                            for (x, key) in logits.iter_mut().zip(key) {
                                *x = *x * factor + (query - key);
                            }
                        }
                        BiasValues::Block { values, shared } => {
                            let batch = if *shared { 0 } else { block.batch };
                            let from =
                                ((batch * heads + block.head) * queries + block.first + row) * keys + run.start;
                            let bias = &values[from..from + logits.len()];
                            for (x, bias) in logits.iter_mut().zip(bias) {
                                *x = *x * factor + bias;
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The sizes of a bias' gradient per batch row and head, in two parts, but for what [`bias_row_size`] says.
pub(super) fn bias_sizes(operands: &Operands<'_>) -> [usize; 2] {
    match &operands.bias {
        BiasValues::None | BiasValues::Block { .. } => [0, 0],
        BiasValues::ByDistance { distances, .. } => [*distances, 0],
        BiasValues::Slopes(_) => [1, 0],
        BiasValues::Pair { .. } => [0, operands.shape.keys],
    }
}

/// The numbers of the bias' gradient that each query row has alone: they take the place of the first part.
pub(super) fn bias_row_size(operands: &Operands<'_>) -> usize {
    match &operands.bias {
        BiasValues::None | BiasValues::ByDistance { .. } | BiasValues::Slopes(_) => 0,
        BiasValues::Pair { .. } => 1,
        BiasValues::Block { .. } => operands.shape.keys,
    }
}

vectorised! {
    /// `to += from`, element by element.
    fn add(to: &mut [f32], from: &[f32]) {
        simd::add(to, from);
    }

    /// `to -= from`, element by element.
    fn subtract(to: &mut [f32], from: &[f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to -= from;
        }
    }

    /// The sum of `distance * x`, for distances that fall by one from `farthest`.
    fn by_distance(x: &[f32], farthest: usize) -> f32 {
        let (chunks, rest) = x.as_chunks::<LANES>();
        let mut lanes = [0.0_f32; LANES];
        for (first, chunk) in (0_usize..).step_by(LANES).zip(chunks) {
            let distance = (farthest - first) as f32;
            for (lane, (x, n)) in lanes.iter_mut().zip(chunk.iter().zip(0_u16..)) {
                *lane += x * (distance - f32::from(n));
            }
        }
        let done = chunks.len() * LANES;
        let tail = rest.iter().enumerate().fold(0.0, |sum, (n, x)| sum + x * (farthest - done - n) as f32);
        sum(&lanes) + tail
    }
}

/// Adds the block's part of the bias' gradient, for one head; `first` begins at the block's first row where each row has
/// numbers of its own. `of_log_sums` is the gradient of the log sums of the block's rows, if they have one.
pub(super) fn bias_gradient(
    operands: &Operands<'_>,
    block: &Block,
    of_log_sums: Option<&[f32]>,
    probabilities: &[f32],
    gradient: &[f32],
    [first, second]: [&mut [f32]; 2],
) {
    let keys = operands.shape.keys;
    for row in 0..block.rows {
        let start = row * block.stride;
        let position = operands.position(block, row);
        // The gradients of a row's logits sum to that of its log sum, but for rounding errors, which distances enlarge.
        let mut excess = of_log_sums.map(|gradient| -gradient[row]);
        let mut mean_distance = 0.0;
        for segment in block.seen() {
            for run in operands.runs(block, row, segment).into_iter().filter(|run| !run.is_empty()) {
                let columns = segment.columns(&run);
                let gradient = &gradient[start..][columns.clone()];
                match &operands.bias {
                    BiasValues::None => {}
                    BiasValues::ByDistance { distances, .. } => {
                        let from = distances - 1 - (position - run.start);
                        add(&mut first[from..from + gradient.len()], gradient);
                    }
                    BiasValues::Slopes(_) => {
                        first[0] -= by_distance(gradient, position - run.start);
                        if let Some(excess) = &mut excess {
                            *excess += sum(gradient);
                            mean_distance +=
                                by_distance(&probabilities[start..][columns], position - run.start);
                        }
                    }
                    BiasValues::Pair { .. } => {
                        first[row] += sum(gradient);
                        subtract(&mut second[run.clone()], gradient);
                    }
                    BiasValues::Block { .. } => {
                        let from = row * keys + run.start;
                        add(&mut first[from..from + gradient.len()], gradient);
                    }
                }
            }
        }
        if let (BiasValues::Slopes(_), Some(excess)) = (&operands.bias, excess) {
            first[0] += mean_distance * excess;
        }
    }
}

/// The gradients of the bias' tensors, summed over the batch (in its order) where it is shared.
pub(super) fn bias_tensors(call: &Call, first: Vec<f32>, second: Vec<f32>) -> [Option<FlexTensor>; 2] {
    let shape = call.shape;
    let over_batch = |parts: &[f32]| {
        let size = parts.len() / shape.batch.max(1);
        let mut total = vec![0.0; size];
        for part in parts.chunks(size.max(1)) {
            add(&mut total, part);
        }
        total
    };
    match &call.bias {
        BiasTensors::None => [None, None],
        BiasTensors::ByDistance(table) => {
            let distances = table.layout().shape()[1];
            let total = reversed_rows(&over_batch(&first), distances);
            [Some(tensor_of(total, [shape.heads, distances])), None]
        }
        BiasTensors::Slopes(_) => [Some(tensor_of(over_batch(&first), [shape.heads])), None],
        BiasTensors::Pair(..) => [
            Some(tensor_of(first, [shape.batch, shape.heads, shape.queries])),
            Some(tensor_of(second, [shape.batch, shape.heads, shape.keys])),
        ],
        BiasTensors::Block(block) => {
            let batch = block.layout().shape()[0];
            [Some(tensor_of(first, [batch, shape.heads, shape.queries, shape.keys])), None]
        }
    }
}
