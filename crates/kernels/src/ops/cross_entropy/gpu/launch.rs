//! The launches of the kernels, as operations of a backend, and the gradient.

use super::{UNITS, loss_gradient_kernel, loss_kernel};
use crate::machine::gpu::{address, client, empty, empty_like, grid, launch, linear, spread, width};
use crate::op::Any;
#[cfg(feature = "fusion")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};
use burn_cubecl::CubeBackend;
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;

/// Whether the kernels can compute this on the device that the logits lie on.
pub(crate) fn supports(logits: &Any) -> bool {
    let units = client(logits).map_or(0, |client| client.properties().hardware.max_units_per_cube);
    units as usize >= UNITS && logits.shape()[0] > 0
}

/// The loss on the GPU. Logits `[rows, classes]` of f32, targets `[rows]` of i32.
#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
pub(in crate::ops::cross_entropy) trait Launch: Backend {
    /// The losses and the log sums, `[rows]` each.
    #[fusion(id = "longwave_cross_entropy", meta = metadata)]
    fn losses(logits: FloatTensor<Self>, targets: IntTensor<Self>) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The gradient of the logits.
    #[fusion(id = "longwave_cross_entropy_backward", dtype = logits, shape = logits)]
    fn losses_backward(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        log_sums: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
}

#[cfg(feature = "fusion")]
fn metadata(logits: &TensorSpec, _: &TensorSpec) -> (TensorSpec, TensorSpec) {
    let each = TensorSpec::new([logits.shape.dims::<2>()[0]].into(), logits.dtype);
    (each.clone(), each)
}

impl Launch for CubeBackend {
    fn losses(logits: CubeTensor, targets: CubeTensor) -> (CubeTensor, CubeTensor) {
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

    fn losses_backward(
        logits: CubeTensor,
        targets: CubeTensor,
        log_sums: CubeTensor,
        gradient: CubeTensor,
    ) -> CubeTensor {
        let [logits, targets, log_sums, gradient] =
            [logits, targets, log_sums, gradient].map(into_contiguous);
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
}
