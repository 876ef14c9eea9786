//! New buffers, first touched by the thread that fills them.
//!
//! `vec![0.0; n]` clears (or faults in) the whole buffer on one thread before the work starts, which
//! for the cheap operations takes as long as the work itself.

use rayon::prelude::*;
use std::mem::MaybeUninit;

/// Elements per task where nothing else decides.
pub(crate) const GRAIN: usize = 1 << 14;

/// `count` values, filled in chunks of `chunk` in parallel: `compute` receives the chunk's index and
/// the chunk, which holds zeros.
pub(crate) fn computed(count: usize, chunk: usize, compute: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f32> {
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

/// `count` zeros.
pub(crate) fn zeros(count: usize) -> Vec<f32> {
    computed(count, GRAIN, |_, _| ())
}

#[cfg(test)]
mod tests {
    use super::*;

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
