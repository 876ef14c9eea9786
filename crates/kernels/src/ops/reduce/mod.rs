//! Sum and mean of all numbers of a tensor, the sum of their squares, and the sum of two tensors.
//!
//! **On the CPU** every number of threads gives the same bits. Below [`THREADED`] numbers burn adds on one thread, and
//! its sums are kept: the weights of earlier runs depend on their bits. From there on burn adds parts in the order in
//! which threads finish them. So more numbers are cut into chunks of [`GRAIN`], whatever the number of threads: each
//! chunk is added in lanes on one thread, and the sums of the chunks are added in f64, in their order. Squares are then
//! added as they are computed; no large tensor of squares is written.
//!
//! **Elsewhere** burn's GPU backends give a row of a tensor to one thread or one group of threads, which adds its
//! numbers one after the other in f32. A flattened gradient is one such row, of millions. The rounding errors of n
//! numbers of one sign, added so, are bounded by n 2^-24 of their sum; and a software device that ends long loops
//! leaves the rest of the row out (`longwave selfcheck` tells). The sum is therefore taken over rows of [`ROW`]
//! numbers, then over their sums, and so on. For up to [`ROW`]^2 = 2^24 numbers the bound is 2 [`ROW`] 2^-24 = 4.9e-4
//! of the sum, whatever their number. This is also the reference on the CPU: burn adds each row on one thread. What is f32
//! on the GPU is added by kernels (`gpu/`), with a smaller bound and in fewer launches.

#[cfg(feature = "gpu")]
mod gpu;

#[cfg(feature = "gpu")]
use crate::machine::autodiff::gpu_kernel_applies;
use crate::machine::autodiff::{
    CpuTensor, compact, cpu_kernel_applies, is_f32_on_cpu, kernels_enabled, tensor_of, values,
};
use crate::machine::buffers::GRAIN;
use crate::machine::simd::{self, dot, vectorised};
use crate::op::{only, record};
use burn::backend::Flex;
use burn::tensor::Tensor;
use rayon::prelude::*;

/// Numbers that are added one after the other at most.
const ROW: usize = 4096;

/// From so many numbers on, burn adds on several threads.
const THREADED: usize = 1 << 22;

/// How a sum is computed, and so in what order.
enum SumOrder {
    /// By burn, on one thread of the CPU.
    OneThread,
    /// Here, in chunks, on the CPU.
    Chunks,
    /// By a kernel, on the GPU.
    #[cfg(feature = "gpu")]
    Cubes,
    /// By burn, in short rows: elsewhere, and as the reference.
    Rows,
}

fn sum_order<const D: usize>(x: &Tensor<D>) -> SumOrder {
    match (is_f32_on_cpu(x), x.shape().num_elements() < THREADED) {
        (true, true) => SumOrder::OneThread,
        (true, false) if kernels_enabled() => SumOrder::Chunks,
        #[cfg(feature = "gpu")]
        _ if gpu_kernel_applies(x) && gpu::supports(&x.clone().into()) => SumOrder::Cubes,
        _ => SumOrder::Rows,
    }
}

/// The sum of all numbers, `[1]`, of a tensor of any shape.
pub fn sum<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    match sum_order(&x) {
        SumOrder::OneThread => x.sum(),
        SumOrder::Chunks => in_chunks(x, 1.0),
        #[cfg(feature = "gpu")]
        SumOrder::Cubes => gpu::sum(x, 1.0),
        SumOrder::Rows => in_rows(x),
    }
}

/// The mean of all numbers, `[1]`, of a tensor of any shape.
pub fn mean<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    let count = x.shape().num_elements() as f64;
    match sum_order(&x) {
        SumOrder::OneThread => x.mean(),
        SumOrder::Chunks => in_chunks(x, 1.0 / count),
        #[cfg(feature = "gpu")]
        SumOrder::Cubes => gpu::sum(x, 1.0 / count),
        SumOrder::Rows => in_rows(x).div_scalar(count),
    }
}

/// The sum of the squares of all numbers, `[1]`, of a tensor of any shape.
///
/// No gradient is tracked: the tensor is taken out of autodiff, and the result is a plain tensor.
pub fn sum_of_squares<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    let x = x.without_autodiff();
    match sum_order(&x) {
        SumOrder::OneThread => x.square().sum(),
        SumOrder::Chunks => {
            let x = CpuTensor::new(x).into_data();
            let sum = chunks(&values(&x), squares_of_chunk);
            Tensor::from_primitive::<Flex>(tensor_of(vec![sum as f32], [1]))
        }
        #[cfg(feature = "gpu")]
        SumOrder::Cubes => gpu::sum(x.clone() * x, 1.0),
        SumOrder::Rows => in_rows(x.clone() * x),
    }
}

/// Numbers whose sum is that of the squares of all numbers of all tensors: one for each tensor, or on the GPU one for each
/// part of one, where no launch more is needed for each tensor.
///
/// No gradient is tracked: the tensors are taken out of autodiff, and the result is a plain tensor.
///
/// # Panics
/// There is no tensor.
pub fn sums_of_squares(tensors: &[Tensor<1>]) -> Tensor<1> {
    assert!(!tensors.is_empty(), "sums_of_squares: no tensors");
    let tensors: Vec<Tensor<1>> = tensors.iter().cloned().map(Tensor::without_autodiff).collect();
    #[cfg(feature = "gpu")]
    if tensors.iter().all(|tensor| matches!(sum_order(tensor), SumOrder::Cubes)) {
        return gpu::squares(&tensors);
    }
    Tensor::cat(tensors.into_iter().map(sum_of_squares).collect(), 0)
}

/// `[1]`: what a gradient is multiplied by for a norm of at most `limit`, `limit / norm` or 1 where the norm is less; the
/// square of the norm is the sum of `squares`. It stays where they lie: nothing is read back.
///
/// No gradient is tracked: the tensor is taken out of autodiff, and the result is a plain tensor.
pub fn clip_factor(squares: Tensor<1>, limit: f64) -> Tensor<1> {
    let squares = squares.without_autodiff();
    #[cfg(feature = "gpu")]
    if matches!(sum_order(&squares), SumOrder::Cubes) {
        return gpu::clip_factor(squares, limit);
    }
    // Without any gradient the quotient is infinite, and the factor 1.
    squares.sum().sqrt().recip().mul_scalar(limit).clamp_max(1.0)
}

/// `sum + x`, in place where nothing else holds `sum`: the parts of a gradient. On the CPU by all threads, where burn
/// adds on one.
///
/// No gradient is tracked: tensors are taken out of autodiff, and the result is a plain tensor.
///
/// # Panics
/// The shapes differ.
pub fn accumulate<const D: usize>(sum: Tensor<D>, x: Tensor<D>) -> Tensor<D> {
    assert_eq!(sum.dims(), x.dims(), "accumulate: the shapes differ");
    let [sum, x] = [sum, x].map(Tensor::without_autodiff);
    if !(cpu_kernel_applies(&sum) && cpu_kernel_applies(&x)) {
        return sum + x;
    }
    let [sum, x] = [sum, x].map(|tensor| CpuTensor::new(tensor).into_data());
    let (mut sum, x) = (compact(sum), values(&x));
    let parts = sum.storage_mut::<f32>().par_chunks_mut(GRAIN).zip(x.par_chunks(GRAIN));
    parts.for_each(|(sum, x)| sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += x));
    Tensor::from_primitive::<Flex>(sum)
}

/// `factor` times the sum, on the CPU.
fn in_chunks<const D: usize>(x: Tensor<D>, factor: f64) -> Tensor<1> {
    let shape = x.dims();
    let input = [CpuTensor::new(x)];
    let sum = chunks(&values(input[0].data()), sum_of_chunk) * factor;
    let gradient = move |output, _: [bool; 1]| {
        let each = values(&only(output))[0] * factor as f32;
        [Some(tensor_of(vec![each; shape.iter().product()], shape))]
    };
    let [sum] = record(&input, [true], [tensor_of(vec![sum as f32], [1])], gradient);
    sum.into_tensor()
}

/// The sum of what `of_chunk` makes of each chunk, in the order of the chunks.
fn chunks(x: &[f32], of_chunk: fn(&[f32]) -> f32) -> f64 {
    let sums: Vec<f32> = x.par_chunks(GRAIN).map(of_chunk).collect();
    sums.into_iter().map(f64::from).sum()
}

vectorised! {
    fn sum_of_chunk(x: &[f32]) -> f32 {
        simd::sum(x)
    }

    fn squares_of_chunk(x: &[f32]) -> f32 {
        dot(x, x)
    }
}

fn in_rows<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    let mut left = x.flatten::<1>(0, D - 1);
    loop {
        let count = left.dims()[0];
        if count <= ROW {
            return left.sum();
        }
        let (rows, whole) = (count / ROW, count / ROW * ROW);
        let sums = left.clone().slice(0..whole).reshape([rows, ROW]).sum_dim(1).reshape([rows]);
        left = if whole < count { Tensor::cat(vec![sums, left.slice(whole..count)], 0) } else { sums };
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "sums of ones and twos are exact")]
mod tests {
    use super::*;
    use crate::testing::{assert_close, assert_fused_on, in_reference, list, numbers, on_threads, tensor};
    use burn::tensor::{Device, Int};

    #[test]
    fn every_number_is_added_once() {
        let device = Device::flex();
        for count in [1, 7, ROW - 1, ROW, ROW + 1, 3 * ROW + 5, ROW * ROW + ROW + 1] {
            // Zeros and ones: every sum on the way is exact.
            let x = Tensor::<1, Int>::arange(0..count as i64, &device).remainder_scalar(2).float();
            assert_eq!(in_rows(x.clone()).into_scalar::<f32>(), (count / 2) as f32, "{count}");
            assert_eq!(sum(x.clone()).into_scalar::<f32>(), (count / 2) as f32, "{count}");
            assert_eq!(sum_of_squares(x).into_scalar::<f32>(), (count / 2) as f32, "{count}");
        }
        let shaped = Tensor::<3>::ones([5, 41, 43], &device);
        assert_eq!(in_rows(shaped.clone()).into_scalar::<f32>(), 8815.0);
        assert_eq!(sum(shaped.clone()).into_scalar::<f32>(), 8815.0);
        assert_eq!(mean(shaped).into_scalar::<f32>(), 1.0);
    }

    /// More numbers than burn adds on one thread (2^22), and chunks of several lengths.
    const MANY: usize = 5_300_021;

    #[test]
    fn threads_change_no_bit() {
        let sums = |threads: usize| {
            on_threads(threads, || {
                let x = tensor::<1>(1, [MANY], &Device::flex());
                [sum(x.clone()), mean(x.clone()), sum_of_squares(x)].map(|sum| list(sum)[0].to_bits())
            })
        };
        let expected = sums(1);
        for threads in [1, 2, 3] {
            for round in 0..5 {
                assert_eq!(sums(threads), expected, "{threads} threads, round {round}");
            }
        }
    }

    /// burn's own sums of rows and of 4,096 numbers, which the reference is made of.
    #[test]
    fn threads_change_no_bit_of_the_reference() {
        let in_rows = || list(in_rows(tensor::<1>(1, [MANY], &Device::flex())))[0].to_bits();
        let sum = |threads: usize| on_threads(threads, in_rows);
        let expected = sum(1);
        assert!([1, 2, 3, 3].into_iter().all(|threads| sum(threads) == expected));
    }

    #[test]
    fn sums_are_those_of_f64() {
        for count in [1, 15, GRAIN, 3 * GRAIN + 17, MANY] {
            // Of one sign, so that errors are relative to the sum.
            let x = tensor::<1>(2, [count], &Device::flex()).abs();
            let exact = |power: i32| list(x.clone()).iter().map(|x| f64::from(*x).powi(power)).sum::<f64>();
            let close = |actual: Tensor<1>, expected: f64| {
                let actual = f64::from(list(actual)[0]);
                assert!((actual - expected).abs() <= 1e-6 * expected, "{count}: {actual}, {expected}");
            };
            close(sum(x.clone()), exact(1));
            close(mean(x.clone()), exact(1) / count as f64);
            close(sum_of_squares(x.clone()), exact(2));
            close(in_rows(x.clone() * x.clone()), exact(2));
        }
    }

    #[test]
    fn chunks_agree_with_the_reference() {
        let shaped = |inputs: &[Tensor<1>]| inputs[0].clone().reshape([41, 3, 43]).swap_dims(0, 2);
        for divisor in [1.0, f64::from(41 * 3 * 43)] {
            let what = format!("a share of 1 / {divisor}");
            assert_fused_on(&Device::flex(), &what, &[numbers(1, 41 * 3 * 43)], |x| {
                let x = shaped(x);
                if in_reference() { in_rows(x).div_scalar(divisor) } else { in_chunks(x, 1.0 / divisor) }
            });
        }
    }

    #[test]
    fn squares_are_added_without_a_gradient() {
        let x = tensor::<2>(3, [3, 5], &Device::flex().autodiff()).require_grad();
        let sum = sum_of_squares(x.clone().transpose());
        assert!(!sum.is_autodiff());
        assert_close("squares", &list(sum), &list(x.square().sum()), 1e-6);
    }

    #[test]
    fn accumulates_as_burn_adds() {
        let device = Device::flex();
        // More than one task, one operand transposed, one held elsewhere.
        let [a, b] = [1, 2].map(|seed| tensor::<2>(seed, [301, 67], &device));
        let (a, b) = (a.swap_dims(0, 1), b.reshape([67, 301]));
        let expected = list(a.clone() + b.clone());
        assert_eq!(list(accumulate(a.clone(), b.clone())), expected);
        assert_eq!(list(accumulate(b, a)), expected);
    }

    #[test]
    fn its_gradient_is_one_everywhere() {
        let device = Device::flex().autodiff();
        let x = Tensor::<2>::ones([3, ROW], &device).require_grad();
        let gradients = (in_rows(x.clone()) * 2.0).backward();
        let gradient = x.grad(&gradients).unwrap();
        assert_eq!((gradient.dims(), gradient.clone().min().into_scalar::<f32>()), ([3, ROW], 2.0));
        assert_eq!(gradient.max().into_scalar::<f32>(), 2.0);
    }
}
