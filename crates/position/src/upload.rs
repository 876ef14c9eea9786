//! Numbers that are made on the host in f64, as tensors.

use burn::tensor::{Device, Tensor, TensorData};
use longwave_kernels::device::constant;

/// Numbers made on the host, `[count]`, as f32.
pub fn upload(values: &[f64], device: &Device) -> Tensor<1> {
    upload_shaped(values.iter().copied(), [values.len()], device)
}

/// The same of any shape, row-major.
pub(crate) fn upload_shaped<const D: usize>(
    values: impl Iterator<Item = f64>,
    shape: [usize; D],
    device: &Device,
) -> Tensor<D> {
    let values: Vec<f32> = values.map(|value| value as f32).collect();
    constant(TensorData::new(values, shape), device)
}
