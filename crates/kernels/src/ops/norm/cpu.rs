//! The normalisations on the CPU, row by row; they differ in the mean and the scale of a row.

use super::{Norm, RowNorm};
use crate::machine::autodiff::{tensor_of, values};
use crate::machine::buffers::written_beside;
use crate::machine::simd::{LANES, add, sum, vectorised};
use burn_flex::FlexTensor;
use rayon::prelude::*;
use std::mem::MaybeUninit;

/// Rows per task. Sums over rows are taken within a task and then over the tasks in their order, so
/// this number, and not the number of threads, decides how they round.
const ROWS: usize = 64;

impl Norm {
    fn is_centred(self) -> bool {
        self.kind == RowNorm::Layer
    }

    /// One over what a row is divided by, from the sum of its squares.
    fn inverse(self, squares: f32) -> f32 {
        match self.kind {
            RowNorm::Rms | RowNorm::Layer => 1.0 / (squares / self.width as f32 + self.eps as f32).sqrt(),
            RowNorm::Unit => 1.0 / squares.sqrt().max(self.eps as f32),
        }
    }

    /// How much of y the divisor takes out of a row's gradient, from `sum(h y)`.
    fn along(self, sum: f32, inverse: f32) -> f32 {
        match self.kind {
            RowNorm::Rms | RowNorm::Layer => sum / self.width as f32,
            RowNorm::Unit if inverse < 1.0 / self.eps as f32 => sum,
            // It is eps, whatever the row.
            RowNorm::Unit => 0.0,
        }
    }
}

/// The mean (0 where it is not taken away) and the inverse scale of a row.
pub(super) type Stats = [f32; 2];

/// The output, and each row's mean and inverse scale.
pub(super) fn forward(norm: Norm, x: &[f32], gain: &[f32], bias: Option<&[f32]>) -> (Vec<f32>, Vec<Stats>) {
    let mut stats = vec![[0.0; 2]; x.len() / norm.width];
    let chunk = ROWS * norm.width;
    let out = written_beside(x.len(), chunk, stats.par_chunks_mut(ROWS), |task, out, stats| {
        normalise(norm, &x[task * chunk..], gain, bias, out, stats);
    });
    (out, stats)
}

#[derive(Clone)]
pub(super) struct Kept {
    pub(super) norm: Norm,
    /// Rows of the width.
    pub(super) x: FlexTensor,
    pub(super) gain: Vec<f32>,
    pub(super) stats: Vec<Stats>,
}

impl Kept {
    /// The gradients of x, the gain and the bias; x also receives that of the residual stream.
    pub(super) fn gradients(&self, output: &FlexTensor, residual: Option<&FlexTensor>) -> [FlexTensor; 3] {
        let Self { norm, x, gain, stats } = self;
        let residual = residual.map(values);
        let [of_x, gain, bias] =
            backward(*norm, &values(x), gain, stats, &values(output), residual.as_deref());
        let [gain, bias] = [gain, bias].map(|sums| tensor_of(sums, [norm.width]));
        [tensor_of(of_x, x.layout().shape().clone()), gain, bias]
    }
}

/// The gradients of x, the gain and the bias; x also receives `residual`.
fn backward(
    norm: Norm,
    x: &[f32],
    gain: &[f32],
    stats: &[Stats],
    gradient: &[f32],
    residual: Option<&[f32]>,
) -> [Vec<f32>; 3] {
    let mut partial = vec![0.0; stats.len().div_ceil(ROWS) * 2 * norm.width];
    let chunk = ROWS * norm.width;
    let sums = partial.par_chunks_mut(2 * norm.width);
    let out = written_beside(x.len(), chunk, sums, |task, out, sums| {
        let (from, to) = (task * chunk, task * chunk + out.len());
        let (gain_sum, bias_sum) = sums.split_at_mut(norm.width);
        let residual = residual.map(|residual| &residual[from..to]);
        let rows = [&x[from..to], &gradient[from..to]];
        rows_backward(norm, rows, gain, &stats[task * ROWS..], residual, out, gain_sum, bias_sum);
    });
    let mut total = vec![0.0; 2 * norm.width];
    for partial in partial.chunks(2 * norm.width) {
        add(&mut total, partial);
    }
    let bias = total.split_off(norm.width);
    [out, total, bias]
}

vectorised! {
    fn normalise(
        norm: Norm,
        x: &[f32],
        gain: &[f32],
        bias: Option<&[f32]>,
        out: &mut [MaybeUninit<f32>],
        stats: &mut [Stats],
    ) {
        let count = norm.width as f32;
        let rows = x.chunks_exact(norm.width).zip(out.chunks_exact_mut(norm.width));
        for ((x, out), stats) in rows.zip(stats) {
            let mean = if norm.is_centred() { sum(x) / count } else { 0.0 };
            let inverse = norm.inverse(squares(x, mean));
            *stats = [mean, inverse];
            let scaled = x.iter().zip(gain).map(|(x, gain)| (x - mean) * inverse * gain);
            match bias {
                None => out.iter_mut().zip(scaled).for_each(|(out, x)| {
                    out.write(x);
                }),
                Some(bias) => out.iter_mut().zip(scaled.zip(bias)).for_each(|(out, (x, bias))| {
                    out.write(x + bias);
                }),
            }
        }
    }

    /// With y = (x - mean) / scale and h = gain * gradient, x receives
    /// `(h - y mean(h y) - mean(h)) / scale`; the last mean only if centred, and for a unit length
    /// `(h - y sum(h y)) / scale`.
    fn rows_backward(
        norm: Norm,
        rows: [&[f32]; 2],
        gain: &[f32],
        stats: &[Stats],
        residual: Option<&[f32]>,
        out: &mut [MaybeUninit<f32>],
        gain_sum: &mut [f32],
        bias_sum: &mut [f32],
    ) {
        let count = norm.width as f32;
        let mut residual = residual.map(|residual| residual.chunks_exact(norm.width));
        let [x, gradient] = rows.map(|rows| rows.chunks_exact(norm.width));
        for ((x, gradient), (out, [mean, inverse])) in
            x.zip(gradient).zip(out.chunks_exact_mut(norm.width).zip(stats))
        {
            let [along, level] = projections(x, gradient, gain, *mean);
            let along = norm.along(along * inverse, *inverse);
            let level = if norm.is_centred() { level / count } else { 0.0 };
            let slopes = x.iter().zip(gradient.iter().zip(gain)).map(|(x, (gradient, gain))| {
                let y = (x - mean) * inverse;
                (gain * gradient - y * along - level) * inverse
            });
            match residual.as_mut().and_then(Iterator::next) {
                None => out.iter_mut().zip(slopes).for_each(|(out, x)| {
                    out.write(x);
                }),
                Some(residual) => out.iter_mut().zip(slopes.zip(residual)).for_each(|(out, (x, residual))| {
                    out.write(x + residual);
                }),
            }
            for ((total, x), gradient) in gain_sum.iter_mut().zip(x).zip(gradient) {
                *total += (x - mean) * inverse * gradient;
            }
            add(bias_sum, gradient);
        }
    }
}

/// The sum of `(x - mean)²`.
#[inline(always)]
fn squares(x: &[f32], mean: f32) -> f32 {
    let (chunks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [0.0_f32; LANES];
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += (x - mean) * (x - mean);
        }
    }
    let mut total = sum(&lanes);
    for x in rest {
        total += (x - mean) * (x - mean);
    }
    total
}

/// The sums of `gain * gradient * (x - mean)` and of `gain * gradient`.
#[inline(always)]
fn projections(x: &[f32], gradient: &[f32], gain: &[f32], mean: f32) -> [f32; 2] {
    let (x, x_rest) = x.as_chunks::<LANES>();
    let (gradient, gradient_rest) = gradient.as_chunks::<LANES>();
    let (gain, gain_rest) = gain.as_chunks::<LANES>();
    let (mut along, mut level) = ([0.0_f32; LANES], [0.0_f32; LANES]);
    for ((x, gradient), gain) in x.iter().zip(gradient).zip(gain) {
        for lane in 0..LANES {
            let h = gain[lane] * gradient[lane];
            along[lane] += h * (x[lane] - mean);
            level[lane] += h;
        }
    }
    let [mut along, mut level] = [sum(&along), sum(&level)];
    for ((x, gradient), gain) in x_rest.iter().zip(gradient_rest).zip(gain_rest) {
        along += gain * gradient * (x - mean);
        level += gain * gradient;
    }
    [along, level]
}
