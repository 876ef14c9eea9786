//! The launches of the kernels.

use super::{UNITS, loss_gradient_kernel, loss_kernel};
use crate::machine::gpu::{cubes, empty, empty_like, has_units, launch, launch_vectors, width};
use crate::op::Any;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;

/// Whether the kernels can compute this on the device that the logits lie on.
pub(crate) fn supports(logits: &Any) -> bool {
    has_units(logits, UNITS) && logits.shape()[0] > 0
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
    let (grid, vectors) = (cubes(rows, UNITS, &[&logits]), classes / width);
    // SAFETY: the kernel leaves cubes past the last row idle, and the others stay in their row.
    unsafe {
        launch!(loss_kernel, grid, [width], [logits, targets, losses, log_sums], rows, f32::NAN, vectors);
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
    launch_vectors!(
        loss_gradient_kernel, classes, logits, [logits, targets, log_sums, gradient, slope],
        width => classes / width
    );
    slope
}
