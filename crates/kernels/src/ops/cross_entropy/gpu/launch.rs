//! The launches of the kernels.

use super::{UNITS, loss_gradient_kernel, loss_kernel};
use crate::machine::gpu::{address, client, empty, empty_like, grid, launch, linear, spread, width};
use crate::op::Any;
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;

/// Whether the kernels can compute this on the device that the logits lie on.
pub(crate) fn supports(logits: &Any) -> bool {
    let units = client(logits).map_or(0, |client| client.properties().hardware.max_units_per_cube);
    units as usize >= UNITS && logits.shape()[0] > 0
}

/// The losses and the log sums, `[rows]` each.
pub(in crate::ops::cross_entropy) fn losses(
    logits: CubeTensor,
    targets: CubeTensor,
) -> (CubeTensor, CubeTensor) {
    let [logits, targets] = [logits, targets].map(into_contiguous);
    let [rows, classes] = logits.meta.shape().dims();
    let [losses, log_sums] = [0; 2].map(|_| empty(&logits, [rows]));
    let width = width(&logits.client, std::iter::once(classes));
    // SAFETY: the kernel leaves cubes past the last row idle, and the others stay in their row.
    unsafe {
        launch!(
            loss_kernel,
            &logits.client,
            spread(&logits.client, rows),
            CubeDim::new_1d(UNITS as u32),
            address(&[&logits]),
            width,
            linear(&logits),
            linear(&targets),
            linear(&losses),
            linear(&log_sums),
            rows,
            f32::NAN,
            classes / width,
        );
    }
    (losses, log_sums)
}

/// The gradient of the logits.
pub(in crate::ops::cross_entropy) fn losses_backward(
    logits: CubeTensor,
    targets: CubeTensor,
    log_sums: CubeTensor,
    gradient: CubeTensor,
) -> CubeTensor {
    let [logits, targets, log_sums, gradient] = [logits, targets, log_sums, gradient].map(into_contiguous);
    let slope = empty_like(&logits);
    let classes = logits.meta.shape()[1];
    let width = width(&logits.client, std::iter::once(classes));
    let count = logits.meta.num_elements() / width;
    let (cubes, dim, address) = grid(count, &[&logits]);
    // SAFETY: the kernel leaves units past the count idle, and the others write their own vector.
    unsafe {
        launch!(
            loss_gradient_kernel,
            &logits.client,
            cubes,
            dim,
            address,
            width,
            linear(&logits),
            linear(&targets),
            linear(&log_sums),
            linear(&gradient),
            linear(&slope),
            count,
            classes / width,
        );
    }
    slope
}
