//! Splitting and rotating on the GPU.
//!
//! One launch reads the packed rows where the projection has left them, cuts them into q, k and v, puts heads
//! before positions, and turns q and k on the way. Plain tensor operations take 3 slices, 3 transposes and
//! about 8 element-wise passes over q and k for that, most of them through memory. The backward pass is one
//! launch too: it reads the three gradients where they lie, turns those of q and k back (the sign of the sine
//! changed; a factor in the table stays, as the transpose wants it), and writes every number of the packed
//! gradient once. It needs the tables and nothing else of the forward pass.
//!
//! A unit owns whole pairs: with vectors of N numbers, two vectors in and out, and one each of cosines and
//! sines. Neighbouring units read on along a packed row, so reading is in one run, and the heads of a position
//! find its cosines in the cache; writing is in runs of `head_dim`. N is the widest that divides the channels,
//! the rotated pairs and the strides.
//!
//! On a software device (llvmpipe) the forward pass reaches 61 to 83% of the speed of a copy from 2^19 numbers on.
//!
//! What was left out: sines computed in the kernel (WGSL bounds their error only on [-pi, pi], and the table is
//! a small share of the bytes), and turning in place (tensors here are shared handles).

// Kernels take their buffers, sizes and strides one by one; what the macros make of them is theirs.
#![allow(clippy::too_many_arguments, clippy::pedantic)]

mod gradient;
mod launch;
#[cfg(test)]
mod tests;

pub(super) use gradient::{rotate, split_rotate};

use super::Layout;
use crate::gpu::{Strides, start};
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// How the kernels see q, k or v; counts are of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Part {
    /// The heads of the part.
    heads: usize,
    /// The vectors of a row of one head.
    head_dim: usize,
    /// The units that take two vectors of such a row; the others take one of those behind them.
    pairs: usize,
    /// Which numbers are partners; `None` leaves all as they are.
    turned: Option<Layout>,
    /// Whether there is a gradient; without one it is 0.
    given: bool,
}

impl Part {
    /// The units that a row of one head takes.
    fn units(&self) -> usize {
        self.head_dim - self.pairs
    }
}

/// q, k and v, in the order of a packed row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Packed {
    q: Part,
    k: Part,
    v: Part,
}

impl Packed {
    fn heads(&self) -> usize {
        self.q.heads + self.k.heads + self.v.heads
    }

    fn units(&self) -> usize {
        self.q.units().max(self.k.units()).max(self.v.units())
    }
}

/// Number `index` of a, then b.
#[cube]
fn number<N: Size>(a: Vector<f32, N>, b: Vector<f32, N>, #[comptime] index: usize) -> f32 {
    let size = N::value();
    if comptime!(index < size) { a.extract(index) } else { b.extract(comptime!(index - size)) }
}

/// One unit's share of a row of one head: pairs to turn (back), or numbers to pass on.
#[cube]
fn turn<N: Size>(
    source: &[Vector<f32, N>],
    from: usize,
    target: &mut [Vector<f32, N>],
    to: usize,
    cos: &[Vector<f32, N>],
    sin: &[Vector<f32, N>],
    angles: usize,
    unit: usize,
    #[comptime] part: Part,
    #[comptime] back: bool,
) {
    let pairs = comptime!(part.pairs);
    if unit < pairs {
        let interleaved = comptime!(part.turned == Some(Layout::Interleaved));
        let first = if comptime!(interleaved) { 2 * unit } else { unit };
        let second = if comptime!(interleaved) { 2 * unit + 1 } else { unit + pairs };
        let a = source[from + first];
        let b = source[from + second];
        if comptime!(part.turned.is_none()) {
            target[to + first] = a;
            target[to + second] = b;
        } else {
            let cos = cos[angles + unit];
            let mut sin = sin[angles + unit];
            if comptime!(back) {
                sin = -sin;
            }
            if comptime!(interleaved) {
                let mut one = Vector::<f32, N>::empty();
                let mut two = Vector::<f32, N>::empty();
                let size = N::value();
                #[unroll]
                for pair in 0..size {
                    let even = comptime!(2 * pair);
                    let odd = comptime!(2 * pair + 1);
                    let x = number::<N>(a, b, even);
                    let y = number::<N>(a, b, odd);
                    let c = cos.extract(pair);
                    let s = sin.extract(pair);
                    put::<N>(&mut one, &mut two, even, x * c - y * s);
                    put::<N>(&mut one, &mut two, odd, x * s + y * c);
                }
                target[to + first] = one;
                target[to + second] = two;
            } else {
                target[to + first] = a * cos - b * sin;
                target[to + second] = a * sin + b * cos;
            }
        }
    } else if unit < comptime!(part.units()) {
        target[to + unit + pairs] = source[from + unit + pairs];
    }
}

/// Sets number `index` of one, then two.
#[cube]
fn put<N: Size>(one: &mut Vector<f32, N>, two: &mut Vector<f32, N>, #[comptime] index: usize, value: f32) {
    let size = N::value();
    if comptime!(index < size) {
        one.insert(index, value);
    } else {
        two.insert(comptime!(index - size), value);
    }
}

/// A row of one head of the packed gradient: turned back, or 0 where nothing came.
#[cube]
fn merge_part<N: Size>(
    source: &[Vector<f32, N>],
    from: usize,
    target: &mut [Vector<f32, N>],
    to: usize,
    cos: &[Vector<f32, N>],
    sin: &[Vector<f32, N>],
    angles: usize,
    unit: usize,
    #[comptime] part: Part,
) {
    if comptime!(part.given) {
        turn::<N>(source, from, target, to, cos, sin, angles, unit, part, true);
    } else {
        let units = comptime!(part.units());
        if unit < units {
            target[to + unit] = Vector::new(0.0);
        }
        if unit + units < comptime!(part.head_dim) {
            target[to + unit + units] = Vector::new(0.0);
        }
    }
}

/// Packed rows into q, k and v, one unit for each `packed.units()`-th of a row of one head.
///
/// `tables`: the vectors of a table between batch rows (0: they share one), for q and for k.
#[cube(launch_unchecked, address_type = "dynamic")]
fn split_kernel<N: Size>(
    source: &[Vector<f32, N>],
    q_cos: &[Vector<f32, N>],
    q_sin: &[Vector<f32, N>],
    k_cos: &[Vector<f32, N>],
    k_sin: &[Vector<f32, N>],
    q: &mut [Vector<f32, N>],
    k: &mut [Vector<f32, N>],
    v: &mut [Vector<f32, N>],
    strides: Strides,
    q_table: usize,
    k_table: usize,
    length: usize,
    count: usize,
    #[comptime] packed: Packed,
) {
    if ABSOLUTE_POS >= count {
        terminate!();
    }
    let units = comptime!(packed.units());
    let heads = comptime!(packed.heads());
    let unit = ABSOLUTE_POS % units;
    let place = ABSOLUTE_POS / units;
    let head = place % heads;
    let row = place / heads;
    let position = row % length;
    let batch = row / length;
    let from = start(strides, batch, head, position);
    let first_k = comptime!(packed.q.heads);
    let first_v = comptime!(packed.q.heads + packed.k.heads);
    if head < first_k {
        let part = comptime!(packed.q);
        let to = ((batch * comptime!(part.heads) + head) * length + position) * comptime!(part.head_dim);
        let angles = batch * q_table + position * comptime!(part.pairs);
        turn::<N>(source, from, q, to, q_cos, q_sin, angles, unit, part, false);
    } else if head < first_v {
        let part = comptime!(packed.k);
        let head = head - first_k;
        let to = ((batch * comptime!(part.heads) + head) * length + position) * comptime!(part.head_dim);
        let angles = batch * k_table + position * comptime!(part.pairs);
        turn::<N>(source, from, k, to, k_cos, k_sin, angles, unit, part, false);
    } else {
        let part = comptime!(packed.v);
        let head = head - first_v;
        let to = ((batch * comptime!(part.heads) + head) * length + position) * comptime!(part.head_dim);
        turn::<N>(source, from, v, to, q_cos, q_sin, 0, unit, part, false);
    }
}

/// The gradients of q, k and v into that of the packed rows.
#[cube(launch_unchecked, address_type = "dynamic")]
fn merge_kernel<N: Size>(
    q: &[Vector<f32, N>],
    k: &[Vector<f32, N>],
    v: &[Vector<f32, N>],
    q_cos: &[Vector<f32, N>],
    q_sin: &[Vector<f32, N>],
    k_cos: &[Vector<f32, N>],
    k_sin: &[Vector<f32, N>],
    target: &mut [Vector<f32, N>],
    q_strides: Strides,
    k_strides: Strides,
    v_strides: Strides,
    q_table: usize,
    k_table: usize,
    length: usize,
    count: usize,
    #[comptime] packed: Packed,
) {
    if ABSOLUTE_POS >= count {
        terminate!();
    }
    let units = comptime!(packed.units());
    let heads = comptime!(packed.heads());
    let unit = ABSOLUTE_POS % units;
    let place = ABSOLUTE_POS / units;
    let head = place % heads;
    let row = place / heads;
    let position = row % length;
    let batch = row / length;
    let to = place * comptime!(packed.q.head_dim);
    let first_k = comptime!(packed.q.heads);
    let first_v = comptime!(packed.q.heads + packed.k.heads);
    if head < first_k {
        let part = comptime!(packed.q);
        let from = start(q_strides, batch, head, position);
        let angles = batch * q_table + position * comptime!(part.pairs);
        merge_part::<N>(q, from, target, to, q_cos, q_sin, angles, unit, part);
    } else if head < first_v {
        let part = comptime!(packed.k);
        let from = start(k_strides, batch, head - first_k, position);
        let angles = batch * k_table + position * comptime!(part.pairs);
        merge_part::<N>(k, from, target, to, k_cos, k_sin, angles, unit, part);
    } else {
        let part = comptime!(packed.v);
        let from = start(v_strides, batch, head - first_v, position);
        merge_part::<N>(v, from, target, to, q_cos, q_sin, 0, unit, part);
    }
}

/// x `[batch, heads, length, head_dim]`, turned or turned back.
#[cube(launch_unchecked, address_type = "dynamic")]
fn rotate_kernel<N: Size>(
    source: &[Vector<f32, N>],
    cos: &[Vector<f32, N>],
    sin: &[Vector<f32, N>],
    target: &mut [Vector<f32, N>],
    strides: Strides,
    table: usize,
    length: usize,
    count: usize,
    #[comptime] part: Part,
    #[comptime] back: bool,
) {
    if ABSOLUTE_POS >= count {
        terminate!();
    }
    let units = comptime!(part.units());
    let unit = ABSOLUTE_POS % units;
    let place = ABSOLUTE_POS / units;
    let position = place % length;
    let head = (place / length) % comptime!(part.heads);
    let batch = place / length / comptime!(part.heads);
    let from = start(strides, batch, head, position);
    let to = place * comptime!(part.head_dim);
    let angles = batch * table + position * comptime!(part.pairs);
    turn::<N>(source, from, target, to, cos, sin, angles, unit, part, back);
}
