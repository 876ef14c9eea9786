//! Sum and mean of all numbers of a tensor, and the sum of two.
//!
//! burn's GPU backends give a row of a tensor to one thread or one group of threads, which adds its numbers one after
//! the other in f32. A flattened gradient is one such row, of millions. The rounding errors of n numbers of one sign,
//! added so, are bounded by n 2^-24 of their sum; and a software device that ends long loops leaves the rest of the
//! row out (`longwave selfcheck` tells). Elsewhere than on the CPU the sum is therefore taken over rows of [`ROW`]
//! numbers, then over their sums, and so on. For up to [`ROW`]^2 = 2^24 numbers the bound is 2 [`ROW`] 2^-24 = 4.9e-4
//! of the sum, whatever their number. The CPU backend adds in lanes, and keeps its bits.

use crate::buffers::GRAIN;
use crate::tape::{Input, compact, fused, on_cpu, values};
use burn::backend::Flex;
use burn::tensor::Tensor;
use rayon::prelude::*;

/// Numbers that are added one after the other at most.
const ROW: usize = 4096;

/// The sum of all numbers, `[1]`, of a tensor of any shape.
pub fn total<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    if on_cpu(&x) { x.sum() } else { in_rows(x) }
}

/// The mean of all numbers, `[1]`, of a tensor of any shape.
pub fn mean<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    if on_cpu(&x) {
        return x.mean();
    }
    let count = x.shape().num_elements();
    in_rows(x).div_scalar(count as f64)
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
    if !(fused() && on_cpu(&sum) && on_cpu(&x)) {
        return sum + x;
    }
    let [sum, x] = [sum, x].map(|tensor| Input::new(tensor).into_data());
    let (mut sum, x) = (compact(sum), values(&x));
    let parts = sum.storage_mut::<f32>().par_chunks_mut(GRAIN).zip(x.par_chunks(GRAIN));
    parts.for_each(|(sum, x)| sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += x));
    Tensor::from_primitive::<Flex>(sum)
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
    use crate::testing::{list, tensor};
    use burn::tensor::{Device, Int};

    #[test]
    fn every_number_is_added_once() {
        let device = Device::flex();
        for count in [1, 7, ROW - 1, ROW, ROW + 1, 3 * ROW + 5, ROW * ROW + ROW + 1] {
            // Zeros and ones: every sum on the way is exact.
            let x = Tensor::<1, Int>::arange(0..count as i64, &device).remainder_scalar(2).float();
            assert_eq!(in_rows(x).into_scalar::<f32>(), (count / 2) as f32, "{count}");
        }
        let shaped = Tensor::<3>::ones([5, 41, 43], &device);
        assert_eq!(in_rows(shaped.clone()).into_scalar::<f32>(), 8815.0);
        assert_eq!(total(shaped.clone()).into_scalar::<f32>(), 8815.0);
        assert_eq!(mean(shaped).into_scalar::<f32>(), 1.0);
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
