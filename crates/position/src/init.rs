//! Parameters drawn on the host.
//!
//! Each parameter has a random stream of its own, named after it, so that weights are the same on
//! every device and adding one parameter leaves every other as it was.

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use longwave_core::random::Stream;

/// Makes initial parameters on a device.
#[derive(Clone, Debug)]
pub struct Init {
    seed: u64,
    device: Device,
    /// Stands before every name.
    scope: String,
}

impl Init {
    /// Parameters for a run with `seed`, placed on `device`.
    pub fn new(seed: u64, device: &Device) -> Self {
        Self { seed, device: device.clone(), scope: String::new() }
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

    /// The seed of the run.
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
        let mut stream = self.stream(name);
        self.fill(shape, || mean + deviation * stream.normal())
    }

    /// Uniform in `[low, high)`.
    pub fn uniform<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
        [low, high]: [f64; 2],
    ) -> Param<Tensor<D>> {
        let mut stream = self.stream(name);
        self.fill(shape, || low + (high - low) * stream.uniform())
    }

    /// The same value everywhere.
    pub fn constant<const D: usize>(&self, shape: [usize; D], value: f64) -> Param<Tensor<D>> {
        self.fill(shape, || value)
    }

    /// Given values, row-major.
    pub fn values<const D: usize>(&self, shape: [usize; D], values: &[f64]) -> Param<Tensor<D>> {
        let mut values = values.iter().copied();
        self.fill(shape, || values.next().unwrap_or_default())
    }

    fn stream(&self, name: &str) -> Stream {
        Stream::new(self.seed, &format!("init {}{name}", self.scope), 0)
    }

    fn fill<const D: usize>(&self, shape: [usize; D], mut draw: impl FnMut() -> f64) -> Param<Tensor<D>> {
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
}
