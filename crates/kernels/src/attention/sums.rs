//! The gradients that rows of queries share, and those that each row has alone.

use super::bias::bias_sizes;
use super::block::Operands;
use super::counted;
use super::relative::{self, Part};
use super::{MOST_RANGES, Shape};
use crate::machine::buffers::{GRAIN, Rest};
use crate::machine::simd::add;
use rayon::prelude::*;
use std::ops::Range;

/// Tensors that one key head's rows add to: k of each range, v, two parts of a bias, four tensors of vectors by
/// distance, and the vectors by count.
const MOST: usize = MOST_RANGES + 1 + 2 + relative::PARTS + 1;

/// What the rows of one key head add to: the gradients of k and v, of a bias that no row has alone, and of vectors by
/// distance and by count.
pub(super) struct Sums<'a> {
    keys: Range<usize>,
    parts: [&'a mut [f32]; MOST],
    layout: Layout,
}

/// How [`Sums`] lie in their parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Numbers of a key in its part, for k and v.
    widths: [usize; MOST_RANGES + 1],
    /// The sizes of the other parts.
    rest: [usize; MOST - MOST_RANGES - 1],
    /// Query heads of the key head.
    group: usize,
}

impl Layout {
    pub(super) fn new(operands: &Operands<'_>, bias_wanted: bool) -> Self {
        let Shape { heads, key_heads, head_dim, value_dim, .. } = operands.shape;
        let group = heads / key_heads;
        let [near, far] = [0, 1].map(|range| if range < operands.ranges() { head_dim } else { 0 });
        let [first, second] = bias_sizes(operands).map(|size| if bias_wanted { group * size } else { 0 });
        let [keys, bias, queries, values] = relative::sizes(operands).map(|size| group * size);
        let rest = [first, second, keys, bias, queries, values, counted::size(operands)];
        Self { widths: [near, far, value_dim], rest, group }
    }

    pub(super) fn sizes(&self, keys: usize) -> [usize; MOST] {
        let [near, far, v] = self.widths.map(|width| keys * width);
        let [a, b, c, d, e, f, g] = self.rest;
        [near, far, v, a, b, c, d, e, f, g]
    }

    /// Zeros for some keys in a buffer that may have been used before.
    pub(super) fn zeros<'a>(&self, keys: Range<usize>, buffer: &'a mut Vec<f32>) -> Sums<'a> {
        let count = self.sizes(keys.len()).iter().sum();
        buffer.clear();
        if buffer.capacity() < count {
            *buffer = Vec::with_capacity(count);
        }
        buffer.resize(count, 0.0);
        self.sums(keys, buffer)
    }

    /// Sums of some keys in the buffer that was filled for them.
    pub(super) fn sums<'a>(&self, keys: Range<usize>, buffer: &'a mut [f32]) -> Sums<'a> {
        let mut rest = Rest(buffer);
        let parts = self.sizes(keys.len()).map(|size| rest.next(size));
        Sums { keys, parts, layout: *self }
    }
}

impl<'a> Sums<'a> {
    /// Sums of all keys in these parts.
    pub(super) fn of_all(keys: usize, parts: [&'a mut [f32]; MOST], layout: Layout) -> Self {
        Self { keys: 0..keys, parts, layout }
    }

    /// How they lie.
    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// The same for a shorter time.
    pub(super) fn reborrow(&mut self) -> Sums<'_> {
        let parts = self.parts.each_mut().map(|part| &mut **part);
        Sums { keys: self.keys.clone(), parts, layout: self.layout }
    }

    /// The sums of keys from `key` on, `[keys, head_dim]`, of a range.
    pub(super) fn k(&mut self, range: usize, key: usize) -> &mut [f32] {
        &mut self.parts[range][(key - self.keys.start) * self.layout.widths[range]..]
    }

    /// The sums of values from `key` on, `[keys, value_dim]`.
    pub(super) fn v(&mut self, key: usize) -> &mut [f32] {
        &mut self.parts[MOST_RANGES][(key - self.keys.start) * self.layout.widths[MOST_RANGES]..]
    }

    /// The sums of a bias for one query head of the group, see [`bias_sizes`].
    pub(super) fn bias(&mut self, member: usize) -> [&mut [f32]; 2] {
        let [.., first, second, _, _, _, _, _] = &mut self.parts;
        [first, second].map(|part| {
            let size = part.len() / self.layout.group;
            &mut part[member * size..][..size]
        })
    }

    /// The sums of vectors by distance.
    pub(super) fn relative(&mut self) -> Part<'_> {
        let [.., keys, bias, queries, values, _] = &mut self.parts;
        Part { keys, bias, queries, values, group: self.layout.group }
    }

    /// The sums of vectors by distance, and of the first range's keys from `key` on.
    pub(super) fn relative_and_k(&mut self, key: usize) -> (Part<'_>, &mut [f32]) {
        let first = (key - self.keys.start) * self.layout.widths[0];
        let [k, .., keys, bias, queries, values, _] = &mut self.parts;
        (Part { keys, bias, queries, values, group: self.layout.group }, &mut k[first..])
    }

    /// The sums of vectors by count.
    pub(super) fn counted(&mut self) -> &mut [f32] {
        let [.., counted] = &mut self.parts;
        counted
    }

    /// Adds those of other rows, all of whose keys are among these, on all threads.
    pub(super) fn add(&mut self, other: &Sums<'_>) {
        let sizes = self
            .layout
            .widths
            .into_iter()
            .map(|width| other.keys.start.saturating_sub(self.keys.start) * width);
        for ((part, from), first) in self.parts.iter_mut().zip(&other.parts).zip(sizes.chain([0; MOST])) {
            let to = part[first..][..from.len()].par_chunks_mut(GRAIN);
            to.zip(from.par_chunks(GRAIN)).for_each(|(to, from)| add(to, from));
        }
    }
}

/// The rows of one tensor of the query heads of one key head.
pub(super) struct HeadRows<'a> {
    /// For each query head `[rows, width]`.
    heads: Vec<&'a mut [f32]>,
    width: usize,
}

impl<'a> HeadRows<'a> {
    /// Takes the rows of the next key head.
    pub(super) fn next(rest: &mut Rest<'a>, group: usize, rows: usize, width: usize) -> Self {
        Self { heads: (0..group).map(|_| rest.next(rows * width)).collect(), width }
    }

    fn split(self, rows: usize) -> [Self; 2] {
        let Self { heads, width } = self;
        let (first, last) = heads.into_iter().map(|head| head.split_at_mut(rows * width)).unzip();
        [first, last].map(|heads| Self { heads, width })
    }

    fn from(&mut self, member: usize, row: usize) -> &mut [f32] {
        &mut self.heads[member][row * self.width..]
    }
}

/// What each row of one key head's queries has alone: the gradients of q of each range, and of a bias.
pub(super) struct OwnRows<'a> {
    q: Vec<HeadRows<'a>>,
    bias: HeadRows<'a>,
}

impl<'a> OwnRows<'a> {
    /// Of width 0 without a bias that each row has numbers of.
    pub(super) fn new(q: Vec<HeadRows<'a>>, bias: HeadRows<'a>) -> Self {
        Self { q, bias }
    }

    /// The first rows, and the others.
    pub(super) fn split(self, rows: usize) -> [Self; 2] {
        let (first_q, last_q) = self.q.into_iter().map(|q| q.split(rows).into()).unzip();
        let [first, last] = self.bias.split(rows);
        [Self { q: first_q, bias: first }, Self { q: last_q, bias: last }]
    }

    /// The gradient of a range's q from a row of a query head on.
    pub(super) fn q(&mut self, range: usize, member: usize, row: usize) -> &mut [f32] {
        self.q[range].from(member, row)
    }

    pub(super) fn bias(&mut self, member: usize, row: usize) -> Option<&mut [f32]> {
        (self.bias.width > 0).then(|| self.bias.from(member, row))
    }
}
