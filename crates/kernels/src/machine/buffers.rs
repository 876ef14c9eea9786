//! New buffers, first touched by the thread that fills them.
//!
//! `vec![0.0; n]` clears (or faults in) the whole buffer on one thread before the work starts, which
//! for the cheap operations takes as long as the work itself.
//!
//! A buffer that is larger than the caches is written past them ([`StreamingWriter`], the only code that does so). An
//! ordinary store first reads the line that it overwrites: a third of all bytes that an operation with one input and one
//! output moves.

use crate::machine::simd::{LANES, add};
use rayon::prelude::*;
use std::mem::MaybeUninit;

/// Elements per task where nothing else decides.
pub(crate) const GRAIN: usize = 1 << 14;

/// From so many bytes on (16 MiB) a buffer is taken to leave the caches before it is read again.
const STREAMED: usize = if cfg!(miri) { 1 << 8 } else { 1 << 24 };
/// The most bytes (64 KiB) of a chunk that is made in the nearest caches and then moved out.
const STREAMED_CHUNK: usize = 1 << 16;

/// Elements of the narrowest vector instruction.
const FOUR: usize = 4;

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
    if past_caches::<T>(count) && (1..=STREAMED_CHUNK / size_of::<T>()).contains(&chunk) {
        return streamed(count, chunk, write);
    }
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

/// The same with something beside each chunk, which `write` may change too; never past the caches.
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

/// [`written`] past the caches: each chunk is made in one small buffer and moved to where it belongs.
fn streamed<T: Copy + Send>(
    count: usize,
    chunk: usize,
    write: impl Fn(usize, &mut [MaybeUninit<T>]) + Sync,
) -> Vec<T> {
    let mut values = Vec::with_capacity(count);
    let chunks = values.spare_capacity_mut()[..count].par_chunks_mut(chunk);
    chunks.enumerate().for_each_init(
        || (vec![MaybeUninit::uninit(); chunk], StreamingWriter::new(true)),
        |(made, writer), (index, chunk)| {
            let made = &mut made[..chunk.len()];
            write(index, made);
            // SAFETY: `write` has filled it.
            writer.copy(unsafe { made.assume_init_ref() }, chunk);
        },
    );
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

/// Whether the outputs of an operation, of `count` elements together, are written past the caches.
pub(crate) fn past_caches<T>(count: usize) -> bool {
    count * size_of::<T>() >= STREAMED
}

/// Writes numbers, past the caches if asked to.
///
/// A store past the caches may become visible to other threads after later stores. So the writer ends with a store fence
/// when it is dropped, also by a panic. Whoever uses the buffer next, or its memory once it is freed, then finds every
/// number. A task has one writer, and shares nothing before the writer is dropped.
#[derive(Debug)]
pub(crate) struct StreamingWriter {
    past: bool,
}

impl StreamingWriter {
    /// A writer past the caches, or an ordinary one.
    pub(crate) fn new(past: bool) -> Self {
        Self { past }
    }

    /// `to = x`; past the caches only if `to` lies at a multiple of 16 bytes and N is one of 4.
    #[inline(always)]
    pub(crate) fn put<const N: usize>(&self, to: &mut [MaybeUninit<f32>; N], x: &[f32; N]) {
        #[cfg(target_arch = "x86_64")]
        if self.past && N.is_multiple_of(FOUR) && to.as_ptr().addr().is_multiple_of(FOUR * size_of::<f32>()) {
            for at in (0..N).step_by(FOUR) {
                // SAFETY: four elements from `at` lie inside both arrays, and `to[at]` is aligned to 16 bytes.
                unsafe { store_past_caches(to.as_mut_ptr().add(at), x.as_ptr().add(at)) };
            }
            return;
        }
        *to = x.map(MaybeUninit::new);
    }

    /// Writes all of `to`, of the length of `from`. The size of T divides that of f32.
    fn copy<T: Copy>(&self, from: &[T], to: &mut [MaybeUninit<T>]) {
        const BLOCK: usize = LANES * size_of::<f32>();
        assert_eq!(from.len(), to.len());
        // Lines are written whole if they begin where the processor's do.
        let head = to.as_ptr().align_offset(FOUR * size_of::<f32>()).min(to.len());
        let (from_head, from) = from.split_at(head);
        let (to_head, to) = to.split_at_mut(head);
        let count = BLOCK / size_of::<T>();
        let (mut from, mut to) = (from.chunks_exact(count), to.chunks_exact_mut(count));
        to_head.write_copy_of_slice(from_head);
        for (from, to) in from.by_ref().zip(to.by_ref()) {
            let mut block = [0.0_f32; LANES];
            // SAFETY: both chunks and the block have `BLOCK` bytes, and `to` is aligned to 16 bytes. The bits of f32 that the
            // block takes on the way are not changed.
            unsafe {
                block.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from.as_ptr().cast(), BLOCK);
                self.put(&mut *to.as_mut_ptr().cast::<[MaybeUninit<f32>; LANES]>(), &block);
            }
        }
        to.into_remainder().write_copy_of_slice(from.remainder());
    }
}

impl Drop for StreamingWriter {
    fn drop(&mut self) {
        if self.past {
            fence();
        }
    }
}

/// Writes four numbers past the caches.
///
/// # Safety
/// Four numbers may be read at `from` and written at `to`, and `to` is aligned to 16 bytes.
#[cfg(all(target_arch = "x86_64", not(any(miri, instrumented))))]
#[inline(always)]
unsafe fn store_past_caches(to: *mut MaybeUninit<f32>, from: *const f32) {
    use std::arch::x86_64::{_mm_loadu_ps, _mm_stream_ps};
    // SAFETY: the caller's promise. SSE is part of every x86-64 processor.
    unsafe { _mm_stream_ps(to.cast(), _mm_loadu_ps(from)) };
}

/// The same with an ordinary store: the streaming one is inline assembly, which Miri cannot run and which sanitizers do
/// not see.
///
/// # Safety
/// As above.
#[cfg(all(target_arch = "x86_64", any(miri, instrumented)))]
unsafe fn store_past_caches(to: *mut MaybeUninit<f32>, from: *const f32) {
    assert!(to.addr().is_multiple_of(FOUR * size_of::<f32>()), "a streaming store needs an aligned address");
    // SAFETY: the caller's promise.
    unsafe { to.cast::<[f32; FOUR]>().write(from.cast::<[f32; FOUR]>().read()) };
}

/// Waits until what this thread wrote past the caches is where other threads find it.
fn fence() {
    #[cfg(all(target_arch = "x86_64", not(any(miri, instrumented))))]
    {
        // SAFETY: SSE is part of every x86-64 processor.
        unsafe { std::arch::x86_64::_mm_sfence() };
    }
    #[cfg(test)]
    tests::FENCES.with(|fences| fences.set(fences.get() + 1));
}

pub(crate) fn zeros(count: usize) -> Vec<f32> {
    computed(count, 2 * STREAMED_CHUNK / size_of::<f32>(), |_, _| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    thread_local! {
        /// Fences of this thread.
        pub(super) static FENCES: Cell<usize> = const { Cell::new(0) };
    }

    fn fences() -> usize {
        FENCES.with(Cell::get)
    }

    #[test]
    fn a_writer_past_the_caches_ends_with_a_fence() {
        let mut out = [MaybeUninit::uninit(); 64];
        let before = fences();
        {
            let writer = StreamingWriter::new(true);
            out.as_chunks_mut::<16>().0.iter_mut().for_each(|out| writer.put(out, &[2.0; 16]));
            assert_eq!(fences(), before, "one fence for all that a task writes");
        }
        assert_eq!(fences(), before + 1);
        // SAFETY: all of it was written.
        assert!(out.iter().all(|x| unsafe { x.assume_init() }.to_bits() == 2.0_f32.to_bits()));
        drop(StreamingWriter::new(false));
        assert_eq!(fences(), before + 1, "an ordinary write needs none");
    }

    #[test]
    fn a_panic_does_not_leave_without_the_fence() {
        let before = fences();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let writer = StreamingWriter::new(true);
            writer.put(&mut [MaybeUninit::uninit(); 4], &[1.0; 4]);
            panic!("in the middle of a task");
        }));
        assert!(panicked.is_err());
        assert_eq!(fences(), before + 1);
    }

    #[test]
    fn copies_of_every_length_from_every_address() {
        for (start, length) in [(0, 0), (1, 2), (2, 3), (3, 40), (1, 64), (0, 17), (2, 100), (1, 120)] {
            copies(start, length, |n| n as f32);
            copies(start, length, |n| n as u16);
        }
    }

    fn copies<T: Copy + PartialEq + std::fmt::Debug>(start: usize, length: usize, number: fn(usize) -> T) {
        let from: Vec<T> = (1..=start + length).map(number).collect();
        let mut out = vec![MaybeUninit::new(number(0)); 128];
        StreamingWriter::new(true).copy(&from[start..], &mut out[start..start + length]);
        // SAFETY: it held numbers from the start.
        let out: Vec<T> = out.into_iter().map(|x| unsafe { x.assume_init() }).collect();
        assert_eq!(out[start..start + length], from[start..], "{start} {length}");
        assert!(
            out[..start].iter().chain(&out[start + length..]).all(|x| *x == number(0)),
            "{start} {length}"
        );
    }

    #[test]
    fn a_streamed_buffer_holds_the_same() {
        holds_the_same(|n| n as f32);
        holds_the_same(|n| n as u16);
    }

    fn holds_the_same<T: Copy + Send + PartialEq + std::fmt::Debug>(number: fn(usize) -> T) {
        let write = |index: usize, chunk: &mut [MaybeUninit<T>]| {
            for (n, x) in chunk.iter_mut().enumerate() {
                x.write(number(index * 31 + n));
            }
        };
        // Chunks that begin anywhere, and a short last one.
        for (count, chunk) in [(1000, 64), (1001, 7), (999, 1000), (64, 3), (5, 1)] {
            assert_eq!(streamed(count, chunk, write), written(count, chunk, write), "{count} {chunk}");
        }
        assert!(streamed(0, 4, write).is_empty());
        let large = STREAMED / size_of::<T>();
        let chunks = rayon::iter::repeat_n((), large.div_ceil(GRAIN));
        let expected = written_beside(large, GRAIN, chunks, |index, chunk, ()| write(index, chunk));
        assert_eq!(written(large, GRAIN, write), expected);
    }

    /// Also where a small buffer is used again.
    #[test]
    fn chunks_come_with_zeros() {
        for count in [3 * GRAIN + 1, STREAMED / size_of::<f32>()] {
            let ones = computed(count, GRAIN, |_, chunk| {
                assert!(chunk.iter().all(|x| x.to_bits() == 0));
                chunk.fill(1.0);
            });
            assert!(ones.iter().all(|x| x.to_bits() == 1.0_f32.to_bits()));
        }
    }

    #[test]
    fn every_chunk_is_filled_once() {
        let values = computed(2 * GRAIN + 3, GRAIN, |index, chunk| {
            for (n, x) in chunk.iter_mut().enumerate() {
                *x += (index * GRAIN + n) as f32;
            }
        });
        assert_eq!(values.len(), 2 * GRAIN + 3);
        assert!(values.iter().zip(0_u16..).all(|(x, n)| x.to_bits() == f32::from(n).to_bits()));
        assert_eq!(zeros(5), [0.0; 5]);
        assert!(computed(0, 0, |_, _| ()).is_empty());
    }
}
