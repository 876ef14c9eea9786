//! What the launches of the GPU's kernels share: buffers, strides, vector widths, grids.
//!
//! **Layout.** A runtime may pad the rows of a tensor of several axes (CUDA's does, so that every row begins at an
//! aligned address), and burn allocates its tensors so. Kernels here read rows by strides ([`strided`]), or count
//! numbers in row-major order ([`linear`]). What they count in was made contiguous (`into_contiguous`, which never
//! pads) or allocated so ([`empty`], [`zeros`], [`copied`]), and [`linear`] stops a launch with anything else.
//!
//! **Bound checks.** Kernels run without. A test runs each over odd shapes with them: see [`launch`].

// What the macros make of this file is theirs.
#![allow(clippy::pedantic)]

#[cfg(test)]
mod tests;

use crate::op::Any;
use burn::backend::DispatchDevice;
use burn::tensor::{DType, Shape};
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::calculate_cube_count_elemwise;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::{empty_device_contiguous_dtype, zeros_client};
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::{ElemType, FloatKind};
use cubecl::prelude::*;

/// Launches a kernel on a [`Grid`] without bound checks, or with them in a process of tests that asks for it ([`checked`]):
/// with the widths of its vectors, with tensors in row-major order, and with further arguments.
///
/// It stands in an `unsafe` block whose comment says why the kernel stays within its buffers.
macro_rules! launch {
    ($kernel:ident, $grid:expr, [$($width:expr),*], [$($tensor:ident),*], $($argument:expr),+ $(,)?) => {{
        let $crate::machine::gpu::Grid { client, cubes, units, address } = $grid;
        if $crate::machine::gpu::checked(stringify!($kernel)) {
            $kernel::launch(
                &client, cubes, units, address, $($width,)*
                $($crate::machine::gpu::linear(&$tensor),)* $($argument),+
            );
        } else {
            $kernel::launch_unchecked(
                &client, cubes, units, address, $($width,)*
                $($crate::machine::gpu::linear(&$tensor),)* $($argument),+
            );
        }
    }};
}
pub(crate) use launch;

/// Launches a kernel with a unit for each vector of `counted`, whose rows have so many numbers: on tensors in row-major
/// order, the number of units, and what follows from the width of a vector.
///
/// The kernel leaves units past their number idle, and each of the others stays within its row.
macro_rules! launch_vectors {
    ($kernel:ident, $row:expr, $counted:ident, [$first:ident $(, $tensor:ident)*] $(, $width:ident => $argument:expr)?) => {{
        let width = $crate::machine::gpu::width(&$counted.client, std::iter::once($row));
        let count = $counted.meta.num_elements() / width;
        let grid = $crate::machine::gpu::grid(count, &[&$first $(, &$tensor)*]);
        // SAFETY: what is said of the kernel above.
        unsafe {
            $crate::machine::gpu::launch!(
                $kernel, grid, [width], [$first $(, $tensor)*], count $(, { let $width = width; $argument })?
            );
        }
    }};
}
pub(crate) use launch_vectors;

/// Whether kernels check their bounds: then a read or write past a buffer's end goes to its last number.
#[cfg(not(test))]
pub(crate) const fn checked(_: &str) -> bool {
    false
}

#[cfg(test)]
pub(crate) use tests::checked;

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

/// The sum over as many neighbouring units of a cube as there are `lanes`, a power of two, for each of them. There is a place in
/// `sums` for each unit of the cube.
#[cube]
pub(crate) fn total(value: f32, sums: &mut Shared<[f32]>, #[comptime] lanes: usize) -> f32 {
    let unit = UNIT_POS as usize;
    let lane = unit % lanes;
    sync_cube();
    sums[unit] = value;
    #[unroll]
    for step in 0..comptime!(lanes.trailing_zeros()) {
        let half = comptime!(lanes >> (step + 1));
        sync_cube();
        if lane < half {
            sums[unit] += sums[unit + half];
        }
    }
    sync_cube();
    sums[unit - lane]
}

/// What launches kernels on the device of a tensor; `None` on the CPU.
pub(crate) fn client(tensor: &Any) -> Option<Client> {
    match &tensor.device() {
        DispatchDevice::Autodiff(device) => match &**device {
            DispatchDevice::Cube(device) => Some(device.client()),
            _ => None,
        },
        DispatchDevice::Cube(device) => Some(device.client()),
        _ => None,
    }
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

/// A new tensor beside another one, contiguous; its values are whatever was there.
pub(crate) fn empty<const D: usize>(like: &CubeTensor, shape: [usize; D]) -> CubeTensor {
    empty_of(like, shape.into())
}

/// The same, of the shape of the other one.
pub(crate) fn empty_like(like: &CubeTensor) -> CubeTensor {
    empty_of(like, like.meta.shape().clone())
}

/// The same, of a shape of any number of axes.
pub(crate) fn empty_of(like: &CubeTensor, shape: Shape) -> CubeTensor {
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), shape, DType::F32)
}

/// A new tensor of zeros beside another one.
pub(crate) fn zeros(like: &CubeTensor, shape: Vec<usize>) -> CubeTensor {
    // Of several axes, the rows might be padded.
    let count = Shape::from([shape.iter().product::<usize>()]);
    let flat = zeros_client(like.client.clone(), like.device.clone(), count, DType::F32);
    CubeTensor::new_contiguous(flat.client, flat.device, shape.into(), flat.handle, flat.dtype)
}

pub(crate) fn copied(tensor: CubeTensor) -> CubeTensor {
    let (client, device) = (tensor.client.clone(), tensor.device.clone());
    let copy = empty_device_contiguous_dtype(client.clone(), device, tensor.meta.shape().clone(), DType::F32);
    let dtype = ElemType::Float(FloatKind::F32);
    cubecl::std::tensor::copy_into(&client, tensor.binding(), copy.clone().binding(), dtype);
    copy
}

/// A tensor as an argument of a kernel that counts its numbers in row-major order.
///
/// # Panics
/// They are in another order.
pub(crate) fn linear(tensor: &CubeTensor) -> BufferArg {
    assert!(
        tensor.is_contiguous(),
        "a kernel counts in a tensor {:?} whose numbers lie {:?} apart",
        tensor.meta.shape(),
        tensor.meta.strides()
    );
    tensor.clone().into_buffer_arg()
}

/// A tensor as an argument of a kernel that reads it by strides.
pub(crate) fn strided(tensor: &CubeTensor) -> BufferArg {
    tensor.clone().into_buffer_arg()
}

/// The type that can index the largest of the tensors.
pub(crate) fn address(tensors: &[&CubeTensor]) -> AddressType {
    tensors.iter().map(|tensor| tensor.required_address_type()).max().unwrap_or_default()
}

/// What computes, and the type that can index the largest tensor.
pub(crate) struct Grid {
    pub(crate) client: Client,
    pub(crate) cubes: CubeCount,
    /// Those of a cube.
    pub(crate) units: CubeDim,
    pub(crate) address: AddressType,
}

/// So many units, of the device that the tensors lie on; there may be some more.
pub(crate) fn grid(count: usize, tensors: &[&CubeTensor]) -> Grid {
    let client = tensors[0].client.clone();
    let units = CubeDim::new(&client, count);
    let cubes = calculate_cube_count_elemwise(&client, count, units);
    Grid { client, cubes, units, address: address(tensors) }
}

/// So many cubes of so many units, along as many axes as they need; there may be some more.
pub(crate) fn cubes(count: usize, units: usize, tensors: &[&CubeTensor]) -> Grid {
    let client = tensors[0].client.clone();
    let cubes = calculate_cube_count_elemwise(&client, count, CubeDim::new_single());
    Grid { client, cubes, units: CubeDim::new_1d(units as u32), address: address(tensors) }
}

/// Whether cubes of the device that a tensor lies on have so many units; none has on the CPU.
pub(crate) fn has_units(tensor: &Any, units: usize) -> bool {
    client(tensor).is_some_and(|client| client.properties().hardware.max_units_per_cube as usize >= units)
}
