//! An operation that is held against plain tensor operations on the CPU.

use super::{Checked, Finding, difference, gradient_differences, largest, list};
use crate::numbers;
use burn::tensor::{Device, Tensor, TensorData};
use longwave_kernels::Precision;

type Run = dyn Fn(&[Tensor<1>]) -> Tensor<1>;

/// An operation of flat inputs with a flat output.
pub(super) struct Operation {
    pub(super) name: String,
    /// The numbers of each input.
    sizes: Vec<usize>,
    run: Box<Run>,
    /// Whether some gradients add up a number for every pair of tokens, which nearly cancel.
    pub(super) sums_pairs: bool,
}

impl Operation {
    pub(super) fn new(
        name: impl Into<String>,
        sizes: &[usize],
        run: impl Fn(&[Tensor<1>]) -> Tensor<1> + 'static,
    ) -> Self {
        Self { name: name.into(), sizes: sizes.to_vec(), run: Box::new(run), sums_pairs: false }
    }

    /// The same, whose gradients add up a number for every pair of tokens.
    pub(super) fn summing_pairs(self) -> Self {
        Self { sums_pairs: true, ..self }
    }

    /// How far values and gradients are off, as [`parity`](super::parity) says.
    pub(super) fn differences(&self, checked: &Checked) -> Result<[f32; 2], String> {
        let [actual, expected] = checked.both(|device| self.differentiate(device));
        let values = difference(largest(&expected[0]), &actual[0], &expected[0])?;
        let gradients: Vec<f32> =
            gradient_differences(&actual[1..], &expected[1..]).collect::<Result<_, _>>()?;
        Ok([values, largest(&gradients)])
    }

    pub(super) fn check(&self, checked: &Checked, precision: Precision) -> Finding {
        let [actual, expected] = checked.both(|device| self.differentiate(device));
        let mut worst = 0.0_f32;
        for (index, (actual, expected)) in actual.iter().zip(&expected).enumerate() {
            let what = if index == 0 { "values".to_owned() } else { format!("gradient {index}") };
            worst = worst.max(checked.compare_in(precision, &what, actual, expected)?);
        }
        Ok(format!("{} gradients, within {worst:.1e}", self.sizes.len()))
    }

    /// The output, and the gradient of every input under a fixed weighting.
    fn differentiate(&self, device: &Device) -> Vec<Vec<f32>> {
        let device = device.clone().autodiff();
        let flat = |values: &[f32]| {
            Tensor::<1>::from_data(TensorData::new(values.to_vec(), [values.len()]), &device)
        };
        let input = |(index, &size)| flat(&numbers::values(&format!("input {index}"), size)).require_grad();
        let leaves: Vec<Tensor<1>> = self.sizes.iter().enumerate().map(input).collect();
        let output = (self.run)(&leaves);
        let weights = flat(&numbers::values("weights", output.dims()[0]));
        let gradients = (output.clone() * weights).sum().backward();
        let mut found = vec![list(output)];
        found.extend(leaves.iter().map(|leaf| leaf.grad(&gradients).map_or_else(Vec::new, list)));
        found
    }
}

pub(super) fn flat<const D: usize>(tensor: Tensor<D>) -> Tensor<1> {
    let count = tensor.shape().num_elements();
    tensor.reshape([count])
}
