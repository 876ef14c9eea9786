//! Numbers of f32 as bf16 and back.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::instruction;
use super::number::{round, widen};
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
        widen(self)
    }

    #[inline(always)]
    fn round(x: f32) -> Self {
        round(x)
    }

    fn round_scaled(x: &[f32], factor: f32, out: &mut [Self]) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if instruction::applies() {
            // SAFETY: the processor has the instruction.
            return unsafe { instruction::round_scaled(x, factor, out) };
        }
        round_each_scaled(x, factor, out);
    }
}

pub(super) fn round_all(x: &[f32], out: &mut [MaybeUninit<bf16>]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if instruction::applies() {
        // SAFETY: the processor has the instruction.
        return unsafe { instruction::round_all(x, out) };
    }
    round_each(x, out);
}

/// The same, and back to f32.
pub(super) fn round_to_f32(x: &[f32], out: &mut [MaybeUninit<f32>]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if instruction::applies() {
        // SAFETY: as above.
        return unsafe { instruction::round_to_f32(x, out) };
    }
    round_each_to_f32(x, out);
}

/// The same, added to numbers of f32.
pub(super) fn round_onto(x: &[f32], onto: &[f32], out: &mut [MaybeUninit<f32>]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if instruction::applies() {
        // SAFETY: as above.
        return unsafe { instruction::round_onto(x, onto, out) };
    }
    round_each_onto(x, onto, out);
}

vectorised! {
    fn round_each(x: &[f32], out: &mut [MaybeUninit<bf16>]) {
        let x = &x[..out.len()];
        for (out, x) in out.iter_mut().zip(x) {
            out.write(round(*x));
        }
    }

    fn round_each_to_f32(x: &[f32], out: &mut [MaybeUninit<f32>]) {
        let x = &x[..out.len()];
        for (out, x) in out.iter_mut().zip(x) {
            out.write(widen(round(*x)));
        }
    }

    fn round_each_onto(x: &[f32], onto: &[f32], out: &mut [MaybeUninit<f32>]) {
        let (x, onto) = (&x[..out.len()], &onto[..out.len()]);
        for ((out, x), onto) in out.iter_mut().zip(x).zip(onto) {
            out.write(onto + widen(round(*x)));
        }
    }

    fn round_each_scaled(x: &[f32], factor: f32, out: &mut [bf16]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = round(x * factor);
        }
    }

    /// In f32, the first numbers of x, as many as there are places.
    fn widen_into(x: &[bf16], out: &mut [MaybeUninit<f32>]) {
        let x = &x[..out.len()];
        for (out, x) in out.iter_mut().zip(x) {
            out.write(widen(*x));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::numbers;

    /// Whatever the processor has, the numbers are the same, as far as they are no smaller than 2^-126.
    #[test]
    fn the_instruction_rounds_as_plain_arithmetic_does() {
        let ties = [0x3f80_8000, 0x3f81_8000, 0x3f80_8001, 0x3f80_7fff, 0x7f7f_ffff, 0xff7f_8000];
        let special = [f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::MIN_POSITIVE, f32::NAN, -f32::NAN];
        let x: Vec<f32> = numbers(1, 70)
            .into_iter()
            .chain(ties.map(f32::from_bits))
            .chain(special)
            .flat_map(|x| [x, 1e20 * x, 1e-30 * x])
            .filter(|x| !x.is_subnormal())
            .collect();
        let onto = numbers(2, x.len());
        let bits = |x: &[MaybeUninit<f32>]| -> Vec<u32> {
            // SAFETY: all of it was written.
            x.iter().map(|x| unsafe { x.assume_init() }.to_bits()).collect()
        };
        let [mut own, mut plain] = [(); 2].map(|()| vec![MaybeUninit::new(bf16::ZERO); x.len()]);
        round_all(&x, &mut own);
        round_each(&x, &mut plain);
        for ((own, plain), x) in own.iter().zip(&plain).zip(&x) {
            // SAFETY: both hold numbers from the start.
            let [own, plain] = [own, plain].map(|x| unsafe { x.assume_init() }.to_bits());
            assert_eq!(own, plain, "{x}");
        }
        let [mut own, mut plain] = [(); 2].map(|()| vec![bf16::ZERO; x.len()]);
        bf16::round_scaled(&x, -0.75, &mut own);
        round_each_scaled(&x, -0.75, &mut plain);
        for ((own, plain), x) in own.iter().zip(&plain).zip(&x) {
            assert!(own.to_bits() == plain.to_bits() || (x * 0.75).is_subnormal(), "{x}");
        }
        let [mut own, mut plain] = [(); 2].map(|()| vec![MaybeUninit::new(0.0); x.len()]);
        round_to_f32(&x, &mut own);
        round_each_to_f32(&x, &mut plain);
        assert_eq!(bits(&own), bits(&plain));
        round_onto(&x, &onto, &mut own);
        round_each_onto(&x, &onto, &mut plain);
        assert_eq!(bits(&own), bits(&plain));
    }
}
