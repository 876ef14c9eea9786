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

// Kernels take their rows and sizes one by one; what the macros make of them is theirs.
#![allow(clippy::too_many_arguments, clippy::pedantic)]

mod launch;
mod pair;

pub(super) use launch::{Split, Table, rotate};

use super::Layout;
use crate::machine::gpu::{Strides, start};
use burn_cubecl::cubecl;
use cubecl::prelude::*;
use pair::{Pair, turned};

/// How the kernels see q, k or v; counts are of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PackedPart {
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

impl PackedPart {
    /// The units that a row of one head takes.
    fn units(&self) -> usize {
        self.head_dim - self.pairs
    }
}

/// q, k and v, in the order of a packed row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Packed {
    q: PackedPart,
    k: PackedPart,
    v: PackedPart,
}

impl Packed {
    fn heads(&self) -> usize {
        self.q.heads + self.k.heads + self.v.heads
    }

    fn units(&self) -> usize {
        self.q.units().max(self.k.units()).max(self.v.units())
    }
}

/// A table of cosines and sines.
#[derive(CubeLaunch, CubeType)]
struct Turns<'a, N: Size> {
    cos: &'a [Vector<f32, N>],
    sin: &'a [Vector<f32, N>],
    /// The vectors between batch rows; 0 if they share one.
    per_batch: usize,
}

/// Rows of heads where they lie.
#[derive(CubeLaunch, CubeType)]
struct HeadRows<'a, N: Size> {
    values: &'a [Vector<f32, N>],
    strides: Strides,
}

/// A unit's share of a row of one head.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
struct UnitPlace {
    batch: usize,
    head: usize,
    position: usize,
    unit: usize,
}

/// The place of a unit where all heads of a position lie one behind the other.
#[cube]
fn place_in_packed(length: usize, #[comptime] packed: Packed) -> UnitPlace {
    let units = comptime!(packed.units());
    let heads = comptime!(packed.heads());
    let head = ABSOLUTE_POS / units;
    let row = head / heads;
    UnitPlace { batch: row / length, head: head % heads, position: row % length, unit: ABSOLUTE_POS % units }
}

/// One unit's share of a row of one head: pairs to turn (back), or numbers to pass on.
#[cube]
fn turn<N: Size>(
    source: &[Vector<f32, N>],
    from: usize,
    target: &mut [Vector<f32, N>],
    to: usize,
    turns: &Turns<'_, N>,
    place: UnitPlace,
    #[comptime] part: PackedPart,
    #[comptime] back: bool,
) {
    let pairs = comptime!(part.pairs);
    let unit = place.unit;
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
            let angle = place.batch * turns.per_batch + place.position * pairs + unit;
            let cos = turns.cos[angle];
            let mut sin = turns.sin[angle];
            if comptime!(back) {
                sin = -sin;
            }
            let layout = comptime!(part.turned.unwrap_or_default());
            let turned = turned::<N>(Pair::<N> { first: a, second: b }, cos, sin, layout);
            target[to + first] = turned.first;
            target[to + second] = turned.second;
        }
    } else if unit < comptime!(part.units()) {
        target[to + unit + pairs] = source[from + unit + pairs];
    }
}

/// A row of one head of the packed gradient: turned back, or 0 where nothing came.
#[cube]
fn merge_part<N: Size>(
    source: &HeadRows<'_, N>,
    head: usize,
    target: &mut [Vector<f32, N>],
    to: usize,
    turns: &Turns<'_, N>,
    place: UnitPlace,
    #[comptime] part: PackedPart,
) {
    if comptime!(part.given) {
        let from = start(source.strides, place.batch, head, place.position);
        turn::<N>(source.values, from, target, to, turns, place, part, true);
    } else {
        let units = comptime!(part.units());
        if place.unit < units {
            target[to + place.unit] = Vector::new(0.0);
        }
        if place.unit + units < comptime!(part.head_dim) {
            target[to + place.unit + units] = Vector::new(0.0);
        }
    }
}

/// Where a row of q, k or v begins when they are contiguous.
#[cube]
fn row_of(place: UnitPlace, head: usize, length: usize, #[comptime] part: PackedPart) -> usize {
    ((place.batch * comptime!(part.heads) + head) * length + place.position) * comptime!(part.head_dim)
}

/// Packed rows into q, k and v, one unit for each `packed.units()`-th of a row of one head.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
fn split_kernel<N: Size>(
    source: &HeadRows<'_, N>,
    q_turns: &Turns<'_, N>,
    k_turns: &Turns<'_, N>,
    q: &mut [Vector<f32, N>],
    k: &mut [Vector<f32, N>],
    v: &mut [Vector<f32, N>],
    length: usize,
    count: usize,
    #[comptime] packed: Packed,
) {
    if ABSOLUTE_POS >= count {
        terminate!();
    }
    let place = place_in_packed(length, packed);
    let head = place.head;
    let from = start(source.strides, place.batch, head, place.position);
    let first_k = comptime!(packed.q.heads);
    let first_v = comptime!(packed.q.heads + packed.k.heads);
    if head < first_k {
        let to = row_of(place, head, length, packed.q);
        turn::<N>(source.values, from, q, to, q_turns, place, packed.q, false);
    } else if head < first_v {
        let to = row_of(place, head - first_k, length, packed.k);
        turn::<N>(source.values, from, k, to, k_turns, place, packed.k, false);
    } else {
        let to = row_of(place, head - first_v, length, packed.v);
        turn::<N>(source.values, from, v, to, q_turns, place, packed.v, false);
    }
}

/// The gradients of q, k and v into that of the packed rows.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
fn merge_kernel<N: Size>(
    q: &HeadRows<'_, N>,
    k: &HeadRows<'_, N>,
    v: &HeadRows<'_, N>,
    q_turns: &Turns<'_, N>,
    k_turns: &Turns<'_, N>,
    target: &mut [Vector<f32, N>],
    length: usize,
    count: usize,
    #[comptime] packed: Packed,
) {
    if ABSOLUTE_POS >= count {
        terminate!();
    }
    let place = place_in_packed(length, packed);
    let head = place.head;
    let to = ABSOLUTE_POS / comptime!(packed.units()) * comptime!(packed.q.head_dim);
    let first_k = comptime!(packed.q.heads);
    let first_v = comptime!(packed.q.heads + packed.k.heads);
    if head < first_k {
        merge_part::<N>(q, head, target, to, q_turns, place, packed.q);
    } else if head < first_v {
        merge_part::<N>(k, head - first_k, target, to, k_turns, place, packed.k);
    } else {
        merge_part::<N>(v, head - first_v, target, to, q_turns, place, packed.v);
    }
}

/// x `[batch, heads, length, head_dim]`, turned or turned back.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
fn rotate_kernel<N: Size>(
    source: &HeadRows<'_, N>,
    turns: &Turns<'_, N>,
    target: &mut [Vector<f32, N>],
    length: usize,
    count: usize,
    #[comptime] part: PackedPart,
    #[comptime] back: bool,
) {
    if ABSOLUTE_POS >= count {
        terminate!();
    }
    let units = comptime!(part.units());
    let heads = comptime!(part.heads);
    let row = ABSOLUTE_POS / units;
    let (head, position) = (row / length % heads, row % length);
    let place = UnitPlace { batch: row / length / heads, head, position, unit: ABSOLUTE_POS % units };
    let from = start(source.strides, place.batch, head, position);
    turn::<N>(source.values, from, target, row * comptime!(part.head_dim), turns, place, part, back);
}
