//! Splitting and rotating on the CPU, a row of one head at a time.

use super::{Heads, Layout};
use crate::buffers::computed;
use crate::lanes::vectorised;
use crate::tape::{View, values};
use burn_flex::FlexTensor;
use rayon::prelude::*;

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
            let keep = if add { 1.0 } else { 0.0 };
            match layout {
                Layout::Half => {
                    let (a, b) = x.split_at(half);
                    let (first, second) = y.split_at_mut(half);
                    let pairs = a.iter().zip(b).zip(cos.iter().zip(sin));
                    for ((first, second), ((a, b), (cos, sin))) in first.iter_mut().zip(second).zip(pairs) {
                        let sin = sign * sin;
                        *first = keep * *first + (a * cos - b * sin);
                        *second = keep * *second + (a * sin + b * cos);
                    }
                }
                Layout::Interleaved => {
                    let (x, _) = x.as_chunks::<2>();
                    let (y, _) = y.as_chunks_mut::<2>();
                    for (([first, second], [a, b]), (cos, sin)) in y.iter_mut().zip(x).zip(cos.iter().zip(sin)) {
                        let sin = sign * sin;
                        *first = keep * *first + (a * cos - b * sin);
                        *second = keep * *second + (a * sin + b * cos);
                    }
                }
            }
        }
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
