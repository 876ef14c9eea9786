//! Sums rounded to bf16 by the processor's own instruction, which comes with its dot products.
//!
//! It rounds as [`round`](super::round) does, but for numbers below 2^-126, which it takes for 0 as the dot products do.

use super::dot::{Arithmetic, arithmetic};
use super::number::{round, widen};
use burn::tensor::bf16;
use std::arch::x86_64::{
    __m256i, __m512, __m512i, _mm256_storeu_si256, _mm512_add_ps, _mm512_castsi512_ps, _mm512_cvtepu16_epi32,
    _mm512_cvtneps_pbh, _mm512_loadu_ps, _mm512_or_si512, _mm512_slli_epi32, _mm512_storeu_ps,
    _mm512_storeu_si512,
};
use std::mem::MaybeUninit;

/// Numbers of a register.
const LANES: usize = 16;

/// Whether the processor has the instruction.
pub(super) fn applies() -> bool {
    arithmetic() == Arithmetic::Dot
}

/// 16 numbers as bf16.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn rounded(x: &[f32; LANES]) -> __m256i {
    // SAFETY: 16 numbers are read; the two types are of the same 256 bits.
    unsafe { std::mem::transmute(_mm512_cvtneps_pbh(_mm512_loadu_ps(x.as_ptr()))) }
}

/// The same in f32.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn rounded_to_f32(x: &[f32; LANES]) -> __m512 {
    let bits: __m512i = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(rounded(x)));
    _mm512_castsi512_ps(bits)
}

/// See [`super::small`]: each number of a row with the one below, which is the upper half of a word.
///
/// # Safety
/// [`applies`] holds.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) unsafe fn pair_rows(upper: &[f32], lower: &[f32], words: &mut [u32]) {
    let (words, words_rest) = words.as_chunks_mut::<LANES>();
    let (upper, upper_rest) = upper.as_chunks::<LANES>();
    let (lower, lower_rest) = lower.as_chunks::<LANES>();
    for ((words, upper), lower) in words.iter_mut().zip(upper).zip(lower) {
        let [upper, lower] = [upper, lower].map(|x| _mm512_cvtepu16_epi32(rounded(x)));
        let pairs = _mm512_or_si512(upper, _mm512_slli_epi32::<16>(lower));
        // SAFETY: 16 words are written.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), pairs) };
    }
    for ((word, upper), lower) in words_rest.iter_mut().zip(upper_rest).zip(lower_rest) {
        *word = u32::from(round(*upper).to_bits()) | u32::from(round(*lower).to_bits()) << 16;
    }
}

/// See [`super::slices::round_all`].
///
/// # Safety
/// [`applies`] holds.
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) unsafe fn round_all(x: &[f32], out: &mut [MaybeUninit<bf16>]) {
    let (x, x_rest) = x[..out.len()].as_chunks::<LANES>();
    let (out, out_rest) = out.as_chunks_mut::<LANES>();
    for (out, x) in out.iter_mut().zip(x) {
        // SAFETY: 16 numbers are written.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), rounded(x)) };
    }
    for (out, x) in out_rest.iter_mut().zip(x_rest) {
        out.write(round(*x));
    }
}

/// See [`Number::round_scaled`](crate::machine::simd::Number::round_scaled).
///
/// # Safety
/// As for [`round_all`].
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) unsafe fn round_scaled(x: &[f32], factor: f32, out: &mut [bf16]) {
    let (x, x_rest) = x[..out.len()].as_chunks::<LANES>();
    let (out, out_rest) = out.as_chunks_mut::<LANES>();
    for (out, x) in out.iter_mut().zip(x) {
        // SAFETY: 16 numbers are written.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), rounded(&x.map(|x| x * factor))) };
    }
    for (out, x) in out_rest.iter_mut().zip(x_rest) {
        *out = round(x * factor);
    }
}

/// See [`super::slices::round_to_f32`].
///
/// # Safety
/// As for [`round_all`].
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) unsafe fn round_to_f32(x: &[f32], out: &mut [MaybeUninit<f32>]) {
    let (x, x_rest) = x[..out.len()].as_chunks::<LANES>();
    let (out, out_rest) = out.as_chunks_mut::<LANES>();
    for (out, x) in out.iter_mut().zip(x) {
        // SAFETY: 16 numbers are written.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr().cast(), rounded_to_f32(x)) };
    }
    for (out, x) in out_rest.iter_mut().zip(x_rest) {
        out.write(widen(round(*x)));
    }
}

/// See [`super::slices::round_onto`].
///
/// # Safety
/// As for [`round_all`].
#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) unsafe fn round_onto(x: &[f32], onto: &[f32], out: &mut [MaybeUninit<f32>]) {
    let (x, x_rest) = x[..out.len()].as_chunks::<LANES>();
    let (onto, onto_rest) = onto[..out.len()].as_chunks::<LANES>();
    let (out, out_rest) = out.as_chunks_mut::<LANES>();
    for (out, (x, onto)) in out.iter_mut().zip(x.iter().zip(onto)) {
        // SAFETY: 16 numbers are read and written.
        unsafe {
            let sum = _mm512_add_ps(_mm512_loadu_ps(onto.as_ptr()), rounded_to_f32(x));
            _mm512_storeu_ps(out.as_mut_ptr().cast(), sum);
        }
    }
    for (out, (x, onto)) in out_rest.iter_mut().zip(x_rest.iter().zip(onto_rest)) {
        out.write(onto + widen(round(*x)));
    }
}
