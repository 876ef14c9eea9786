//! New buffers, first touched by the thread that fills them.
//!
//! `vec![0.0; n]` clears (or faults in) the whole buffer on one thread before the work starts, which
//! for the cheap operations takes as long as the work itself.

use crate::machine::simd::add;
use rayon::prelude::*;
use std::mem::MaybeUninit;

/// Elements per task where nothing else decides.
pub(crate) const GRAIN: usize = 1 << 14;

/// `count` values, filled in chunks of `chunk` in parallel: `compute` receives the chunk's index and
/// the chunk, which holds zeros.
pub(crate) fn computed(count: usize, chunk: usize, compute: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f32> {
    written(count, chunk, |index, chunk| {
        chunk.fill(MaybeUninit::new(0.0));
        // SAFETY: all of the chunk has just been written.
        compute(index, unsafe { chunk.assume_init_mut() });
    })
}

/// The same without the zeros, for any numbers: `write` must fill all of its chunk.
pub(crate) fn written<T: Copy + Send>(
    count: usize,
    chunk: usize,
    write: impl Fn(usize, &mut [MaybeUninit<T>]) + Sync,
) -> Vec<T> {
    let chunks = count.div_ceil(chunk.max(1));
    written_beside(count, chunk, rayon::iter::repeat_n((), chunks), |index, chunk, ()| write(index, chunk))
}

/// [`written`], where `write` receives at which number the chunk begins.
pub(crate) fn filled<T: Copy + Send>(
    count: usize,
    chunk: usize,
    write: impl Fn(usize, &mut [MaybeUninit<T>]) + Sync,
) -> Vec<T> {
    written(count, chunk, |index, out| write(index * chunk, out))
}

/// Numbers of a task in whole rows of so many.
pub(crate) fn whole_rows(row: usize) -> usize {
    GRAIN.div_ceil(row) * row
}

/// The same with something beside each chunk, which `write` may change too.
///
/// # Panics
/// There are more or fewer of these than chunks.
pub(crate) fn written_beside<T: Copy + Send, U: Send>(
    count: usize,
    chunk: usize,
    beside: impl IndexedParallelIterator<Item = U>,
    write: impl Fn(usize, &mut [MaybeUninit<T>], U) + Sync,
) -> Vec<T> {
    let mut values = Vec::with_capacity(count);
    let chunks = values.spare_capacity_mut()[..count].par_chunks_mut(chunk.max(1));
    assert_eq!(chunks.len(), beside.len(), "what stands beside the chunks");
    chunks.zip(beside).enumerate().for_each(|(index, (chunk, beside))| write(index, chunk, beside));
    // SAFETY: the chunks cover the first `count` elements, and each was written.
    unsafe { values.set_len(count) };
    values
}

/// For tasks that each work on a part of all rows of `row` numbers: the first `part` numbers of each, then the next ones, and
/// so on.
pub(crate) fn parts_of_all(x: &mut [f32], row: usize, part: usize) -> Vec<Vec<&mut [f32]>> {
    let mut tasks: Vec<Vec<_>> = (0..row.div_ceil(part)).map(|_| Vec::new()).collect();
    for row in x.chunks_mut(row) {
        for (task, part) in tasks.iter_mut().zip(row.chunks_mut(part)) {
            task.push(part);
        }
    }
    tasks
}

/// What is left of a buffer that is handed out part after part; sizes may be 0.
pub(crate) struct Rest<'a>(pub(crate) &'a mut [f32]);

impl<'a> Rest<'a> {
    pub(crate) fn next(&mut self, size: usize) -> &'a mut [f32] {
        let (part, after) = std::mem::take(&mut self.0).split_at_mut(size);
        self.0 = after;
        part
    }
}

/// Consecutive parts of one size, of which every `count` are added in their order.
pub(crate) fn joined(parts: Vec<f32>, size: usize, count: usize) -> Vec<f32> {
    if count == 1 || size == 0 {
        return parts;
    }
    let mut sums = zeros(parts.len() / count);
    sums.par_chunks_mut(size).zip(parts.par_chunks(count * size)).for_each(|(sums, parts)| {
        parts.chunks(size).for_each(|part| add(sums, part));
    });
    sums
}

pub(crate) fn zeros(count: usize) -> Vec<f32> {
    computed(count, 1 << 15, |_, _| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_threads;

    /// Chunks that begin anywhere, and a short last one.
    #[test]
    fn every_chunk_comes_with_zeros_and_is_filled_once() {
        let large = if cfg!(miri) { (150, 64) } else { (3 * GRAIN + 1, GRAIN) };
        for (count, chunk) in [(0, 4), (5, 1), (50, 16), (150, 7), (70, 100), large] {
            let values = on_threads(2, || {
                computed(count, chunk, |index, out| {
                    assert!(out.iter().all(|x| x.to_bits() == 0), "{count} in chunks of {chunk}");
                    for (n, x) in out.iter_mut().enumerate() {
                        *x += (index * chunk + n) as f32;
                    }
                })
            });
            let expected: Vec<f32> = (0..count).map(|n| n as f32).collect();
            assert_eq!(values, expected, "{count} in chunks of {chunk}");
        }
        assert_eq!(zeros(5), [0.0; 5]);
    }

    #[test]
    fn what_stands_beside_a_chunk_comes_with_it() {
        let mut sizes = vec![0_usize; 4];
        let values: Vec<u16> = on_threads(2, || {
            written_beside(50, 16, sizes.par_iter_mut(), |index, chunk, size| {
                chunk.fill(MaybeUninit::new(index as u16));
                *size = chunk.len();
            })
        });
        assert!(values.iter().enumerate().all(|(n, x)| usize::from(*x) == n / 16));
        assert_eq!(sizes, [16, 16, 16, 2]);
    }
}
