//! What comes from behind in the backward pass.

use crate::machine::gpu::Strides;
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// What the backward pass reads besides: the gradient of the output, the log sums, and their gradient or another tensor
/// in its place.
#[derive(CubeLaunch, CubeType)]
pub(super) struct Upstream<'a, N: Size> {
    pub(super) gradient: &'a [Vector<f32, N>],
    pub(super) strides: Strides,
    pub(super) log_sums: &'a [f32],
    pub(super) log_sums_gradient: &'a [f32],
}
