//! Numbers of f32 as bf16 and back.

use crate::machine::buffers::{GRAIN, written};
use crate::machine::simd::{Number, vectorised};
use burn::tensor::bf16;
use std::mem::MaybeUninit;

/// Every number as bf16.
pub(crate) fn rounded(values: &[f32]) -> Vec<bf16> {
    written(values.len(), GRAIN, |task, out| round_all(&values[task * GRAIN..], out))
}

/// Every number in f32.
pub(crate) fn widened(values: &[bf16]) -> Vec<f32> {
    written(values.len(), GRAIN, |task, out| widen_into(&values[task * GRAIN..], out))
}

impl Number for bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    /// Of two the even one; NaN stays NaN.
    #[inline(always)]
    fn round(x: f32) -> Self {
        let bits = x.to_bits();
        let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        // A NaN keeps its sign and upper digits; the first digit set, it stays one.
        let nan = bits >> 16 | 0x40;
        Self::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { nan } else { nearest } as u16)
    }

    fn round_scaled(x: &[f32], factor: f32, out: &mut [Self]) {
        round_scaled(x, factor, out);
    }
}

vectorised! {
    /// In bf16, the first numbers of x, as many as there are places.
    pub(super) fn round_all(x: &[f32], out: &mut [MaybeUninit<bf16>]) {
        let x = &x[..out.len()];
        for (out, x) in out.iter_mut().zip(x) {
            out.write(bf16::round(*x));
        }
    }

    /// The same, and back to f32.
    pub(super) fn round_to_f32(x: &[f32], out: &mut [MaybeUninit<f32>]) {
        let x = &x[..out.len()];
        for (out, x) in out.iter_mut().zip(x) {
            out.write(bf16::round(*x).widen());
        }
    }

    /// The same, added to numbers of f32.
    pub(super) fn round_onto(x: &[f32], onto: &[f32], out: &mut [MaybeUninit<f32>]) {
        let (x, onto) = (&x[..out.len()], &onto[..out.len()]);
        for ((out, x), onto) in out.iter_mut().zip(x).zip(onto) {
            out.write(onto + bf16::round(*x).widen());
        }
    }

    fn round_scaled(x: &[f32], factor: f32, out: &mut [bf16]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = bf16::round(x * factor);
        }
    }

    /// In f32, the first numbers of x, as many as there are places.
    fn widen_into(x: &[bf16], out: &mut [MaybeUninit<f32>]) {
        let x = &x[..out.len()];
        for (out, x) in out.iter_mut().zip(x) {
            out.write(x.widen());
        }
    }
}
