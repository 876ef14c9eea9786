//! The gradients that rows of queries share, and those that each row has alone.

use super::call::Engine;
use crate::attention::spec::{MOST_RANGES, Shape};
use crate::attention::terms::{Part, TERM_INPUTS};
use crate::machine::buffers::{GRAIN, Rest};
use crate::machine::simd::add;
use rayon::prelude::*;
use std::ops::Range;

/// Tensors that one key head's rows add to: k of each range, v, and those of the terms.
const MOST: usize = MOST_RANGES + 1 + TERM_INPUTS;

/// The gradients that all query rows of one key head add to: those of k, of v, and of the inputs that terms sum over rows.
pub(super) struct KeySums<'a> {
    keys: Range<usize>,
    parts: [&'a mut [f32]; MOST],
    layout: Layout,
}

/// How [`KeySums`] lie in their parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Numbers of a key in its part, for k and v.
    widths: [usize; MOST_RANGES + 1],
    /// The sizes of the parts of terms.
    terms: [usize; TERM_INPUTS],
}

impl Layout {
    pub(super) fn new(engine: &Engine<'_>, terms: &[Part; TERM_INPUTS]) -> Self {
        let Shape { head_dim, value_dim, .. } = engine.operands.shape;
        let [near, far] = [0, 1].map(|range| if range < engine.operands.ranges.len() { head_dim } else { 0 });
        let size = |part: &Part| if let Part::Sums(size) = part { *size } else { 0 };
        Self { widths: [near, far, value_dim], terms: terms.each_ref().map(size) }
    }

    pub(super) fn sizes(&self, keys: usize) -> [usize; MOST] {
        let mut sizes = self.widths.into_iter().map(|width| keys * width).chain(self.terms);
        [(); MOST].map(|()| sizes.next().unwrap_or(0))
    }

    /// Zeros for some keys in a buffer that may have been used before.
    pub(super) fn zeros<'a>(&self, keys: Range<usize>, buffer: &'a mut Vec<f32>) -> KeySums<'a> {
        let count = self.sizes(keys.len()).iter().sum();
        buffer.clear();
        if buffer.capacity() < count {
            *buffer = Vec::with_capacity(count);
        }
        buffer.resize(count, 0.0);
        self.sums(keys, buffer)
    }

    /// Those of some keys in the buffer that was filled for them.
    pub(super) fn sums<'a>(&self, keys: Range<usize>, buffer: &'a mut [f32]) -> KeySums<'a> {
        let mut rest = Rest(buffer);
        let parts = self.sizes(keys.len()).map(|size| rest.next(size));
        KeySums { keys, parts, layout: *self }
    }
}

impl<'a> KeySums<'a> {
    /// Those of all keys in these parts.
    pub(super) fn of_all(keys: usize, parts: [&'a mut [f32]; MOST], layout: Layout) -> Self {
        Self { keys: 0..keys, parts, layout }
    }

    /// How they lie.
    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// The same for a shorter time.
    pub(super) fn reborrow(&mut self) -> KeySums<'_> {
        let parts = self.parts.each_mut().map(|part| &mut **part);
        KeySums { keys: self.keys.clone(), parts, layout: self.layout }
    }

    /// The sums of keys from `key` on, `[keys, head_dim]`, of a range.
    pub(super) fn k(&mut self, range: usize, key: usize) -> &mut [f32] {
        &mut self.parts[range][(key - self.keys.start) * self.layout.widths[range]..]
    }

    /// The sums of values from `key` on, `[keys, value_dim]`.
    pub(super) fn v(&mut self, key: usize) -> &mut [f32] {
        &mut self.parts[MOST_RANGES][(key - self.keys.start) * self.layout.widths[MOST_RANGES]..]
    }

    /// Adds those of other rows, all of whose keys are among these, on all threads.
    pub(super) fn add(&mut self, other: &KeySums<'_>) {
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

/// What each row of one key head's queries has alone: the gradients of q of each range, and of inputs of terms.
pub(super) struct OwnRows<'a> {
    pub(super) q: Vec<HeadRows<'a>>,
    /// Of width 0 where rows have no numbers of their own.
    pub(super) terms: Vec<HeadRows<'a>>,
}

impl<'a> OwnRows<'a> {
    /// The first rows, and the others.
    pub(super) fn split(self, rows: usize) -> [Self; 2] {
        let halves = |all: Vec<HeadRows<'a>>| -> (Vec<_>, Vec<_>) {
            all.into_iter().map(|one| one.split(rows).into()).unzip()
        };
        let ((first_q, last_q), (first, last)) = (halves(self.q), halves(self.terms));
        [Self { q: first_q, terms: first }, Self { q: last_q, terms: last }]
    }

    /// The gradient of a range's q from a row of a query head on.
    pub(super) fn q(&mut self, range: usize, member: usize, row: usize) -> &mut [f32] {
        self.q[range].from(member, row)
    }
}

/// Where terms add to gradients.
pub(super) struct Targets<'a> {
    /// That of the first q, from a row of a query head on.
    pub(super) queries: &'a mut [f32],
    /// That of the first k, from a key on.
    pub(super) keys: &'a mut [f32],
    /// Those of their inputs.
    pub(super) parts: [&'a mut [f32]; TERM_INPUTS],
}

impl<'a> Targets<'a> {
    pub(super) fn new(
        sums: &'a mut KeySums<'_>,
        own: &'a mut OwnRows<'_>,
        (member, row): (usize, usize),
        key: usize,
    ) -> Self {
        let first = (key - sums.keys.start) * sums.layout.widths[0];
        let [keys, _, _, parts @ ..] = &mut sums.parts;
        let mut rows = own.terms.iter_mut();
        let parts = parts.each_mut().map(|part| match rows.next() {
            Some(rows) if rows.width > 0 => rows.from(member, row),
            _ => &mut **part,
        });
        Self { queries: own.q[0].from(member, row), keys: &mut keys[first..], parts }
    }
}
