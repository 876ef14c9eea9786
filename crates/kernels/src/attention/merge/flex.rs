//! The merge on the CPU, row by row. Outputs are laid out as `[batch, queries, heads, ..]`, like those of attention.

use crate::autodiff::{View, permuted_tensor_of, values};
use crate::buffers::{GRAIN, computed};
use crate::simd::{dot, exp};
use burn_flex::FlexTensor;
use std::borrow::Cow;

/// The outputs `[batch, heads, queries, value_dim]` and log sums `[batch, heads, queries]` of two parts.
pub(super) struct Parts<'a> {
    outputs: [View<4>; 2],
    log_sums: [Cow<'a, [f32]>; 2],
    shape: [usize; 4],
}

impl<'a> Parts<'a> {
    pub(super) fn new(outputs: [&FlexTensor; 2], log_sums: [&'a FlexTensor; 2]) -> Self {
        let shape = outputs[0].layout().shape().dims();
        Self { outputs: outputs.map(View::new), log_sums: log_sums.map(values), shape }
    }

    /// The weights of both parts in row `index` of `[batch, queries, heads]`, and the log sum of the whole.
    fn weights(&self, index: usize) -> ([f32; 2], f32) {
        let [_, heads, queries, _] = self.shape;
        let (row, head) = (index / heads, index % heads);
        let at = (row / queries * heads + head) * queries + row % queries;
        let [a, b] = [self.log_sums[0][at], self.log_sums[1][at]];
        let largest = a.max(b);
        let [a, b] = [exp(a - largest), exp(b - largest)];
        ([a / (a + b), b / (a + b)], largest + (a + b).ln())
    }

    /// Row `index` of `[batch, queries, heads]` in a view shaped as the outputs.
    fn row<'v>(&self, view: &'v View<4>, index: usize) -> &'v [f32] {
        let [_, heads, queries, width] = self.shape;
        let (row, head) = (index / heads, index % heads);
        let strides = view.strides();
        &view.data()[row / queries * strides[0] + head * strides[1] + row % queries * strides[2]..][..width]
    }

    /// A tensor shaped as the outputs, whose rows are filled by number.
    fn rows(&self, fill: impl Fn(usize, &mut [f32]) + Sync) -> FlexTensor {
        let [batch, heads, queries, width] = self.shape;
        let each = GRAIN.div_ceil(width);
        let filled = computed(batch * queries * heads * width, each * width, |chunk, out| {
            for (row, out) in out.chunks_exact_mut(width).enumerate() {
                fill(chunk * each + row, out);
            }
        });
        permuted_tensor_of(filled, [batch, queries, heads, width], [0, 2, 1, 3])
    }

    /// A tensor of zeros, shaped as the outputs.
    pub(super) fn zeros(&self) -> FlexTensor {
        self.rows(|_, _| ())
    }

    /// A tensor shaped as the log sums, of what is computed for each row.
    fn numbers(&self, compute: impl Fn(usize) -> f32 + Sync) -> FlexTensor {
        let [batch, heads, queries, _] = self.shape;
        let computed = computed(batch * queries * heads, GRAIN, |chunk, out| {
            for (row, out) in out.iter_mut().enumerate() {
                *out = compute(chunk * GRAIN + row);
            }
        });
        permuted_tensor_of(computed, [batch, queries, heads], [0, 2, 1])
    }
}

/// The output and the log sums of both parts together.
pub(super) fn forward(parts: &Parts<'_>) -> [FlexTensor; 2] {
    let [a, b] = &parts.outputs;
    let output = parts.rows(|index, out| {
        let ([a_weight, b_weight], _) = parts.weights(index);
        for ((out, a), b) in out.iter_mut().zip(parts.row(a, index)).zip(parts.row(b, index)) {
            *out = a_weight * a + b_weight * b;
        }
    });
    [output, parts.numbers(|index| parts.weights(index).1)]
}

/// The gradients of both outputs, from that of the merged one: it times the weights.
pub(super) fn outputs_gradients(parts: &Parts<'_>, output: &View<4>) -> [FlexTensor; 2] {
    [0, 1].map(|part| {
        parts.rows(|index, out| {
            let weight = parts.weights(index).0[part];
            for (out, gradient) in out.iter_mut().zip(parts.row(output, index)) {
                *out = weight * gradient;
            }
        })
    })
}

/// The gradients of both log sums, from those of the merged output and log sums.
///
/// With g and h these gradients, that of `l_a` is `w_a w_b g (o_a - o_b) + w_a h`.
pub(super) fn log_sums_gradients(
    parts: &Parts<'_>,
    output: &View<4>,
    log_sums: Option<&FlexTensor>,
) -> [FlexTensor; 2] {
    let log_sums = log_sums.map(View::<3>::new);
    let [_, heads, queries, _] = parts.shape;
    [0, 1].map(|part| {
        parts.numbers(|index| {
            let (weights, _) = parts.weights(index);
            let [own, other] = [part, 1 - part].map(|part| &parts.outputs[part]);
            let gradient = parts.row(output, index);
            let difference = dot(gradient, parts.row(own, index)) - dot(gradient, parts.row(other, index));
            let through_log_sums = log_sums.as_ref().map_or(0.0, |view| {
                let (row, head, strides) = (index / heads, index % heads, view.strides());
                view.data()[row / queries * strides[0] + head * strides[1] + row % queries * strides[2]]
            });
            weights[part] * (weights[1 - part] * difference + through_log_sums)
        })
    })
}
