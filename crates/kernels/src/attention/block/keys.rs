//! Stretches of keys, and keys with the channels as rows.

use crate::machine::matmul::Matrix;
use crate::machine::simd::LANES;
use rayon::prelude::*;
use std::ops::Range;

/// A stretch of keys `start..end` that is read with the q and k of one range of distances, from column `at` of the
/// logits.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::attention) struct Segment {
    pub(in crate::attention) range: usize,
    pub(in crate::attention) start: usize,
    pub(in crate::attention) end: usize,
    pub(in crate::attention) at: usize,
}

impl Segment {
    pub(in crate::attention) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(in crate::attention) fn columns(&self, run: &Range<usize>) -> Range<usize> {
        self.at + run.start - self.start..self.at + run.end - self.start
    }
}

/// Rows of so many bytes, or a multiple, would fall on few sets of the nearest caches.
const CROWDED: usize = 512;

/// From so many numbers on, several threads turn them.
const SHARED: usize = 1 << 17;

/// Keys or values with the channels as rows: the matrix product would otherwise turn them around for
/// every block.
#[derive(Default)]
pub(in crate::attention) struct Transposed {
    /// `[width, stride]`.
    values: Vec<f32>,
    segments: [Segment; 2],
    width: usize,
    stride: usize,
}

impl Transposed {
    /// Takes the keys or values `[len, width]` of each segment.
    pub(in crate::attention) fn fill<'a>(
        &mut self,
        segments: [Segment; 2],
        width: usize,
        matrix: impl Fn(&Segment) -> Matrix<'a> + Sync,
    ) {
        let mut columns = 0;
        self.segments = segments.map(|segment| {
            let own = Segment { at: columns, ..segment };
            columns += own.len();
            own
        });
        let stride = columns.next_multiple_of(LANES);
        let crowded = (stride * size_of::<f32>()).is_multiple_of(CROWDED);
        (self.width, self.stride) = (width, stride + if crowded { LANES } else { 0 });
        self.values.resize(width * self.stride, 0.0);
        let (segments, stride) = (self.segments, self.stride);
        let fill = |(index, values): (usize, &mut [f32])| {
            let (first, count) = (index * LANES, values.len() / stride);
            for segment in segments.iter().filter(|segment| segment.len() > 0) {
                let channels = matrix(segment).columns(first, count);
                channels.transpose_into(&mut values[segment.at..], stride);
            }
        };
        if columns == 0 {
            return;
        }
        // Whoever waits for many keys has help.
        if columns * width < SHARED {
            self.values.chunks_mut(LANES * stride).enumerate().for_each(fill);
        } else {
            self.values.par_chunks_mut(LANES * stride).enumerate().for_each(fill);
        }
    }

    /// The channels of a segment's keys, `[width, len]`.
    pub(in crate::attention) fn of(&self, segment: &Segment) -> Matrix<'_> {
        let holds = |own: &&Segment| own.start <= segment.start && segment.end <= own.end;
        let own = self.segments.iter().find(holds).expect("the rows that were transposed see more");
        let at = own.at + segment.start - own.start;
        Matrix::new(&self.values[at..], self.width, segment.len(), self.stride)
    }
}
