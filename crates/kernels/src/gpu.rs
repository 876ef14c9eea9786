//! What the launches of the GPU's kernels share: strides, vector widths, grids.

// What the macros make of this file is theirs.
#![allow(clippy::pedantic)]

use burn::tensor::{DType, Shape};
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::calculate_cube_count_elemwise;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Where a row of one head begins in `[batch, heads, length, head_dim]`, in vectors.
#[derive(CubeLaunch, CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(crate) struct Strides {
    pub(crate) batch: usize,
    pub(crate) head: usize,
    pub(crate) row: usize,
}

/// The first vector of a row.
#[cube]
pub(crate) fn start(strides: Strides, batch: usize, head: usize, row: usize) -> usize {
    batch * strides.batch + head * strides.head + row * strides.row
}

/// A tensor whose last axis lies contiguously.
pub(crate) fn rows(tensor: CubeTensor) -> CubeTensor {
    let last = tensor.meta.num_dims() - 1;
    let direct = tensor.meta.strides()[last] == 1 || tensor.meta.shape()[last] == 1;
    if direct && !tensor.meta.is_tiled() { tensor } else { into_contiguous(tensor) }
}

/// The distances between neighbours along all axes but the last.
pub(crate) fn strides(tensor: &CubeTensor) -> impl Iterator<Item = usize> + Clone + '_ {
    let axes = tensor.meta.shape().iter().zip(tensor.meta.strides().iter());
    // Along an axis of length 1 nobody goes.
    axes.rev().skip(1).map(|(length, stride)| if *length == 1 { 0 } else { *stride })
}

/// The widest vector of f32 that divides all of these.
pub(crate) fn width(client: &Client, numbers: impl Iterator<Item = usize> + Clone) -> usize {
    let widths = client.io_optimized_vector_sizes(size_of::<f32>());
    widths.filter(|width| numbers.clone().all(|number| number % width == 0)).max().unwrap_or(1)
}

/// The strides of `[batch, heads, length, head_dim]` in vectors.
pub(crate) fn head_strides(tensor: &CubeTensor, width: usize) -> StridesLaunch {
    let strides = tensor.meta.strides();
    StridesLaunch::new(strides[0] / width, strides[1] / width, strides[2] / width)
}

/// A new tensor beside another one; its values are whatever was there.
pub(crate) fn empty<const D: usize>(like: &CubeTensor, shape: [usize; D]) -> CubeTensor {
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), Shape::from(shape), DType::F32)
}

/// The type that can index the largest of the tensors.
pub(crate) fn address(tensors: &[&CubeTensor]) -> AddressType {
    tensors.iter().map(|tensor| tensor.required_address_type()).max().unwrap_or_default()
}

/// The cubes for `count` units, and the type that can index the largest of the tensors.
pub(crate) fn grid(count: usize, tensors: &[&CubeTensor]) -> (CubeCount, CubeDim, AddressType) {
    let client = &tensors[0].client;
    let dim = CubeDim::new(client, count);
    (calculate_cube_count_elemwise(client, count, dim), dim, address(tensors))
}
