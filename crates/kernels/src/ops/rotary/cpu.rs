//! Splitting and rotating on the CPU, a row of one head at a time.
//!
//! Packed rows are read and written from start to end, and the heads grow side by side: the memory serves several
//! streams faster than one.

use super::{Heads, Layout};
use crate::machine::autodiff::{View, values};
use crate::machine::buffers::written;
use crate::machine::simd::{LANES, vectorised};
use burn_flex::FlexTensor;
use rayon::prelude::*;
use std::borrow::Cow;
use std::mem::MaybeUninit;

/// Rows per task.
const ROWS: usize = if cfg!(miri) { 4 } else { 64 };

/// A rotation table's tensors, `[rows, length, rotated / 2]`.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(super) cos: FlexTensor,
    pub(super) sin: FlexTensor,
    pub(super) layout: Layout,
}

/// The cosines and sines of one position, at the start of each slice.
#[derive(Clone, Copy)]
struct Angles<'a> {
    cos: &'a [f32],
    sin: &'a [f32],
    half: usize,
    layout: Layout,
    /// -1 turns backwards.
    sign: f32,
}

/// The values of a table, ready to be cut by batch row and position.
struct Turns<'a> {
    cos: Cow<'a, [f32]>,
    sin: Cow<'a, [f32]>,
    half: usize,
    layout: Layout,
    /// Values per batch row; 0 if the batch shares one.
    per_batch: usize,
}

impl<'a> Turns<'a> {
    fn new(table: &'a Table) -> Self {
        let shape = table.cos.layout().shape();
        let (rows, length, half) = (shape[0], shape[1], shape[2]);
        let per_batch = if rows == 1 { 0 } else { length * half };
        Self { cos: values(&table.cos), sin: values(&table.sin), half, layout: table.layout, per_batch }
    }

    fn from(&self, batch: usize, position: usize, sign: f32) -> Angles<'_> {
        let from = batch * self.per_batch + position * self.half;
        Angles { cos: &self.cos[from..], sin: &self.sin[from..], half: self.half, layout: self.layout, sign }
    }
}

/// The heads of q, of k or of v in a packed row.
struct PackedPart<'a> {
    column: usize,
    count: usize,
    turns: Option<Turns<'a>>,
}

/// The parts of a packed row: q, k and v.
fn parts<'a>(heads: Heads, tables: [Option<&'a Table>; 2]) -> [PackedPart<'a>; 3] {
    let Heads { query, key_value, head_dim } = heads;
    let part = |first: usize, count: usize, table: Option<&'a Table>| PackedPart {
        column: first * head_dim,
        count,
        turns: table.map(Turns::new),
    };
    [part(0, query, tables[0]), part(query, key_value, tables[1]), part(query + key_value, key_value, None)]
}

/// Where the rows of heads are read: row t of head h of batch row b begins at the product with these.
#[derive(Clone, Copy)]
struct Source<'a> {
    values: &'a [f32],
    batch_stride: usize,
    head_stride: usize,
    row_stride: usize,
}

impl<'a> Source<'a> {
    /// What follows the start of a row of a head.
    #[inline(always)]
    fn row(&self, batch: usize, head: usize, row: usize) -> &'a [f32] {
        &self.values[batch * self.batch_stride + head * self.head_stride + row * self.row_stride..]
    }
}

/// Some rows of one batch row, with where each head goes.
struct Task<'a> {
    batch: usize,
    first: usize,
    /// `[rows, head_dim]` each.
    heads: Vec<&'a mut [MaybeUninit<f32>]>,
}

/// q, k and v, `[batch, heads, length, head_dim]`, out of packed `[batch, length, width]`.
pub(super) fn split(
    packed: &View<3>,
    batch: usize,
    length: usize,
    heads: Heads,
    tables: [Option<&Table>; 2],
) -> [Vec<f32>; 3] {
    let [batch_stride, row_stride, _] = packed.strides();
    let head_dim = heads.head_dim;
    let source = Source { values: packed.data(), batch_stride, head_stride: head_dim, row_stride };
    turned_heads(source, [batch, length, head_dim], &parts(heads, tables), 1.0)
}

/// x `[batch, heads, length, head_dim]`, turned (sign 1) or turned back (sign -1).
pub(crate) fn rotate(x: &View<4>, shape: [usize; 4], table: &Table, sign: f32) -> Vec<f32> {
    let [batch, heads, length, head_dim] = shape;
    let [batch_stride, head_stride, row_stride, _] = x.strides();
    let source = Source { values: x.data(), batch_stride, head_stride, row_stride };
    let part = PackedPart { column: 0, count: heads, turns: Some(Turns::new(table)) };
    let [turned] = turned_heads(source, [batch, length, head_dim], &[part], sign);
    turned
}

/// Each part `[batch, count, length, head_dim]`, of heads that follow one another in the source.
fn turned_heads<const N: usize>(
    source: Source<'_>,
    [batch, length, head_dim]: [usize; 3],
    parts: &[PackedPart<'_>; N],
    sign: f32,
) -> [Vec<f32>; N] {
    let sizes = parts.each_ref().map(|part| batch * part.count * length * head_dim);
    let mut outs = sizes.map(Vec::with_capacity);
    let per_batch = length.div_ceil(ROWS);
    let all_heads = parts.iter().map(|part| part.count).sum();
    let task = |index: usize| Task {
        batch: index / per_batch,
        first: index % per_batch * ROWS,
        heads: Vec::with_capacity(all_heads),
    };
    let mut tasks: Vec<Task<'_>> = (0..batch * per_batch).map(task).collect();
    for ((out, part), size) in outs.iter_mut().zip(parts).zip(sizes) {
        let of_heads = out.spare_capacity_mut()[..size].chunks_mut((length * head_dim).max(1));
        for (index, head) in of_heads.enumerate() {
            let tasks = &mut tasks[index / part.count * per_batch..];
            for (task, rows) in tasks.iter_mut().zip(head.chunks_mut(ROWS * head_dim)) {
                task.heads.push(rows);
            }
        }
    }
    tasks.into_par_iter().for_each(|mut task| {
        let rows = ROWS.min(length - task.first);
        turn_rows(&source, parts, &mut task, rows, head_dim, sign);
    });
    for (out, size) in outs.iter_mut().zip(sizes) {
        // SAFETY: the tasks cover all rows of all heads, and every number of a row was written.
        unsafe { out.set_len(size) };
    }
    outs
}

/// The gradient of packed rows, `[batch, length, width]`, from those of q, k and v,
/// `[batch, heads, length, head_dim]`; a part without one has a gradient of zeros.
pub(super) fn merge(
    batch: usize,
    length: usize,
    heads: Heads,
    gradients: &[Option<View<4>>; 3],
    tables: [Option<&Table>; 2],
) -> Vec<f32> {
    let (parts, width) = (parts(heads, tables), heads.packed());
    written(batch * length * width, ROWS * width, |task, packed| {
        merge_rows(gradients, &parts, task * ROWS, length, heads.head_dim, packed);
    })
}

vectorised! {
    /// The rows of a task: row by row, so that packed rows are read from start to end.
    fn turn_rows(
        source: &Source<'_>,
        parts: &[PackedPart<'_>],
        task: &mut Task<'_>,
        rows: usize,
        head_dim: usize,
        sign: f32,
    ) {
        for row in 0..rows {
            let position = task.first + row;
            let mut outs = task.heads.iter_mut().enumerate();
            for part in parts {
                let angles = part.turns.as_ref().map(|turns| turns.from(task.batch, position, sign));
                for (head, out) in outs.by_ref().take(part.count) {
                    let x = source.row(task.batch, head, position);
                    turn(&x[..head_dim], angles, &mut out[row * head_dim..][..head_dim]);
                }
            }
        }
    }

    /// Rows of the packed gradient from row `first` of all rows: each is written from its start to its end.
    fn merge_rows(
        gradients: &[Option<View<4>>; 3],
        parts: &[PackedPart<'_>; 3],
        first: usize,
        length: usize,
        head_dim: usize,
        packed: &mut [MaybeUninit<f32>],
    ) {
        let width: usize = parts.iter().map(|part| part.count * head_dim).sum();
        for (row, packed) in packed.chunks_exact_mut(width).enumerate() {
            let (batch, position) = ((first + row) / length, (first + row) % length);
            for (part, gradient) in parts.iter().zip(gradients) {
                let angles = part.turns.as_ref().map(|turns| turns.from(batch, position, -1.0));
                let out = &mut packed[part.column..][..part.count * head_dim];
                let Some(gradient) = gradient else {
                    out.fill(MaybeUninit::new(0.0));
                    continue;
                };
                let [batch_stride, head_stride, row_stride, _] = gradient.strides();
                let from = batch * batch_stride + position * row_stride;
                for (head, out) in out.chunks_exact_mut(head_dim).enumerate() {
                    let x = &gradient.data()[from + head * head_stride..];
                    turn(&x[..head_dim], angles, out);
                }
            }
        }
    }
}

/// Turns one row of one head, or, without angles, copies it; all of `y` is written.
#[inline(always)]
fn turn(x: &[f32], angles: Option<Angles<'_>>, y: &mut [MaybeUninit<f32>]) {
    let Some(Angles { cos, sin, half, layout, sign }) = angles else {
        y.write_copy_of_slice(x);
        return;
    };
    let (x, x_rest) = x.split_at(2 * half);
    let (y, y_rest) = y.split_at_mut(2 * half);
    let (cos, sin) = (&cos[..half], &sin[..half]);
    match layout {
        Layout::Half => {
            let (a, b) = x.split_at(half);
            let (first, second) = y.split_at_mut(half);
            turn_halves([a, b, cos, sin], first, second, sign);
        }
        Layout::Interleaved => {
            turn_pairs(x.as_chunks::<2>().0, cos, sin, sign, y.as_chunks_mut::<2>().0);
        }
    }
    y_rest.write_copy_of_slice(x_rest);
}

/// One row of pairs whose partners lie in two halves: a, b and the table's cos and sin, of equal lengths.
///
/// Whole lanes are read before any is written, so that no test is needed for what overlaps: of six slices there would be many.
#[inline(always)]
fn turn_halves(of: [&[f32]; 4], first: &mut [MaybeUninit<f32>], second: &mut [MaybeUninit<f32>], sign: f32) {
    let [(a, a_rest), (b, b_rest), (cos, cos_rest), (sin, sin_rest)] = of.map(<[f32]>::as_chunks::<LANES>);
    let (first, first_rest) = first.as_chunks_mut::<LANES>();
    let (second, second_rest) = second.as_chunks_mut::<LANES>();
    let outs = first.iter_mut().zip(second);
    for (((a, b), (cos, sin)), (first, second)) in a.iter().zip(b).zip(cos.iter().zip(sin)).zip(outs) {
        let (mut one, mut two) = ([0.0; LANES], [0.0; LANES]);
        for lane in 0..LANES {
            (one[lane], two[lane]) = turned(a[lane], b[lane], cos[lane], sign * sin[lane]);
        }
        *first = one.map(MaybeUninit::new);
        *second = two.map(MaybeUninit::new);
    }
    let rest = a_rest.iter().zip(b_rest).zip(cos_rest.iter().zip(sin_rest));
    for (((a, b), (cos, sin)), (first, second)) in rest.zip(first_rest.iter_mut().zip(second_rest)) {
        let (one, two) = turned(*a, *b, *cos, sign * sin);
        first.write(one);
        second.write(two);
    }
}

/// One row of pairs that lie side by side.
#[inline(always)]
fn turn_pairs(x: &[[f32; 2]], cos: &[f32], sin: &[f32], sign: f32, y: &mut [[MaybeUninit<f32>; 2]]) {
    for (([a, b], (cos, sin)), [first, second]) in x.iter().zip(cos.iter().zip(sin)).zip(y) {
        let (one, two) = turned(*a, *b, *cos, sign * sin);
        first.write(one);
        second.write(two);
    }
}

#[inline(always)]
fn turned(a: f32, b: f32, cos: f32, sin: f32) -> (f32, f32) {
    (a * cos - b * sin, a * sin + b * cos)
}
