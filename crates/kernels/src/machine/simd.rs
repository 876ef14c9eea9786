//! Loops that compile to vector instructions.
//!
//! The workspace is built for the plainest processor of its kind; [`vectorised!`] compiles a function
//! once more for each wider instruction set and picks one at run time. The arithmetic is written with
//! a fixed number of [`LANES`] and without fused multiply-add, so every version gives the same bits.

use std::sync::LazyLock;

/// Partial sums and maxima are kept in this many lanes, whatever the processor's width.
pub(crate) const LANES: usize = 16;

/// The vector instructions a loop may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// What every processor of this kind has.
    Base,
    /// 256 bits (AVX2).
    #[cfg(target_arch = "x86_64")]
    Wide,
    /// 512 bits (AVX-512).
    #[cfg(target_arch = "x86_64")]
    Widest,
}

/// What this processor has.
pub(crate) fn level() -> Level {
    static LEVEL: LazyLock<Level> = LazyLock::new(|| {
        #[cfg(target_arch = "x86_64")]
        {
            let has_512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            if is_x86_feature_detected!("avx2") {
                return if has_512 { Level::Widest } else { Level::Wide };
            }
        }
        Level::Base
    });
    *LEVEL
}

/// Defines a function that is compiled for every [`Level`] and calls the one the processor has. It may have one type
/// parameter.
///
/// Called functions and closures take part only if they are inlined.
macro_rules! vectorised {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident $(<$number:ident: $bound:path>)? ($($arg:ident: $type:ty),* $(,)?)
        $(-> $out:ty)? $body:block)*) => {
        $($(#[$meta])*
        #[allow(clippy::too_many_arguments, reason = "plain loops over slices, with no type of their own")]
        $vis fn $name$(<$number: $bound>)?($($arg: $type),*) $(-> $out)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments, reason = "the arguments of the function itself")]
            fn body$(<$number: $bound>)?($($arg: $type),*) $(-> $out)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            #[allow(clippy::too_many_arguments, reason = "the arguments of the function itself")]
            fn wide$(<$number: $bound>)?($($arg: $type),*) $(-> $out)? { body($($arg),*) }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            #[allow(clippy::too_many_arguments, reason = "the arguments of the function itself")]
            fn widest$(<$number: $bound>)?($($arg: $type),*) $(-> $out)? { body($($arg),*) }
            match $crate::machine::simd::level() {
                // SAFETY: the level says that the processor has these instructions.
                #[cfg(target_arch = "x86_64")]
                $crate::machine::simd::Level::Wide => unsafe { wide($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::machine::simd::Level::Widest => unsafe { widest($($arg),*) },
                $crate::machine::simd::Level::Base => body($($arg),*),
            }
        })*
    };
}
pub(crate) use vectorised;

/// A number that is computed with in f32.
pub(crate) trait Number: Copy + Send + Sync {
    /// The same number in f32.
    fn widen(self) -> f32;

    /// The nearest number of this type.
    fn round(x: f32) -> Self;

    /// The nearest numbers to the first of x times a factor, as many as there are places.
    #[inline(always)]
    fn round_scaled(x: &[f32], factor: f32, out: &mut [Self]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = Self::round(x * factor);
        }
    }
}

impl Number for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }

    #[inline(always)]
    fn round(x: f32) -> Self {
        x
    }
}

/// 1.5 * 2^23: adding it rounds to a whole number, which the low bits then hold.
const ROUNDER: f32 = 12_582_912.0;
/// Below this, exp is no normal f32.
const EXP_LOWEST: f32 = -87.336_54;
const EXP_HIGHEST: f32 = 88.0;

/// exp(x) for x up to 88 (larger ones give exp(88)); 0 below -87.33, NaN for NaN.
///
/// Within 2e-7 of the true value, relatively: 2^n exp(r) with |r| <= log(2)/2, and a minimax
/// polynomial for exp(r).
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let clamped = if x < EXP_LOWEST { EXP_LOWEST } else { x };
    let clamped = if clamped > EXP_HIGHEST { EXP_HIGHEST } else { clamped };
    let rounded = clamped * std::f32::consts::LOG2_E + ROUNDER;
    let n = rounded - ROUNDER;
    // log(2) in two parts; the first has so few digits that n times it is exact.
    let r = (clamped - n * 0.693_359_4) - n * -2.121_944_4e-4;
    let p = 1.392_628_4e-3;
    let p = p * r + 8.363_26e-3;
    let p = p * r + 4.166_655_4e-2;
    let p = p * r + 1.666_657_6e-1;
    let p = p * r + 0.5;
    let p = (p * r) * r + r + 1.0;
    let power = f32::from_bits(rounded.to_bits().wrapping_sub(ROUNDER.to_bits()).wrapping_add(127) << 23);
    if x < EXP_LOWEST { 0.0 } else { p * power }
}

/// The normal distribution function at x, and its density there.
///
/// With a = |x| and t = 1 / (1 + 0.3 a), the lower tail is exp(-a²/2) t P(t), P a minimax polynomial.
/// The tail is within 5e-7 of the true value relatively for |x| < 5.
#[inline(always)]
pub(crate) fn normal(x: f32) -> (f32, f32) {
    let a = x.abs();
    let t = 1.0 / (1.0 + 0.3 * a);
    let p = -0.020_914_36;
    let p = p * t + 0.114_040_27;
    let p = p * t - 0.232_038_48;
    let p = p * t + 0.196_940_68;
    let p = p * t - 0.083_742_55;
    let p = p * t + 0.098_480_74;
    let p = p * t + 0.077_589_065;
    let p = p * t + 0.110_405_18;
    let p = p * t + 0.119_551_76;
    let p = p * t + 0.119_687_69;
    let bell = exp(-0.5 * a * a);
    let tail = bell * t * p;
    let below = if x < 0.0 { tail } else { 1.0 - tail };
    (below, bell * 0.398_942_3)
}

/// `1 / (1 + exp(-x))`.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    // exp of a negative number only, so that nothing overflows.
    let e = exp(-x.abs());
    let d = 1.0 / (1.0 + e);
    if x < 0.0 { e * d } else { d }
}

/// `ln(1 + x)` for x from 0 to 1, NaN for NaN.
///
/// Within 2e-7 of the true value, relatively: `2 artanh(s)` with `s = x / (2 + x)` up to 1/3, by its series.
#[inline(always)]
pub(crate) fn ln_1p(x: f32) -> f32 {
    let s = x / (2.0 + x);
    let u = s * s;
    let p = 1.0 / 15.0;
    let p = p * u + 1.0 / 13.0;
    let p = p * u + 1.0 / 11.0;
    let p = p * u + 1.0 / 9.0;
    let p = p * u + 1.0 / 7.0;
    let p = p * u + 0.2;
    let p = p * u + 1.0 / 3.0;
    let s = s + s;
    (p * u) * s + s
}

/// `ln(1 + exp(-|x|))`.
#[inline(always)]
pub(crate) fn ln_1p_exp(x: f32) -> f32 {
    // exp of a negative number only, so that nothing overflows.
    ln_1p(exp(-x.abs()))
}

/// Adds numbers to the first of others, element by element.
#[inline(always)]
pub(crate) fn add(sums: &mut [f32], x: &[f32]) {
    for (sum, x) in sums.iter_mut().zip(x) {
        *sum += x;
    }
}

/// The sum of a slice: lane by lane, then the lanes, then the rest.
#[inline(always)]
pub(crate) fn sum(x: &[f32]) -> f32 {
    let (chunks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [0.0_f32; LANES];
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += x;
        }
    }
    rest.iter().fold(fold_sum(lanes), |sum, x| sum + x)
}

/// The sum of products of two slices of equal length, in the order of [`sum`].
#[inline(always)]
pub(crate) fn dot(x: &[f32], y: &[f32]) -> f32 {
    let (x_chunks, x_rest) = x.as_chunks::<LANES>();
    let (y_chunks, y_rest) = y.as_chunks::<LANES>();
    let mut lanes = [0.0_f32; LANES];
    for (x, y) in x_chunks.iter().zip(y_chunks) {
        for ((lane, x), y) in lanes.iter_mut().zip(x).zip(y) {
            *lane += x * y;
        }
    }
    x_rest.iter().zip(y_rest).fold(fold_sum(lanes), |sum, (x, y)| sum + x * y)
}

/// The largest element; NaN elements may be passed over.
#[inline(always)]
pub(crate) fn largest<T: Number>(x: &[T]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let (chunks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, x.widen());
        }
    }
    let rest = rest.iter().map(|x| x.widen());
    lanes.into_iter().chain(rest).fold(f32::NEG_INFINITY, larger)
}

/// Replaces each x by exp(x - shift) and returns their sum, in the order of [`sum`].
#[inline(always)]
pub(crate) fn exp_in_place(x: &mut [f32], shift: f32) -> f32 {
    let (chunks, rest) = x.as_chunks_mut::<LANES>();
    let mut lanes = [0.0_f32; LANES];
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *x = exp(*x - shift);
            *lane += *x;
        }
    }
    let mut sum = fold_sum(lanes);
    for x in rest {
        *x = exp(*x - shift);
        sum += *x;
    }
    sum
}

/// The sum of exp(x - shift), in the order of [`sum`].
#[inline(always)]
pub(crate) fn exp_sum<T: Number>(x: &[T], shift: f32) -> f32 {
    let (chunks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [0.0_f32; LANES];
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += exp(x.widen() - shift);
        }
    }
    let mut sum = fold_sum(lanes);
    for x in rest {
        sum += exp(x.widen() - shift);
    }
    sum
}

/// Adds the lanes in halves: 16, 8, 4, 2, 1.
#[inline(always)]
pub(crate) fn fold_sum(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp, reason = "exact results are promised where they are compared")]

    use super::*;

    vectorised! {
        fn exp_all(x: &mut [f32]) {
            for x in x {
                *x = exp(*x);
            }
        }
    }

    #[test]
    fn exp_is_right_over_its_range() {
        let x: Vec<f32> = (-873_300..880_000).map(|i| i as f32 * 1e-4).collect();
        let mut y = x.clone();
        exp_all(&mut y);
        let mut worst = 0.0_f64;
        for (x, y) in x.iter().zip(&y) {
            let truth = f64::from(*x).exp();
            worst = worst.max(((f64::from(*y) - truth) / truth).abs());
            assert_eq!(y.to_bits(), exp(*x).to_bits(), "every version gives the same bits");
        }
        assert!(worst < 2e-7, "{worst}");
    }

    #[test]
    fn exp_at_the_edges() {
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-100.0), 0.0);
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert!(exp(f32::NAN).is_nan());
    }

    /// erf by its series, in f64 (all terms are positive after taking exp(-x²) out).
    fn normal_f64(x: f64) -> f64 {
        let z = x.abs() / std::f64::consts::SQRT_2;
        let (mut term, mut sum) = (z, z);
        for n in 1..400 {
            term *= 2.0 * z * z / f64::from(2 * n + 1);
            sum += term;
        }
        let half_erf = sum * (-z * z).exp() / std::f64::consts::PI.sqrt();
        if x < 0.0 { 0.5 - half_erf } else { 0.5 + half_erf }
    }

    #[test]
    fn normal_is_right() {
        for i in -90_000..90_000 {
            let x = i as f32 * 1e-4;
            let (below, density) = normal(x);
            let truth = normal_f64(f64::from(x));
            assert!((f64::from(below) - truth).abs() < 2e-7, "{x}: {below} {truth}");
            let truth_density = (-0.5 * f64::from(x).powi(2)).exp() / (2.0 * std::f64::consts::PI).sqrt();
            assert!((f64::from(density) - truth_density).abs() < 1e-7, "{x}: {density} {truth_density}");
            if (-4.0..0.0).contains(&x) {
                assert!((f64::from(below) / truth - 1.0).abs() < 1e-6, "{x}: {below} {truth}");
            }
        }
    }

    #[test]
    fn sigmoid_is_right() {
        for i in -100_000..100_000 {
            let x = i as f32 * 1e-3;
            let truth = 1.0 / (1.0 + (-f64::from(x)).exp());
            assert!((f64::from(sigmoid(x)) - truth).abs() < 2e-7 * truth + 1e-37, "{x}");
        }
    }

    #[test]
    fn ln_1p_is_right() {
        let mut worst = 0.0_f64;
        for x in (0..=1_000_000).map(|i| i as f32 * 1e-6).chain((0..120).map(|i| 0.5_f32.powi(i))) {
            let truth = f64::from(x).ln_1p();
            worst = worst.max((f64::from(ln_1p(x)) - truth).abs() / truth.max(f64::MIN_POSITIVE));
        }
        assert!(worst < 2e-7, "{worst}");
        assert!(ln_1p(f32::NAN).is_nan());
    }

    #[test]
    fn reductions_agree_with_plain_ones() {
        for length in [0, 1, 15, 16, 17, 100] {
            let x: Vec<f32> = (0..length).map(|i| ((i * 37 % 19) as f32 - 9.0) / 8.0).collect();
            assert_eq!(sum(&x), x.iter().sum::<f32>());
            assert_eq!(dot(&x, &x), x.iter().map(|x| x * x).sum::<f32>());
            assert_eq!(largest(&x), x.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            let mut y = x.clone();
            let total = exp_in_place(&mut y, 0.5);
            assert_eq!(total.to_bits(), exp_sum(&x, 0.5).to_bits());
            assert_eq!(total.to_bits(), sum(&y).to_bits());
        }
    }
}
