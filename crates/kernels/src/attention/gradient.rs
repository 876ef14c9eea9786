//! The gradient of fused attention: the probabilities are computed again, block by block.

use super::bias::{bias_gradient, bias_sizes, bias_tensors};
use super::block::{Block, Keys, Operands, ROWS};
use super::call::{BiasValues, Call};
use super::counted::{self, Counts};
use super::keys::Transposed;
use super::logits::fill_logits;
use super::relative::{self, KeyTables, Part, Scratch};
use super::{MOST_RANGES, Shape};
use crate::autodiff::{JointGradient, View, tensor_of, values};
use crate::buffers::zeros;
use crate::matmul::{Matrix, matmul};
use crate::simd::{LANES, dot, exp_in_place, vectorised};
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

/// From the gradients of the output and the log sums to those of q and k of each range, of v, of up to two tensors of the
/// bias, and of the vectors by distance.
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
        let bias = bias..bias + self.call.bias.count();
        let mut all = backward(&self.call, &rows, wanted[bias].contains(&true)).into_iter();
        wanted.map(|wanted| all.next().flatten().filter(|_| wanted))
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
    /// The gradient of the log sums of a block's rows, if the log sums have one.
    fn of_log_sums(&self, operands: &Operands<'_>, block: &Block) -> Option<&[f32]> {
        self.gradient.as_ref().map(|gradient| &gradient[first_row(operands, block)..][..block.rows])
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
    relative: Part<'a>,
    /// Of the vectors by count.
    counted: &'a mut [f32],
}

/// The buffers of one thread.
struct Buffers {
    probabilities: Vec<f32>,
    gradient: Vec<f32>,
    keys: Keys,
    values: Transposed,
    tables: KeyTables,
    scratch: Scratch,
    counts: Counts,
}

impl Buffers {
    /// With logits of up to `scratch` numbers.
    fn new(scratch: usize) -> Self {
        Self {
            probabilities: vec![0.0; scratch],
            gradient: vec![0.0; scratch],
            keys: Keys::default(),
            values: Transposed::default(),
            tables: KeyTables::default(),
            scratch: Scratch::default(),
            counts: Counts::default(),
        }
    }
}

/// The gradients of q and k of each range, of v, of the bias' tensors if they are wanted, of the vectors by distance and of those by count.
fn backward(call: &Call, rows: &Rows<'_>, bias_wanted: bool) -> Vec<Option<FlexTensor>> {
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
    let mut relative = relative::Gradient::zeros(&operands);
    let mut counted = counted::Gradient::zeros(&operands);
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
        let relative = relative.parts(&operands, from);
        let (counted, counted_size) = counted.parts();
        let mut counted = parts(counted, counted_size, from);
        let tasks: Vec<Task<'_>> = (from..from + count)
            .zip(relative)
            .map(|(index, relative)| Task {
                batch: index / shape.key_heads,
                key_head: index % shape.key_heads,
                qk: qk.iter_mut().map(|qk| qk.each_mut().map(|part| part())).collect(),
                v: v(),
                bias: [first(), second()],
                relative,
                counted: counted(),
            })
            .collect();
        tasks.into_par_iter().for_each_init(
            || Buffers::new(scratch),
            |buffers, task| task.run(&operands, rows, bias_wanted, buffers),
        );
    }
    let Shape { batch, heads, key_heads, queries, keys, head_dim, value_dim } = shape;
    let mut gradients = Vec::new();
    for [q, k] in qk {
        gradients.push(Some(tensor_of(q, [batch, heads, queries, head_dim])));
        gradients.push(Some(tensor_of(k, [batch, key_heads, keys, head_dim])));
    }
    gradients.push(Some(tensor_of(v, [batch, key_heads, keys, value_dim])));
    if bias_wanted {
        gradients.extend(bias_tensors(call, first, second).into_iter().map(Some));
    } else {
        gradients.extend((0..call.bias.count()).map(|_| None));
    }
    gradients.extend(relative.tensors(&operands).into_iter().map(Some));
    gradients.extend(counted.tensor(&operands).map(Some));
    gradients
}

impl Task<'_> {
    fn run(mut self, operands: &Operands<'_>, rows: &Rows<'_>, bias_wanted: bool, buffers: &mut Buffers) {
        let Shape { heads, key_heads, queries, head_dim, .. } = operands.shape;
        let group = heads / key_heads;
        let Buffers { probabilities, gradient, keys, values, tables, scratch, counts } = buffers;
        let all = operands.all_rows(self.batch, self.key_head * group);
        operands.transpose_keys(&all, keys);
        operands.transpose_values(&all, values);
        for member in 0..group {
            let head = self.key_head * group + member;
            let all = operands.all_rows(self.batch, head);
            tables.begin(operands, &all);
            for first in (0..queries).step_by(ROWS) {
                let block = operands.block(self.batch, head, first);
                if block.width == 0 {
                    continue;
                }
                fill_logits(operands, &block, keys, &tables.products, scratch, counts, probabilities);
                normalise(operands, &block, &rows.log_sums[first_row(operands, &block)..], probabilities);
                let output = Operands::rows_of(&rows.output, &block, operands.shape.value_dim);
                self.relative.add_values(operands, &block, probabilities, output, scratch);
                through_softmax(
                    operands,
                    &block,
                    rows,
                    values,
                    scratch,
                    [&mut *probabilities, &mut *gradient, &mut *self.v],
                );
                let bias = self.bias.each_mut().map(|part| {
                    let size = part.len() / group;
                    &mut part[member * size..][..size]
                });
                if bias_wanted {
                    let of_log_sums = rows.of_log_sums(operands, &block);
                    bias_gradient(operands, &block, of_log_sums, probabilities, gradient, bias);
                }
                tables.collect(operands, &block, gradient);
                let row = (member * queries + first) * head_dim;
                scale_rows(operands, &block, gradient);
                counted::through_counts(operands, &block, counts, gradient);
                through_product(operands, &block, gradient, row, &mut self.qk);
                let queries = &mut self.qk[0][0][row..];
                self.relative.add_keys(operands, &block, gradient, scratch, queries);
                counted::through_products(operands, &block, counts, queries, &mut *self.counted);
            }
            self.relative.add_queries(operands, &all, tables, &mut *self.qk[0][1]);
        }
    }
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
            let mean = dot(p, d) - rows.of_log_sums(operands, block).map_or(0.0, |gradient| gradient[row]);
            for (d, p) in d.iter_mut().zip(p) {
                *d = p * (*d - mean);
            }
            rest.fill(0.0);
        }
    }
}

/// The gradient of the block's logits, into `gradient`; adds to that of the values.
fn through_softmax(
    operands: &Operands<'_>,
    block: &Block,
    rows: &Rows<'_>,
    values: &Transposed,
    scratch: &mut Scratch,
    [probabilities, gradient, v]: [&mut [f32]; 3],
) {
    let value_dim = operands.shape.value_dim;
    let output = Operands::rows_of(&rows.output, block, value_dim);
    for segment in block.seen_once() {
        matmul(&mut gradient[segment.at..], block.stride, false, 1.0, output, values.of(&segment));
    }
    block.scatter(gradient);
    relative::through_values(operands, block, output, scratch, gradient);
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
