//! One number of f32 as bf16 and back.

use burn::tensor::bf16;

/// The nearest bf16, of two the even one; NaN stays NaN.
#[inline(always)]
pub(crate) fn round(x: f32) -> bf16 {
    let bits = x.to_bits();
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    // A NaN keeps its sign and upper digits; the first digit set, it stays one.
    let nan = bits >> 16 | 0x40;
    bf16::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { nan } else { nearest } as u16)
}

/// The same number in f32.
#[inline(always)]
pub(crate) fn widen(x: bf16) -> f32 {
    f32::from_bits(u32::from(x.to_bits()) << 16)
}
