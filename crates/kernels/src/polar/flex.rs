//! Channels as vectors in the plane on the CPU, row by row.

use crate::autodiff::View;
use crate::buffers::{GRAIN, computed, parts_of_all, zeros};
use crate::pieces::{note, up_to};
use crate::simd::{ln_1p_exp, sigmoid, vectorised};
use rayon::prelude::*;

/// As [`pieces`](crate::pieces) names calls.
const NAME: &str = "polar";

/// The numbers of one call.
pub(super) struct Numbers<'a> {
    pub(super) x: View<4>,
    pub(super) cos: &'a [f32],
    pub(super) sin: &'a [f32],
    /// Of x.
    pub(super) shape: [usize; 4],
    /// Of cos and sin.
    pub(super) table: [usize; 4],
}

/// Positions of a task that has those of all batch rows and heads: what these share is added in their order.
const POSITIONS: usize = 8;

impl Numbers<'_> {
    /// The batch row, head and position of a row of all.
    fn place(&self, row: usize) -> [usize; 3] {
        let [_, heads, length, _] = self.shape;
        [row / length / heads, row / length % heads, row % length]
    }

    /// Where the table of a batch row and head begins.
    fn table(&self, batch: usize, head: usize) -> usize {
        let [batches, heads, length, channels] = self.table;
        let [batch, head] =
            [(batch, batches), (head, heads)].map(|(index, count)| if count == 1 { 0 } else { index });
        (batch * heads + head) * length * channels
    }
}

/// What follows the start of a row.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn row_of(view: &View<4>, [batch, head, position]: [usize; 3]) -> &[f32] {
    let [of_batch, of_head, of_position, _] = view.strides();
    &view.data()[batch * of_batch + head * of_head + position * of_position..]
}

/// `[batch, heads, length, 2 channels]`.
pub(super) fn forward(numbers: &Numbers<'_>) -> Vec<f32> {
    let [batch, heads, length, channels] = numbers.shape;
    let rows = GRAIN.div_ceil(2 * channels);
    note(NAME, || up_to(rows, batch * heads * length));
    computed(batch * heads * length * 2 * channels, rows * 2 * channels, |task, out| {
        map_rows(numbers, task * rows, out);
    })
}

/// The gradient of x, from that of the output.
pub(super) fn backward(numbers: &Numbers<'_>, output: &View<4>) -> Vec<f32> {
    let [batch, heads, length, channels] = numbers.shape;
    let rows = GRAIN.div_ceil(channels);
    note(NAME, || up_to(rows, batch * heads * length));
    computed(batch * heads * length * channels, rows * channels, |task, out| {
        for (row, out) in out.chunks_exact_mut(channels).enumerate() {
            map_back(numbers, output, numbers.place(task * rows + row), out, None);
        }
    })
}

/// The gradients of x, cos and sin.
pub(super) fn backward_with_tables(numbers: &Numbers<'_>, output: &View<4>) -> [Vec<f32>; 3] {
    let [batch, heads, length, channels] = numbers.shape;
    let mut x = zeros(batch * heads * length * channels);
    let [mut cos, mut sin] = [(); 2].map(|()| zeros(numbers.table.iter().product()));
    {
        // Of `[any, length, channels]` each task has `[positions, channels]`.
        note(NAME, || up_to(POSITIONS, length));
        let of_tasks = |x| parts_of_all(x, length * channels, POSITIONS * channels);
        let tasks = of_tasks(&mut x).into_iter().zip(of_tasks(&mut cos)).zip(of_tasks(&mut sin)).enumerate();
        tasks.collect::<Vec<_>>().into_par_iter().for_each(|(task, ((mut x, mut cos), mut sin))| {
            for (index, x) in x.iter_mut().enumerate() {
                let (batch, head) = (index / heads, index % heads);
                let table = numbers.table(batch, head) / (length * channels);
                for (row, x) in x.chunks_exact_mut(channels).enumerate() {
                    let of_row = row * channels..(row + 1) * channels;
                    let tables = [&mut cos[table][of_row.clone()], &mut sin[table][of_row]];
                    map_back(numbers, output, [batch, head, task * POSITIONS + row], x, Some(tables));
                }
            }
        });
    }
    [x, cos, sin]
}

vectorised! {
    /// Rows from `first` of all on.
    fn map_rows(numbers: &Numbers<'_>, first: usize, out: &mut [f32]) {
        let channels = numbers.shape[3];
        for (row, out) in out.chunks_exact_mut(2 * channels).enumerate() {
            let place @ [batch, head, position] = numbers.place(first + row);
            let table = numbers.table(batch, head) + position * channels;
            let (cos, sin) = (&numbers.cos[table..][..channels], &numbers.sin[table..][..channels]);
            let x = &row_of(&numbers.x, place)[..channels];
            let (first, second) = out.split_at_mut(channels);
            let tables = cos.iter().zip(sin);
            for (((x, (cos, sin)), first), second) in x.iter().zip(tables).zip(first).zip(second) {
                let length = softplus(*x);
                *first = length * cos;
                *second = length * sin;
            }
        }
    }

    /// The gradient of one row; adds those of its cosines and sines.
    fn map_back(
        numbers: &Numbers<'_>,
        output: &View<4>,
        place: [usize; 3],
        out: &mut [f32],
        tables: Option<[&mut [f32]; 2]>,
    ) {
        let (channels, [batch, head, position]) = (out.len(), place);
        let table = numbers.table(batch, head) + position * channels;
        let (cos, sin) = (&numbers.cos[table..][..channels], &numbers.sin[table..][..channels]);
        let x = &row_of(&numbers.x, place)[..channels];
        let (first, second) = row_of(output, place)[..2 * channels].split_at(channels);
        if let Some([of_cos, of_sin]) = tables {
            let gradients = first.iter().zip(second);
            for (((x, (first, second)), of_cos), of_sin) in x.iter().zip(gradients).zip(of_cos).zip(of_sin) {
                let length = softplus(*x);
                *of_cos += length * first;
                *of_sin += length * second;
            }
        }
        let waves = cos.iter().zip(sin).zip(first.iter().zip(second));
        for ((out, x), ((cos, sin), (first, second))) in out.iter_mut().zip(x).zip(waves) {
            *out = sigmoid(*x) * (first * cos + second * sin);
        }
    }
}

/// `ln(1 + exp(x))`; its slope is the sigmoid of x.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn softplus(x: f32) -> f32 {
    let above = if x < 0.0 { 0.0 } else { x };
    above + ln_1p_exp(x)
}
