//! New buffers, first touched by the thread that fills them.
//!
//! `vec![0.0; n]` clears (or faults in) the whole buffer on one thread before the work starts, which
//! for the cheap operations takes as long as the work itself.
//!
//! A buffer that no cache holds is written past the caches: an ordinary store first reads the line that it
//! is about to overwrite, a third of all bytes that an operation of one input and one output moves.

use rayon::prelude::*;
use std::mem::MaybeUninit;

/// Elements per task where nothing else decides.
pub(crate) const GRAIN: usize = 1 << 14;

/// From so many elements on (16 MiB) a buffer is taken to leave the caches before it is read again.
const STREAMED: usize = 1 << 22;
/// The most elements (64 KiB) of a chunk that is made in the nearest caches and then moved out.
const STREAMED_CHUNK: usize = 1 << 14;

/// Elements of the narrowest vector instruction.
#[cfg(target_arch = "x86_64")]
const FOUR: usize = 4;

/// `count` values, filled in chunks of `chunk` in parallel: `compute` receives the chunk's index and
/// the chunk, which holds zeros.
pub(crate) fn computed(count: usize, chunk: usize, compute: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f32> {
    if count >= STREAMED && (1..=STREAMED_CHUNK).contains(&chunk) {
        return streamed(count, chunk, compute);
    }
    let mut values = Vec::with_capacity(count);
    let chunks = values.spare_capacity_mut()[..count].par_chunks_mut(chunk.max(1));
    chunks.enumerate().for_each(|(index, chunk)| {
        chunk.fill(MaybeUninit::new(0.0));
        // SAFETY: all of the chunk has just been written.
        compute(index, unsafe { chunk.assume_init_mut() });
    });
    // SAFETY: the chunks cover the first `count` elements, and each was written.
    unsafe { values.set_len(count) };
    values
}

/// [`computed`] past the caches: each chunk is made in one small buffer and moved to where it belongs.
fn streamed(count: usize, chunk: usize, compute: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f32> {
    let mut values = Vec::with_capacity(count);
    let chunks = values.spare_capacity_mut()[..count].par_chunks_mut(chunk);
    chunks.enumerate().for_each_init(
        || vec![0.0; chunk],
        |made, (index, chunk)| {
            let made = &mut made[..chunk.len()];
            made.fill(0.0);
            compute(index, made);
            move_past_caches(made, chunk);
        },
    );
    // SAFETY: the chunks cover the first `count` elements, and each was written.
    unsafe { values.set_len(count) };
    values
}

/// Whether the outputs of an operation, of `count` elements together, are written past the caches.
pub(crate) fn past_caches(count: usize) -> bool {
    count >= STREAMED
}

/// `to = x`; past the caches if `past`, where `to` lies at a multiple of 16 bytes and N is one of 4. Whoever
/// writes so calls [`settle`] before another thread reads.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
pub(crate) fn put<const N: usize>(to: &mut [MaybeUninit<f32>; N], x: &[f32; N], past: bool) {
    #[cfg(target_arch = "x86_64")]
    if past && N.is_multiple_of(FOUR) && to.as_ptr().addr().is_multiple_of(FOUR * size_of::<f32>()) {
        use std::arch::x86_64::{_mm_loadu_ps, _mm_stream_ps};
        for at in (0..N).step_by(FOUR) {
            // SAFETY: four elements from `at` lie inside both arrays, and `to[at]` is aligned to 16 bytes. SSE is
            // part of every x86-64 processor.
            unsafe { _mm_stream_ps(to.as_mut_ptr().add(at).cast(), _mm_loadu_ps(x.as_ptr().add(at))) };
        }
        return;
    }
    let _ = past;
    *to = x.map(MaybeUninit::new);
}

/// Lets other threads see what this one wrote past the caches.
pub(crate) fn settle(past: bool) {
    #[cfg(target_arch = "x86_64")]
    if past {
        // SAFETY: SSE is part of every x86-64 processor.
        unsafe { std::arch::x86_64::_mm_sfence() };
    }
    let _ = past;
}

/// Writes all of `to`.
#[cfg(target_arch = "x86_64")]
fn move_past_caches(from: &[f32], to: &mut [MaybeUninit<f32>]) {
    use std::arch::x86_64::{_mm_loadu_ps, _mm_sfence, _mm_stream_ps};
    assert_eq!(from.len(), to.len());
    // Lines are written whole if they begin where the processor's do.
    let head = to.as_ptr().align_offset(FOUR * size_of::<f32>()).min(to.len());
    let body = head + (to.len() - head) / FOUR * FOUR;
    to[..head].write_copy_of_slice(&from[..head]);
    to[body..].write_copy_of_slice(&from[body..]);
    for at in (head..body).step_by(FOUR) {
        // SAFETY: four elements from `at` lie inside both slices, and `to[at]` is aligned to 16 bytes. SSE is
        // part of every x86-64 processor.
        unsafe { _mm_stream_ps(to.as_mut_ptr().add(at).cast(), _mm_loadu_ps(from.as_ptr().add(at))) };
    }
    // SAFETY: as above. Whoever reads the buffer next sees what was written here.
    unsafe { _mm_sfence() };
}

/// Writes all of `to`.
#[cfg(not(target_arch = "x86_64"))]
fn move_past_caches(from: &[f32], to: &mut [MaybeUninit<f32>]) {
    to.write_copy_of_slice(from);
}

/// `count` zeros.
pub(crate) fn zeros(count: usize) -> Vec<f32> {
    computed(count, 2 * STREAMED_CHUNK, |_, _| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streamed_buffer_holds_the_same() {
        let fill = |index: usize, chunk: &mut [f32]| {
            assert!(chunk.iter().all(|x| x.to_bits() == 0), "chunks come with zeros");
            for (n, x) in chunk.iter_mut().enumerate().skip(index % 2) {
                *x = (index * 31 + n) as f32;
            }
        };
        // Chunks that begin anywhere, and a short last one.
        for (count, chunk) in [(1000, 64), (1001, 7), (999, 1000), (64, 3), (5, 1)] {
            let expected: Vec<f32> = computed(count, chunk, fill);
            assert_eq!(streamed(count, chunk, fill), expected, "{count} {chunk}");
        }
        assert!(streamed(0, 4, fill).is_empty());
        assert_eq!(computed(STREAMED, GRAIN, fill), streamed(STREAMED, GRAIN, fill));
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
