//! Channels as vectors in the plane, whose lengths the content sets and whose angles are given (`PoPE`).
//!
//! With `l = softplus(x) = ln(1 + exp(x))` of each channel, the result is `[l cos | l sin]` (Gopalakrishnan et al. 2025,
//! arXiv:2509.10534, section 3). Heads may have angles of their own, and so may batch rows.
//!
//! With g and h the gradients of both halves, `dx = sigmoid(x) (g cos + h sin)`, `dcos = l g` and `dsin = l h`, the latter
//! summed over the rows that share an angle.
//!
//! **Fused:** all of it. Plain operations write the lengths and each product before they are joined, and some ten tensors of the
//! size of x in the backward pass.
//!
//! **Kept for the backward pass:** x, and the tables of cos and sin.
//!
//! **Bytes:** for n channels at least `12 n` forward (x in, twice as many numbers out) and `16 n` backward. The tables add theirs
//! once for each batch row that has its own.

use crate::machine::autodiff::{View, tensor_of, values};
use crate::machine::buffers::{GRAIN, computed, parts_of_all, zeros};
use crate::machine::simd::{ln_1p_exp, sigmoid, vectorised};
use crate::op::prelude::*;
use burn::tensor::{Tensor, activation::softplus as plain_softplus};
use rayon::prelude::*;
use std::borrow::Cow;

/// x `[batch, heads, length, channels]`, cos and sin `[1 or batch, 1 or heads, length, channels]` ->
/// `[batch, heads, length, 2 channels]`.
///
/// # Panics
/// The shapes do not agree.
pub fn polar(x: Tensor<4>, cos: Tensor<4>, sin: Tensor<4>) -> Tensor<4> {
    let shape @ [batch, heads, length, channels] = x.dims();
    let table @ [table_batch, table_heads, ..] = cos.dims();
    assert!(
        sin.dims() == table
            && (table_batch == 1 || table_batch == batch)
            && (table_heads == 1 || table_heads == heads)
            && table[2..] == [length, channels],
        "polar: cos {table:?} and sin {:?} for {shape:?}",
        sin.dims()
    );
    let [y] = run(Polar, [x.into(), cos.into(), sin.into()]);
    y.tensor()
}

fn plain(x: Tensor<4>, cos: Tensor<4>, sin: Tensor<4>) -> Tensor<4> {
    let length = plain_softplus(x, 1.0);
    Tensor::cat(vec![length.clone() * cos, length * sin], 3)
}

#[derive(Clone)]
struct Polar;

impl Op<3> for Polar {
    const NAME: &'static str = "polar";

    fn reference(self, [x, cos, sin]: [Any; 3]) -> [Any; 1] {
        [plain(x.tensor(), cos.tensor(), sin.tensor()).into()]
    }

    fn cpu(self, inputs: [FlexTensor; 3], _: [bool; 3]) -> ([FlexTensor; 1], impl Gradient<Flex, 3>) {
        let [batch, heads, length, channels] = inputs[0].layout().shape().dims();
        let y = forward(&Numbers::new(&inputs));
        let gradient = move |[output]: [Option<FlexTensor>; 1], wanted: [bool; 3]| {
            let numbers = Numbers::new(&inputs);
            let (shape, table) = (numbers.shape, numbers.table);
            let output = View::new(output.as_ref().expect("the output has a gradient"));
            if !wanted[1] && !wanted[2] {
                return [Some(tensor_of(backward(&numbers, &output), shape)), None, None];
            }
            let [x, cos, sin] = backward_with_tables(&numbers, &output);
            [tensor_of(x, shape), tensor_of(cos, table), tensor_of(sin, table)].map(Some)
        };
        ([tensor_of(y, [batch, heads, length, 2 * channels])], gradient)
    }
}

struct Numbers<'a> {
    x: View<4>,
    cos: Cow<'a, [f32]>,
    sin: Cow<'a, [f32]>,
    /// Of x.
    shape: [usize; 4],
    /// Of cos and sin.
    table: [usize; 4],
}

/// Positions of a task that has those of all batch rows and heads: what these share is added in their order.
const POSITIONS: usize = 8;

impl<'a> Numbers<'a> {
    /// Of x, cos and sin.
    fn new([x, cos, sin]: &'a [FlexTensor; 3]) -> Self {
        let [shape, table] = [x, cos].map(|tensor| tensor.layout().shape().dims());
        Self { x: View::new(x), cos: values(cos), sin: values(sin), shape, table }
    }

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
fn row_of(view: &View<4>, [batch, head, position]: [usize; 3]) -> &[f32] {
    let [of_batch, of_head, of_position, _] = view.strides();
    &view.data()[batch * of_batch + head * of_head + position * of_position..]
}

/// `[batch, heads, length, 2 channels]`.
fn forward(numbers: &Numbers<'_>) -> Vec<f32> {
    let [batch, heads, length, channels] = numbers.shape;
    let rows = GRAIN.div_ceil(2 * channels);
    computed(batch * heads * length * 2 * channels, rows * 2 * channels, |task, out| {
        map_rows(numbers, task * rows, out);
    })
}

/// The gradient of x, from that of the output.
fn backward(numbers: &Numbers<'_>, output: &View<4>) -> Vec<f32> {
    let [batch, heads, length, channels] = numbers.shape;
    let rows = GRAIN.div_ceil(channels);
    computed(batch * heads * length * channels, rows * channels, |task, out| {
        for (row, out) in out.chunks_exact_mut(channels).enumerate() {
            map_back(numbers, output, numbers.place(task * rows + row), out, None);
        }
    })
}

/// The gradients of x, cos and sin.
fn backward_with_tables(numbers: &Numbers<'_>, output: &View<4>) -> [Vec<f32>; 3] {
    let [batch, heads, length, channels] = numbers.shape;
    let mut x = zeros(batch * heads * length * channels);
    let [mut cos, mut sin] = [(); 2].map(|()| zeros(numbers.table.iter().product()));
    {
        // Of `[any, length, channels]` each task has `[positions, channels]`.
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
fn softplus(x: f32) -> f32 {
    let above = if x < 0.0 { 0.0 } else { x };
    above + ln_1p_exp(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_fused_on, assert_threads_change_no_bit, list, numbers};
    use burn::tensor::Device;

    /// x, and the batch rows and heads of the tables.
    type Case = ([usize; 4], [usize; 2]);

    const CASES: [Case; 6] = [
        ([1, 1, 1, 1], [1, 1]),
        ([3, 4, 21, 10], [1, 1]),
        ([3, 4, 21, 10], [1, 4]),
        ([3, 2, 9, 32], [3, 1]),
        ([2, 3, 50, 17], [2, 3]),
        ([1, 5, 7, 40], [1, 5]),
    ];

    fn inputs(([batch, heads, length, channels], [table_batch, table_heads]): Case) -> Vec<Vec<f32>> {
        let table = table_batch * table_heads * length * channels;
        let sizes = [batch * heads * length * channels, table, table];
        sizes.into_iter().zip(1..).map(|(size, seed)| numbers(seed, size)).collect()
    }

    /// Heads and rows of x swapped, so that they do not lie contiguously.
    fn call(case: Case, inputs: &[Tensor<1>]) -> Tensor<4> {
        let ([batch, heads, length, channels], [table_batch, table_heads]) = case;
        let x = inputs[0].clone().mul_scalar(4.0).reshape([batch, length, heads, channels]).swap_dims(1, 2);
        let table =
            |index: usize| inputs[index].clone().reshape([table_batch, table_heads, length, channels]);
        polar(x, table(1), table(2))
    }

    #[test]
    fn agrees_with_the_reference() {
        for case in CASES {
            let what = format!("polar {case:?}");
            assert_fused_on(&Device::flex(), &what, &inputs(case), |inputs| call(case, inputs));
        }
    }

    /// The definition, in f64.
    #[test]
    fn lengths_of_large_and_small_channels_are_right() {
        let x = [-200.0_f32, -87.0, -20.0, -1e-6, 0.0, 0.5, 20.0, 3e4];
        let of = |values: &[f32]| {
            Tensor::<1>::from_floats(values, &Device::flex()).reshape([1, 1, 1, values.len()])
        };
        let out = list(polar(of(&x), of(&[1.0; 8]), of(&[0.5; 8])));
        for (n, x) in x.iter().enumerate() {
            let x = f64::from(*x);
            let expected = x.max(0.0) + (-x.abs()).exp().ln_1p();
            for (found, expected) in [(out[n], expected), (out[8 + n], 0.5 * expected)] {
                assert!(
                    (f64::from(found) - expected).abs() <= 3e-7 * expected + 1e-37,
                    "{x}: {found} for {expected}"
                );
            }
        }
    }

    #[test]
    fn threads_change_no_bit() {
        for case in CASES {
            assert_threads_change_no_bit("polar", &inputs(case), |inputs| call(case, inputs));
        }
    }

    #[test]
    #[should_panic(expected = "polar: cos")]
    fn tables_of_other_heads_are_rejected() {
        let of = |heads| Tensor::<4>::zeros([1, heads, 3, 4], &Device::flex());
        let _ = polar(of(4), of(2), of(2));
    }
}
