//! Numbers that are made on the host and read on a device.
//!
//! What differs from step to step (tokens) is uploaded. What stays the same (tables of angles, distances, masks) is made by
//! the same code in every step, but kept on a GPU from the first time on: the host's numbers are compared with those
//! that are kept, byte by byte, and nothing is copied where they are the same.

use burn::tensor::kind::Basic;
use burn::tensor::{Device, Tensor, TensorData};

/// Numbers on a device.
///
/// # Panics
/// The data has not D axes.
pub fn upload<const D: usize, K: Basic + 'static>(data: TensorData, device: &Device) -> Tensor<D, K> {
    #[cfg(feature = "gpu")]
    if cache::is_gpu(device) {
        cache::count(&data);
    }
    Tensor::from_data(data, device)
}

/// [`upload()`] of numbers that are likely to be wanted again, on a GPU once.
///
/// # Panics
/// The data has not D axes.
pub fn constant<const D: usize, K: Basic + 'static>(data: TensorData, device: &Device) -> Tensor<D, K> {
    #[cfg(feature = "gpu")]
    if cache::is_gpu(device) {
        return cache::kept(data, device);
    }
    Tensor::from_data(data, device)
}

#[cfg(feature = "gpu")]
pub(super) use cache::uploaded;

#[cfg(feature = "gpu")]
mod cache {
    use super::upload;
    use burn::backend::{DispatchDevice, GradientCheckpointingStrategy};
    use burn::tensor::kind::Basic;
    use burn::tensor::{Device, Tensor, TensorData};
    use std::any::Any;
    use std::cell::Cell;
    use std::collections::VecDeque;
    use std::sync::{Mutex, PoisonError};

    /// Bytes that are kept at most. What was used last stays.
    const CAPACITY: usize = 64 << 20;

    thread_local! {
        static UPLOADED: Cell<u64> = const { Cell::new(0) };
    }

    static KEPT: Mutex<VecDeque<Upload>> = Mutex::new(VecDeque::new());

    struct Upload {
        device: Device,
        /// Whether the tensor is one with autodiff, and of which strategy: devices are equal without it.
        autodiff: Option<GradientCheckpointingStrategy>,
        data: TensorData,
        /// A tensor of the axes and of the kind that were asked for.
        tensor: Box<dyn Any + Send>,
    }

    /// Bytes that this thread has uploaded so far.
    pub(in crate::machine::device) fn uploaded() -> u64 {
        UPLOADED.get()
    }

    pub(super) fn count(data: &TensorData) {
        UPLOADED.set(UPLOADED.get() + data.as_bytes().len() as u64);
    }

    pub(super) fn is_gpu(device: &Device) -> bool {
        match device.as_dispatch() {
            DispatchDevice::Autodiff(device) => matches!(**device, DispatchDevice::Cube(_)),
            device => matches!(device, DispatchDevice::Cube(_)),
        }
    }

    pub(super) fn kept<const D: usize, K: Basic + 'static>(
        data: TensorData,
        device: &Device,
    ) -> Tensor<D, K> {
        let autodiff = match device.as_dispatch() {
            DispatchDevice::Autodiff(inner) => Some(inner.gradient_checkpointing_strategy()),
            _ => None,
        };
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |entry: &Upload| {
            entry.device == *device
                && entry.autodiff == autodiff
                && entry.data.dtype() == data.dtype()
                && entry.data.shape() == data.shape()
                && entry.data.as_bytes() == data.as_bytes()
                && entry.tensor.is::<Tensor<D, K>>()
        };
        if let Some(entry) = kept.iter().position(same).and_then(|index| kept.remove(index)) {
            let tensor = entry.tensor.downcast_ref::<Tensor<D, K>>().cloned();
            kept.push_front(entry);
            if let Some(tensor) = tensor {
                return tensor;
            }
        }
        let tensor: Tensor<D, K> = upload(data.clone(), device);
        kept.push_front(Upload { device: device.clone(), autodiff, data, tensor: Box::new(tensor.clone()) });
        let mut bytes = 0;
        kept.retain(|entry| {
            bytes += entry.data.as_bytes().len();
            bytes <= CAPACITY
        });
        tensor
    }

    #[cfg(test)]
    mod tests {
        use crate::machine::device::{adapter, constant, counted, upload};
        use crate::testing::list;
        use burn::tensor::{Int, Tensor, TensorData};

        #[test]
        fn what_stays_the_same_is_uploaded_once() {
            let Some(device) = adapter("uploads") else { return };
            // No other test has these.
            let numbers = |last: f32| TensorData::new(vec![31_337.0, -2.5, last], [1, 3]);
            let (_, first) = counted(|| constant::<2, burn::tensor::Float>(numbers(1.0), &device));
            assert!(first.uploaded >= 12);
            let again: Tensor<2> = constant(numbers(1.0), &device);
            let other: Tensor<2> = constant(numbers(2.0), &device);
            assert_eq!((list(again), list(other)), (vec![31_337.0, -2.5, 1.0], vec![31_337.0, -2.5, 2.0]));
            // The same bytes as another kind, and of another shape.
            let zeros = |shape: [usize; 2]| TensorData::new(vec![0_i32; 6], shape);
            let a: Tensor<2, Int> = constant(zeros([2, 3]), &device);
            let b: Tensor<2, Int> = constant(zeros([3, 2]), &device);
            assert_eq!((a.dims(), b.dims()), ([2, 3], [3, 2]));
            let tracked: Tensor<2> = constant(numbers(1.0), &device.clone().autodiff());
            assert!(tracked.is_autodiff());
            let plain: Tensor<2> = upload(numbers(1.0), &device);
            assert!(!plain.is_autodiff());
        }
    }
}
