//! Parameters drawn on the host.
//!
//! Each parameter has a random stream of its own, named after it, so that weights are the same on
//! every device and adding one parameter leaves every other as it was.
//!
//! What a model is made of can also be counted before any of it is drawn.

use burn::module::{Param, ParamId};
use burn::tensor::{Device, Tensor, TensorData};
use longwave_core::memory_check::product;
use longwave_core::random::Stream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes initial parameters on a device.
#[derive(Clone, Debug)]
pub struct Init {
    seed: u64,
    device: Device,
    /// Stands before every name.
    scope: String,
    /// Numbers of the parameters so far, where they are counted and not drawn.
    counted: Option<Arc<AtomicU64>>,
}

impl Init {
    /// Parameters for a run with `seed`, placed on `device`.
    pub fn new(seed: u64, device: &Device) -> Self {
        Self { seed, device: device.clone(), scope: String::new(), counted: None }
    }

    /// Parameters that have a shape and take no memory; their numbers are counted.
    pub fn counting(device: &Device) -> Self {
        Self { counted: Some(Arc::default()), ..Self::new(0, device) }
    }

    /// Numbers of all parameters made so far; `None` where they are drawn.
    pub fn counted(&self) -> Option<u64> {
        self.counted.as_ref().map(|counted| counted.load(Ordering::Relaxed))
    }

    /// The same with streams of its own: what is built twice from one name then differs.
    #[must_use]
    pub fn scoped(&self, scope: &str) -> Self {
        Self { scope: format!("{}{scope} ", self.scope), ..self.clone() }
    }

    /// The device parameters are placed on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Normal with mean 0 and the given standard deviation.
    pub fn normal<const D: usize>(&self, name: &str, shape: [usize; D], deviation: f64) -> Param<Tensor<D>> {
        self.normal_around(name, shape, 0.0, deviation)
    }

    /// Normal with the given mean and standard deviation.
    pub fn normal_around<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
        mean: f64,
        deviation: f64,
    ) -> Param<Tensor<D>> {
        self.normal_around_each(name, shape, |_| mean, deviation)
    }

    /// Normal around a mean of its own for each number, chosen by its row-major index.
    pub fn normal_around_each<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
        mean: impl Fn(usize) -> f64,
        deviation: f64,
    ) -> Param<Tensor<D>> {
        let mut stream = self.stream(name);
        let mut index = 0..;
        self.fill(shape, || mean(index.next().unwrap_or_default()) + deviation * stream.normal())
    }

    /// Uniform in `[low, high)`.
    pub fn uniform<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
        range: [f64; 2],
    ) -> Param<Tensor<D>> {
        self.uniform_within(name, shape, range, [f64::NEG_INFINITY, f64::INFINITY])
    }

    /// Uniform in `[low, high)`; what falls outside `bounds` is set to the nearest bound.
    pub fn uniform_within<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
        [low, high]: [f64; 2],
        [least, most]: [f64; 2],
    ) -> Param<Tensor<D>> {
        let mut stream = self.stream(name);
        self.fill(shape, || (low + (high - low) * stream.uniform()).clamp(least, most))
    }

    /// The same value everywhere.
    pub fn constant<const D: usize>(&self, shape: [usize; D], value: f64) -> Param<Tensor<D>> {
        self.fill(shape, || value)
    }

    /// Given values, row-major. Fewer are repeated: one row makes a table of equal rows, which takes no memory before it is
    /// filled.
    ///
    /// # Panics
    /// The number of values does not divide that of the table.
    pub fn values<const D: usize>(&self, shape: [usize; D], values: &[f64]) -> Param<Tensor<D>> {
        let divides = values.is_empty() || product(&shape).is_multiple_of(values.len() as u64);
        assert!(divides, "{} values for {shape:?}", values.len());
        let mut values = values.iter().copied().cycle();
        self.fill(shape, || values.next().unwrap_or_default())
    }

    fn stream(&self, name: &str) -> Stream {
        Stream::new(self.seed, &format!("init {}{name}", self.scope), 0)
    }

    fn fill<const D: usize>(&self, shape: [usize; D], mut draw: impl FnMut() -> f64) -> Param<Tensor<D>> {
        if let Some(counted) = &self.counted {
            let sum = |sum: u64| Some(sum.saturating_add(product(&shape)));
            // An update that never gives up never fails.
            let _ = counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
            let empty = move |device: &Device, _: bool| Tensor::zeros(shape, device);
            return Param::uninitialized(ParamId::new(), empty, self.device.clone(), true, shape.into());
        }
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| draw() as f32).collect();
        Param::from_data(TensorData::new(values, shape), &self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_decide_the_values() {
        let init = Init::new(3, &Device::flex());
        let draw = |name| init.normal(name, [2, 3], 1.0).val().into_data().try_to_vec::<f32>().unwrap();
        assert_eq!(draw("a"), draw("a"));
        assert_ne!(draw("a"), draw("b"));
        let scoped = init.scoped("layers[1]").normal("a", [2, 3], 1.0).val();
        assert_ne!(draw("a"), scoped.into_data().try_to_vec::<f32>().unwrap());
    }

    #[test]
    fn what_is_counted_takes_no_memory() {
        let init = Init::counting(&Device::flex());
        let table = init.scoped("layers[1]").normal("a", [1 << 30, 1 << 30], 1.0);
        assert_eq!((init.counted(), table.lazy_shape().dims()), (Some(1 << 60), [1 << 30, 1 << 30]));
        let _ = init.constant([usize::MAX, 2, 3], 0.0);
        assert_eq!(init.counted(), Some(u64::MAX));
        assert_eq!(Init::new(0, &Device::flex()).counted(), None);
    }
}
