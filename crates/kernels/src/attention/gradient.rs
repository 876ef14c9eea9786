//! The gradient of fused attention: the probabilities are computed again, block by block.

use super::block::{Block, Keys, Operands, ROWS};
use super::call::{BiasTensors, BiasValues, Call, reversed_rows};
use super::keys::Transposed;
use super::{MOST_RANGES, Shape};
use crate::autodiff::{JointGradient, View, tensor_of, values};
use crate::buffers::zeros;
use crate::matmul::{Matrix, matmul};
use crate::simd::{LANES, dot, exp_in_place, sum, vectorised};
use burn_flex::FlexTensor;
use rayon::prelude::*;
use std::borrow::Cow;

/// What the gradient needs.
#[derive(Clone, Debug)]
pub(super) struct Saved {
    pub(super) call: Call,
    /// `[batch, heads, queries]`.
    pub(super) log_sums: FlexTensor,
}

/// From the gradients of the output and the log sums to those of q and k of each range, of v, and of up to two tensors of
/// the bias.
impl<const N: usize> JointGradient<N, 2> for Saved {
    fn gradients(
        self,
        [output, log_sums]: [Option<FlexTensor>; 2],
        wanted: [bool; N],
    ) -> [Option<FlexTensor>; N] {
        let Shape { batch, heads, queries, value_dim, .. } = self.call.shape;
        let output = output.unwrap_or_else(|| {
            tensor_of(zeros(batch * heads * queries * value_dim), [batch, heads, queries, value_dim])
        });
        let rows = Rows {
            log_sums: values(&self.log_sums),
            gradient: log_sums.as_ref().map(values),
            output: View::new(&output),
        };
        let bias = 2 * self.call.ranges.len() + 1;
        let mut all = backward(&self.call, &rows, wanted[bias..].contains(&true)).into_iter();
        wanted.map(|wanted| all.next().filter(|_| wanted))
    }
}

/// What the backward pass knows of the query rows.
struct Rows<'a> {
    /// The logs of the sums of exp(logits), `[batch, heads, queries]`.
    log_sums: Cow<'a, [f32]>,
    /// Their gradient, if they have one.
    gradient: Option<Cow<'a, [f32]>>,
    /// The gradient of the output, `[batch, heads, queries, value_dim]`.
    output: View<4>,
}

impl Rows<'_> {
    /// The gradient of a row's log sum, if the log sums have one.
    fn of_log_sum(&self, operands: &Operands<'_>, block: &Block, row: usize) -> Option<f32> {
        self.gradient.as_ref().map(|gradient| gradient[first_row(operands, block) + row])
    }
}

/// The sizes of a bias' gradient per batch row and head, in two parts.
fn bias_sizes(operands: &Operands<'_>) -> [usize; 2] {
    let shape = operands.shape;
    match &operands.bias {
        BiasValues::None => [0, 0],
        BiasValues::ByDistance { distances, .. } => [*distances, 0],
        BiasValues::Slopes(_) => [1, 0],
        BiasValues::Pair { .. } => [shape.queries, shape.keys],
        BiasValues::Block { .. } => [shape.queries * shape.keys, 0],
    }
}

/// The gradients that one batch row and one key head receive.
struct Task<'a> {
    batch: usize,
    key_head: usize,
    /// For each range of distances q `[group, queries, head_dim]`, the group being the query heads of the key head, and
    /// k `[keys, head_dim]`.
    qk: Vec<[&'a mut [f32]; 2]>,
    /// `[keys, value_dim]`.
    v: &'a mut [f32],
    /// `[group, ..]`, see [`bias_sizes`].
    bias: [&'a mut [f32]; 2],
}

/// The gradients of q and k of each range, of v, and of the bias' tensors.
fn backward(call: &Call, rows: &Rows<'_>, bias_wanted: bool) -> Vec<FlexTensor> {
    let operands = Operands::new(call);
    let shape = call.shape;
    let group = shape.heads / shape.key_heads;
    let [first_size, second_size] = if bias_wanted { bias_sizes(&operands) } else { [0, 0] };
    // A block that the batch shares is summed over the batch in place, one batch row after the other.
    let shared = matches!(operands.bias, BiasValues::Block { shared: true, .. });
    let bias_batch = if shared { 1 } else { shape.batch };

    let sizes = [group * shape.queries * shape.head_dim, shape.keys * shape.head_dim];
    let all_heads = shape.batch * shape.key_heads;
    let mut qk: Vec<_> = (0..operands.ranges()).map(|_| sizes.map(|size| zeros(all_heads * size))).collect();
    let mut v = zeros(shape.batch * shape.key_heads * shape.keys * shape.value_dim);
    let mut first = zeros(bias_batch * shape.heads * first_size);
    let mut second = zeros(bias_batch * shape.heads * second_size);
    let scratch = operands.scratch();
    let at_once = if shared { 1 } else { shape.batch };
    for batches in (0..shape.batch).step_by(at_once.max(1)) {
        let from = batches * shape.key_heads;
        let count = at_once * shape.key_heads;
        let bias_from = if shared { 0 } else { from };
        let mut qk: Vec<_> =
            qk.iter_mut().map(|[q, k]| [parts(q, sizes[0], from), parts(k, sizes[1], from)]).collect();
        let mut v = parts(&mut v, shape.keys * shape.value_dim, from);
        let mut first = parts(&mut first, group * first_size, bias_from);
        let mut second = parts(&mut second, group * second_size, bias_from);
        let tasks: Vec<Task<'_>> = (from..from + count)
            .map(|index| Task {
                batch: index / shape.key_heads,
                key_head: index % shape.key_heads,
                qk: qk.iter_mut().map(|qk| qk.each_mut().map(|part| part())).collect(),
                v: v(),
                bias: [first(), second()],
            })
            .collect();
        tasks.into_par_iter().for_each_init(
            || (vec![0.0; scratch], vec![0.0; scratch], Keys::default(), Transposed::default()),
            |(probabilities, gradient, keys, values), mut task| {
                let all = operands.all_rows(task.batch, task.key_head * group);
                operands.transpose_keys(&all, keys);
                operands.transpose_values(&all, values);
                for member in 0..group {
                    for first in (0..shape.queries).step_by(ROWS) {
                        let head = task.key_head * group + member;
                        let block = operands.block(task.batch, head, first);
                        if block.width == 0 {
                            continue;
                        }
                        probabilities_again(&operands, &block, keys, rows, probabilities);
                        through_softmax(&operands, &block, rows, values, probabilities, gradient, task.v);
                        let bias = task.bias.each_mut().map(|part| {
                            let size = part.len() / group;
                            &mut part[member * size..][..size]
                        });
                        if bias_wanted {
                            bias_gradient(&operands, &block, rows, probabilities, gradient, bias);
                        }
                        let row = (member * shape.queries + first) * shape.head_dim;
                        scale_rows(&operands, &block, gradient);
                        through_product(&operands, &block, gradient, row, &mut task.qk);
                    }
                }
            },
        );
    }
    let Shape { batch, heads, key_heads, queries, keys, head_dim, value_dim } = shape;
    let mut gradients = Vec::new();
    for [q, k] in qk {
        gradients.push(tensor_of(q, [batch, heads, queries, head_dim]));
        gradients.push(tensor_of(k, [batch, key_heads, keys, head_dim]));
    }
    gradients.push(tensor_of(v, [batch, key_heads, keys, value_dim]));
    if bias_wanted {
        gradients.extend(bias_tensors(call, first, second));
    }
    gradients
}

/// Hands out part after part of `size` values, from part `from`; sizes may be 0.
fn parts<'a>(values: &'a mut [f32], size: usize, from: usize) -> impl FnMut() -> &'a mut [f32] {
    let mut rest = &mut values[from * size..];
    move || {
        let (part, after) = std::mem::take(&mut rest).split_at_mut(size);
        rest = after;
        part
    }
}

/// Where the rows of a block begin among those of all heads.
fn first_row(operands: &Operands<'_>, block: &Block) -> usize {
    (block.batch * operands.shape.heads + block.head) * operands.shape.queries + block.first
}

/// The block's probabilities, zero where hidden.
fn probabilities_again(
    operands: &Operands<'_>,
    block: &Block,
    keys: &Keys,
    rows: &Rows<'_>,
    out: &mut [f32],
) {
    operands.logits(block, keys, out);
    normalise(operands, block, &rows.log_sums[first_row(operands, block)..], out);
}

vectorised! {
    /// exp(logit - log sum) row by row.
    fn normalise(operands: &Operands<'_>, block: &Block, log_sums: &[f32], logits: &mut [f32]) {
        for row in 0..block.rows {
            let logits = &mut logits[row * block.stride..][..block.stride];
            let end = operands.row_end(block, row).next_multiple_of(LANES);
            let (seen, rest) = logits.split_at_mut(end);
            exp_in_place(seen, log_sums[row]);
            rest.fill(0.0);
        }
    }

    /// With P the probabilities, dP their gradient and dL that of the row's log sum: dP becomes
    /// P (dP - sum of P dP + dL).
    fn softmax_gradient(
        operands: &Operands<'_>,
        block: &Block,
        probabilities: &[f32],
        rows: &Rows<'_>,
        gradient: &mut [f32],
    ) {
        for row in 0..block.rows {
            let end = operands.row_end(block, row);
            let p = &probabilities[row * block.stride..][..end];
            let (d, rest) = gradient[row * block.stride..][..block.stride].split_at_mut(end);
            let mean = dot(p, d) - rows.of_log_sum(operands, block, row).unwrap_or(0.0);
            for (d, p) in d.iter_mut().zip(p) {
                *d = p * (*d - mean);
            }
            rest.fill(0.0);
        }
    }

    /// `to += from`, element by element.
    fn add(to: &mut [f32], from: &[f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to += from;
        }
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

/// The gradient of the block's logits, into `gradient`; adds to that of the values.
fn through_softmax(
    operands: &Operands<'_>,
    block: &Block,
    rows: &Rows<'_>,
    values: &Transposed,
    probabilities: &mut [f32],
    gradient: &mut [f32],
    v: &mut [f32],
) {
    let value_dim = operands.shape.value_dim;
    let output = Operands::rows_of(&rows.output, block, value_dim);
    for segment in block.seen_once() {
        matmul(&mut gradient[segment.at..], block.stride, false, 1.0, output, values.of(&segment));
    }
    block.scatter(gradient);
    softmax_gradient(operands, block, probabilities, rows, gradient);
    block.gather(probabilities);
    for segment in block.seen_once() {
        let p = Matrix::new(&probabilities[segment.at..], block.rows, segment.len(), block.stride);
        matmul(&mut v[segment.start * value_dim..], value_dim, true, 1.0, p.transposed(), output);
    }
}

/// From the gradient of the logits to that of q·k: multiplies rows by their factors, if they have any.
fn scale_rows(operands: &Operands<'_>, block: &Block, gradient: &mut [f32]) {
    for row in 0..block.rows {
        if let Some(factor) = operands.row_factor(block, row) {
            for x in &mut gradient[row * block.stride..][..block.width] {
                *x *= factor;
            }
        }
    }
}

/// From the gradient of the scores: sets that of the block's queries, from `row` on, and adds to that of the keys.
fn through_product(
    operands: &Operands<'_>,
    block: &Block,
    gradient: &[f32],
    row: usize,
    qk: &mut [[&mut [f32]; 2]],
) {
    let dim = operands.shape.head_dim;
    let mut begun = [false; MOST_RANGES];
    for segment in block.seen() {
        let [q, k] = &mut qk[segment.range];
        let add = std::mem::replace(&mut begun[segment.range], true);
        let d = Matrix::new(&gradient[segment.at..], block.rows, segment.len(), block.stride);
        matmul(&mut q[row..], dim, add, operands.scale, d, operands.key_matrix(block, segment));
        let queries = operands.query_matrix(block, segment);
        matmul(&mut k[segment.start * dim..], dim, true, operands.scale, d.transposed(), queries);
    }
}

/// Adds the block's part of the bias' gradient, for one head.
fn bias_gradient(
    operands: &Operands<'_>,
    block: &Block,
    rows: &Rows<'_>,
    probabilities: &[f32],
    gradient: &[f32],
    [first, second]: [&mut [f32]; 2],
) {
    let keys = operands.shape.keys;
    for row in 0..block.rows {
        let start = row * block.stride;
        let position = operands.position(block, row);
        // The gradients of a row's logits sum to that of its log sum, but for rounding errors, which distances enlarge.
        let mut excess = rows.of_log_sum(operands, block, row).map(|gradient| -gradient);
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
                        first[block.first + row] += sum(gradient);
                        subtract(&mut second[run.clone()], gradient);
                    }
                    BiasValues::Block { .. } => {
                        let from = (block.first + row) * keys + run.start;
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
fn bias_tensors(call: &Call, first: Vec<f32>, second: Vec<f32>) -> Vec<FlexTensor> {
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
        BiasTensors::None => Vec::new(),
        BiasTensors::ByDistance(table) => {
            let distances = table.layout().shape()[1];
            let total = reversed_rows(&over_batch(&first), distances);
            vec![tensor_of(total, [shape.heads, distances])]
        }
        BiasTensors::Slopes(_) => vec![tensor_of(over_batch(&first), [shape.heads])],
        BiasTensors::Pair(..) => vec![
            tensor_of(first, [shape.batch, shape.heads, shape.queries]),
            tensor_of(second, [shape.batch, shape.heads, shape.keys]),
        ],
        BiasTensors::Block(block) => {
            vec![tensor_of(first, [block.layout().shape()[0], shape.heads, shape.queries, shape.keys])]
        }
    }
}
