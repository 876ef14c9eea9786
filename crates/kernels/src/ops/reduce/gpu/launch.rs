//! The launches of the kernels, and the gradient of a sum.

use super::squares_kernel;
use super::{CHUNK, UNITS, clip_kernel, fill_kernel, sum_kernel};
use crate::machine::autodiff::OpTensor;
use crate::machine::gpu::{cubes, empty, empty_of, grid, has_units, launch, linear};
use crate::op::{Any, count_call, only, record};
use burn::backend::Cube;
use burn::tensor::{Shape, Tensor};
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;

/// The most tensors of a launch, whatever the device binds.
const TENSORS: usize = 64;

/// Whether the kernels can compute on the device that x lies on.
pub(in crate::ops::reduce) fn supports(x: &Any) -> bool {
    has_units(x, UNITS) && !x.is_empty()
}

/// `[1]`: the sum of all numbers of x, of any shape, times a factor.
fn total(x: CubeTensor, factor: f32) -> CubeTensor {
    let mut left = into_contiguous(x);
    loop {
        let count = left.meta.num_elements();
        let chunks = count.div_ceil(CHUNK);
        let sums = empty(&left, [chunks]);
        // The factor is taken once, by the last round.
        let factor = if chunks == 1 { factor } else { 1.0 };
        // SAFETY: cubes past the last chunk are idle, and units stay below the count.
        unsafe {
            launch!(sum_kernel, cubes(chunks, UNITS, &[&left]), [], [left, sums], count, chunks, factor);
        }
        if chunks == 1 {
            return sums;
        }
        left = sums;
    }
}

/// The number of a `[1]` times a factor, in all places of a shape.
fn fill(value: CubeTensor, factor: f32, shape: Shape) -> CubeTensor {
    let value = into_contiguous(value);
    let target = empty_of(&value, shape);
    let count = target.meta.num_elements();
    // SAFETY: units past the count are idle.
    unsafe {
        launch!(fill_kernel, grid(count, &[&target]), [], [value, target], count, factor);
    }
    target
}

/// `[1]`: what brings a gradient whose squares add up to the sum of `squares` to a norm of at most `limit`.
fn clip(squares: CubeTensor, limit: f32) -> CubeTensor {
    let squares = into_contiguous(squares);
    let factor = empty(&squares, [1]);
    let count = squares.meta.num_elements();
    // SAFETY: units stay below the count.
    unsafe {
        launch!(clip_kernel, cubes(1, UNITS, &[&squares]), [], [squares, factor], count, limit);
    }
    factor
}

/// `factor` times the sum of a tensor on the GPU that [`supports`] accepts.
pub(in crate::ops::reduce) fn sum<const D: usize>(x: Tensor<D>, factor: f64) -> Tensor<1> {
    let (shape, factor) = (x.shape(), factor as f32);
    let input = [OpTensor::<Cube>::new(x)];
    let sum = total(input[0].data().clone(), factor);
    let gradient = move |output, _: [bool; 1]| [Some(fill(only(output), factor, shape))];
    let [sum] = record(&input, [true], [sum], gradient);
    sum.into_tensor()
}

/// [`clip_factor`](crate::clip_factor) of numbers on the GPU.
pub(in crate::ops::reduce) fn clip_factor(squares: Tensor<1>, limit: f64) -> Tensor<1> {
    count_call();
    let squares = OpTensor::<Cube>::new(squares).into_data();
    Tensor::from_primitive::<Cube>(clip(squares, limit as f32))
}

/// [`sums_of_squares`](crate::sums_of_squares) of tensors on the GPU that [`supports`] accepts; there is one at least.
pub(in crate::ops::reduce) fn squares(tensors: &[Tensor<1>]) -> Tensor<1> {
    count_call();
    let tensors: Vec<CubeTensor> = tensors
        .iter()
        .map(|tensor| into_contiguous(OpTensor::<Cube>::new(tensor.clone()).into_data()))
        .collect();
    let chunks = |tensor: &CubeTensor| tensor.meta.num_elements().div_ceil(CHUNK);
    let client = &tensors[0].client;
    let sums = empty(&tensors[0], [tensors.iter().map(chunks).sum()]);
    // One buffer for the sums, and one for the sizes.
    let bound = (client.properties().hardware.max_bindings as usize).saturating_sub(2).clamp(1, TENSORS);
    let mut to = 0;
    for group in tensors.chunks(bound) {
        let (mut given, mut counts) = (SequenceArg::new(), SequenceArg::new());
        let (mut starts, mut start) = (SequenceArg::new(), 0);
        for tensor in group {
            given.push(linear(tensor));
            counts.push(tensor.meta.num_elements());
            starts.push(start);
            start += chunks(tensor);
        }
        let (grid, sums) = (cubes(start, UNITS, &group.iter().collect::<Vec<_>>()), linear(&sums));
        // SAFETY: cubes past the last chunk are idle, and units stay below the count of their tensor.
        unsafe {
            launch!(squares_kernel, grid, [], [], given, counts, starts, sums, start, to);
        }
        to += start;
    }
    Tensor::from_primitive::<Cube>(sums)
}
