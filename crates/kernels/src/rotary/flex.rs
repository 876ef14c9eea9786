//! Splitting and rotating on the CPU, a row of one head at a time.

use super::{Heads, Layout};
use crate::buffers::{GRAIN, computed};
use crate::lanes::{LANES, vectorised};
use crate::tape::{View, values};
use burn_flex::FlexTensor;
use rayon::prelude::*;

/// How many rows before its use a row is asked for. The processor's own prefetching does not see rows that
/// lie pages apart, and few rows' worth of arithmetic fits between two of its loads.
const AHEAD: usize = 12;

/// Rows of a packed gradient per task.
const ROWS: usize = 64;

/// A rotation table's tensors, `[rows, length, rotated / 2]`.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) cos: FlexTensor,
    pub(super) sin: FlexTensor,
    pub(super) layout: Layout,
}

/// The cosines and sines of consecutive positions, `half` apart.
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
    cos: std::borrow::Cow<'a, [f32]>,
    sin: std::borrow::Cow<'a, [f32]>,
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

/// The heads `columns / head_dim ..` of packed `[batch, length, width]`, `[batch, count, length, head_dim]`.
pub(super) fn split(
    packed: &View<3>,
    batch: usize,
    length: usize,
    head_dim: usize,
    column: usize,
    count: usize,
    table: Option<&Table>,
) -> Vec<f32> {
    let [batch_stride, row_stride, _] = packed.strides();
    let turns = table.map(Turns::new);
    computed(batch * count * length * head_dim, length * head_dim, |index, out| {
        let (batch, head) = (index / count, index % count);
        let source = &packed.data()[batch * batch_stride + column + head * head_dim..];
        let angles = turns.as_ref().map(|turns| turns.from(batch, 0, 1.0));
        turn(source, row_stride, out, head_dim, length, head_dim, angles, false);
    })
}

/// The gradient of packed rows of which only some heads, `[batch, count, length, head_dim]`, have one.
pub(super) fn merge_first(
    batch: usize,
    heads: Heads,
    length: usize,
    gradient: &View<4>,
    column: usize,
    count: usize,
    table: Option<&Table>,
) -> Vec<f32> {
    let (width, head_dim) = (heads.packed(), heads.head_dim);
    let [batch_stride, head_stride, row_stride, _] = gradient.strides();
    let turns = table.map(Turns::new);
    let rows = (GRAIN / width.max(1)).max(1);
    computed(batch * length * width, rows * width, |task, packed| {
        // The task's rows may belong to several batch rows.
        let (mut row, mut packed) = (task * rows, packed);
        while !packed.is_empty() {
            let (batch, first) = (row / length, row % length);
            let rows = (length - first).min(packed.len() / width);
            let (part, rest) = packed.split_at_mut(rows * width);
            let angles = turns.as_ref().map(|turns| turns.from(batch, first, -1.0));
            for head in 0..count {
                let from = batch * batch_stride + head * head_stride + first * row_stride;
                let out = &mut part[column + head * head_dim..];
                turn(&gradient.data()[from..], row_stride, out, width, rows, head_dim, angles, false);
            }
            (row, packed) = (row + rows, rest);
        }
    })
}

/// Adds the gradient of some heads, `[batch, count, length, head_dim]`, to that of the packed rows.
pub(super) fn merge(
    packed: &mut [f32],
    heads: Heads,
    length: usize,
    gradient: &View<4>,
    column: usize,
    count: usize,
    table: Option<&Table>,
) {
    let (width, head_dim) = (heads.packed(), heads.head_dim);
    let [batch_stride, head_stride, row_stride, _] = gradient.strides();
    let turns = table.map(Turns::new);
    if packed.is_empty() {
        return;
    }
    packed.par_chunks_mut(length * width).enumerate().for_each(|(batch, packed)| {
        packed.par_chunks_mut(ROWS * width).enumerate().for_each(|(task, packed)| {
            let (first, rows) = (task * ROWS, packed.len() / width);
            let angles = turns.as_ref().map(|turns| turns.from(batch, first, -1.0));
            for head in 0..count {
                let from = batch * batch_stride + head * head_stride + first * row_stride;
                let source = &gradient.data()[from..];
                let out = &mut packed[column + head * head_dim..];
                turn(source, row_stride, out, width, rows, head_dim, angles, true);
            }
        });
    });
}

/// x `[batch, heads, length, head_dim]`, turned (sign 1) or turned back (sign -1).
pub(super) fn rotate(x: &View<4>, shape: [usize; 4], table: &Table, sign: f32) -> Vec<f32> {
    let [_, heads, length, head_dim] = shape;
    let [batch_stride, head_stride, row_stride, _] = x.strides();
    let turns = Turns::new(table);
    computed(shape.iter().product(), length * head_dim, |index, out| {
        let (batch, head) = (index / heads, index % heads);
        let source = &x.data()[batch * batch_stride + head * head_stride..];
        let angles = Some(turns.from(batch, 0, sign));
        turn(source, row_stride, out, head_dim, length, head_dim, angles, false);
    })
}

vectorised! {
    /// Turns (or, without angles, copies) `rows` rows of one head; `add` adds to what is there.
    fn turn(
        source: &[f32],
        source_stride: usize,
        out: &mut [f32],
        out_stride: usize,
        rows: usize,
        head_dim: usize,
        angles: Option<Angles<'_>>,
        add: bool,
    ) {
        for row in 0..rows {
            prefetch(&source[row * source_stride..], AHEAD * source_stride, head_dim);
            let x = &source[row * source_stride..][..head_dim];
            let y = &mut out[row * out_stride..][..head_dim];
            let Some(Angles { cos, sin, half, layout, sign }) = angles else {
                put(y, x, add);
                continue;
            };
            let cos = &cos[row * half..][..half];
            let sin = &sin[row * half..][..half];
            let (x, x_rest) = x.split_at(2 * half);
            let (y, y_rest) = y.split_at_mut(2 * half);
            put(y_rest, x_rest, add);
            match layout {
                Layout::Half => {
                    let (a, b) = x.split_at(half);
                    let (first, second) = y.split_at_mut(half);
                    turn_halves([a, b, cos, sin], first, second, sign, add);
                }
                Layout::Interleaved => turn_pairs(x, cos, sin, y, sign, add),
            }
        }
    }
}

/// One row of pairs whose partners lie in two halves: a, b and the table's cos and sin, of equal lengths.
///
/// Whole lanes are read before any is written, so that no test is needed for what overlaps.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn turn_halves(of: [&[f32]; 4], first: &mut [f32], second: &mut [f32], sign: f32, add: bool) {
    let [(a, a_rest), (b, b_rest), (cos, cos_rest), (sin, sin_rest)] = of.map(<[f32]>::as_chunks::<LANES>);
    let (first, first_rest) = first.as_chunks_mut::<LANES>();
    let (second, second_rest) = second.as_chunks_mut::<LANES>();
    for (((a, b), (cos, sin)), (first, second)) in
        a.iter().zip(b).zip(cos.iter().zip(sin)).zip(first.iter_mut().zip(second))
    {
        let (mut one, mut two) = ([0.0; LANES], [0.0; LANES]);
        for lane in 0..LANES {
            (one[lane], two[lane]) = turned(a[lane], b[lane], cos[lane], sign * sin[lane]);
        }
        store(first, &one, add);
        store(second, &two, add);
    }
    let rest = a_rest.iter().zip(b_rest).zip(cos_rest.iter().zip(sin_rest));
    for (((a, b), (cos, sin)), (first, second)) in rest.zip(first_rest.iter_mut().zip(second_rest)) {
        let (one, two) = turned(*a, *b, *cos, sign * sin);
        store(std::array::from_mut(first), &[one], add);
        store(std::array::from_mut(second), &[two], add);
    }
}

/// One row of pairs that lie side by side.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn turn_pairs(x: &[f32], cos: &[f32], sin: &[f32], y: &mut [f32], sign: f32, add: bool) {
    const PAIRS: usize = 2 * LANES;
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<PAIRS>(), y.as_chunks_mut::<PAIRS>());
    let ((cos, cos_rest), (sin, sin_rest)) = (cos.as_chunks::<LANES>(), sin.as_chunks::<LANES>());
    for ((x, y), (cos, sin)) in x.iter().zip(y).zip(cos.iter().zip(sin)) {
        let mut out = [0.0; PAIRS];
        for lane in 0..LANES {
            let (a, b) = (x[2 * lane], x[2 * lane + 1]);
            (out[2 * lane], out[2 * lane + 1]) = turned(a, b, cos[lane], sign * sin[lane]);
        }
        store(y, &out, add);
    }
    let (x, y) = (x_rest.as_chunks::<2>().0, y_rest.as_chunks_mut::<2>().0);
    for ((&[a, b], y), (cos, sin)) in x.iter().zip(y).zip(cos_rest.iter().zip(sin_rest)) {
        let (one, two) = turned(a, b, *cos, sign * sin);
        store(y, &[one, two], add);
    }
}

/// Asks for `count` numbers from `source[from]`, if they are there.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn prefetch(source: &[f32], from: usize, count: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(row) = source.get(from..from + count) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // Lines of 64 bytes.
        for line in row.chunks(16) {
            // SAFETY: a prefetch reads nothing, and the address lies inside the slice.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (source, from, count);
}

#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn turned(a: f32, b: f32, cos: f32, sin: f32) -> (f32, f32) {
    (a * cos - b * sin, a * sin + b * cos)
}

/// Writes `x`, or adds it to what is there.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn store<const N: usize>(to: &mut [f32; N], x: &[f32; N], add: bool) {
    if add {
        for (to, x) in to.iter_mut().zip(x) {
            *to += x;
        }
    } else {
        *to = *x;
    }
}

#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn put(out: &mut [f32], x: &[f32], add: bool) {
    if add {
        for (out, x) in out.iter_mut().zip(x) {
            *out += x;
        }
    } else {
        out.copy_from_slice(x);
    }
}
