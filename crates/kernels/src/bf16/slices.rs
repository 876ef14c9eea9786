//! Numbers of f32 as bf16 and back.

use crate::buffers::{GRAIN, computed};
use crate::simd::vectorised;
use burn::tensor::bf16;
use rayon::prelude::*;
use std::mem::MaybeUninit;

/// The nearest bf16, of two the even one; NaN stays NaN.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
pub(crate) fn round(x: f32) -> bf16 {
    let bits = x.to_bits();
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    // A NaN keeps its sign and upper digits; the first digit set, it stays one.
    let nan = bits >> 16 | 0x40;
    bf16::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { nan } else { nearest } as u16)
}

/// The same number in f32.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
pub(crate) fn widen(x: bf16) -> f32 {
    f32::from_bits(u32::from(x.to_bits()) << 16)
}

/// Every number as bf16.
pub(crate) fn rounded(values: &[f32]) -> Vec<bf16> {
    filled(values.len(), GRAIN, |task, out| round_all(&values[task * GRAIN..], out))
}

/// Every number in f32.
pub(crate) fn widened(values: &[bf16]) -> Vec<f32> {
    computed(values.len(), GRAIN, |task, out| widen_all(&values[task * GRAIN..], out))
}

/// The same on the calling thread, for a part of a task.
pub(crate) fn widened_part(values: &[bf16]) -> Vec<f32> {
    let mut out = Vec::with_capacity(values.len());
    widen_into(values, &mut out.spare_capacity_mut()[..values.len()]);
    // SAFETY: as many numbers as there are values were written.
    unsafe { out.set_len(values.len()) };
    out
}

/// `count` numbers that are computed in f32 and kept in bf16, in chunks in parallel: `compute` receives the chunk's
/// index and the chunk, all of which it must write: it holds whatever was computed before.
pub(crate) fn made(count: usize, chunk: usize, compute: impl Fn(usize, &mut [f32]) + Sync) -> Vec<bf16> {
    let scratch = || vec![0.0; chunk.min(count)];
    let mut values = Vec::with_capacity(count);
    let chunks = values.spare_capacity_mut()[..count].par_chunks_mut(chunk.max(1));
    chunks.enumerate().for_each_init(scratch, |scratch, (index, out)| {
        let scratch = &mut scratch[..out.len()];
        compute(index, scratch);
        round_all(scratch, out);
    });
    // SAFETY: the chunks cover the first `count` elements, and each was written.
    unsafe { values.set_len(count) };
    values
}

/// `count` numbers in chunks in parallel; `fill` must write all of its chunk.
fn filled(count: usize, chunk: usize, fill: impl Fn(usize, &mut [MaybeUninit<bf16>]) + Sync) -> Vec<bf16> {
    let mut values = Vec::with_capacity(count);
    let chunks = values.spare_capacity_mut()[..count].par_chunks_mut(chunk);
    chunks.enumerate().for_each(|(index, chunk)| fill(index, chunk));
    // SAFETY: the chunks cover the first `count` elements, and each was written.
    unsafe { values.set_len(count) };
    values
}

vectorised! {
    /// The first numbers of x, as many as there are places.
    pub(super) fn round_all(x: &[f32], out: &mut [MaybeUninit<bf16>]) {
        let x = &x[..out.len()];
        for (out, x) in out.iter_mut().zip(x) {
            out.write(round(*x));
        }
    }

    /// The same, and back to f32.
    pub(super) fn round_to_f32(x: &[f32], out: &mut [MaybeUninit<f32>]) {
        let x = &x[..out.len()];
        for (out, x) in out.iter_mut().zip(x) {
            out.write(widen(round(*x)));
        }
    }

    /// The same, added to numbers of f32.
    pub(super) fn round_onto(x: &[f32], onto: &[f32], out: &mut [MaybeUninit<f32>]) {
        let (x, onto) = (&x[..out.len()], &onto[..out.len()]);
        for ((out, x), onto) in out.iter_mut().zip(x).zip(onto) {
            out.write(onto + widen(round(*x)));
        }
    }

    fn widen_into(x: &[bf16], out: &mut [MaybeUninit<f32>]) {
        let x = &x[..out.len()];
        for (out, x) in out.iter_mut().zip(x) {
            out.write(widen(*x));
        }
    }

    /// In f32, the first numbers of x, as many as there are places.
    pub(crate) fn widen_all(x: &[bf16], out: &mut [f32]) {
        let x = &x[..out.len()];
        for (out, x) in out.iter_mut().zip(x) {
            *out = widen(*x);
        }
    }
}
