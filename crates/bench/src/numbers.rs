//! Random inputs.

use burn::tensor::{Device, Tensor, TensorData};
use longwave_core::random::Stream;

/// Uniform numbers in [-1, 1) that depend on the name alone.
pub fn tensor<const D: usize>(name: &str, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values(name, shape.iter().product()), shape), device)
}

pub fn values(name: &str, count: usize) -> Vec<f32> {
    // A stream's number costs as much as a row of arithmetic: a few thousand of them, repeated, will do.
    const PERIOD: usize = 8191;
    let mut stream = Stream::new(0, name, 0);
    let period: Vec<f32> = (0..count.min(PERIOD)).map(|_| (2.0 * stream.uniform() - 1.0) as f32).collect();
    period.iter().copied().cycle().take(count).collect()
}
