//! `selfcheck`: whether this machine computes right, in seconds.
//!
//! - [`kernels`]: every fused operation, values and gradients, against plain tensor operations on the CPU.
//! - [`encodings`]: a small model with every encoding against the same, and laws that encodings obey.
//! - [`laws`]: what must hold of the encodings, extensions, protocols and metrics that a program registers.
//! - [`device`]: what the device holds, and that it repeats itself.
//! - [`parity`]: how close a device comes in every operation, encoding and extension, at many lengths, as a table.
//! - [`Verdict`]: what was found, remembered for each driver, so that a GPU that computes wrong trains nothing.

pub mod device;
pub mod encodings;
pub mod kernels;
mod of_encodings;
mod operation;
pub mod parity;
mod remembered;
mod small_model;

pub use remembered::{Failure, Identity, Verdict};

use crate::laws;
use burn::tensor::{Device, Tensor};
use longwave_core::{Error, Result};
use longwave_kernels::Precision;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The device that is checked.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The plain device.
    pub device: Device,
    /// The kernels that run on it are the plain operations (`--kernels reference`).
    pub reference: bool,
}

/// What a check found: `Ok` with what was seen, `Err` with what is wrong.
pub type Finding = std::result::Result<String, String>;

/// A finished check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What was checked.
    pub name: String,
    pub finding: Finding,
}

impl Checked {
    /// The device is the CPU.
    fn on_cpu(&self) -> bool {
        self.device == Device::flex()
    }

    /// What a value may differ by, over the largest one (at least 1): rounding on the CPU, also exp and
    /// division as graphics devices round them elsewhere.
    fn tolerance(&self) -> f32 {
        if self.on_cpu() { 2e-5 } else { 2e-4 }
    }

    /// The same in a precision: in half, sums in another order may tip a rounding here and there, each by two units of
    /// roundoff, and the next product adds such differences up.
    fn tolerance_in(&self, precision: Precision) -> f32 {
        match precision {
            Precision::F32 => self.tolerance(),
            half => self.tolerance() + 4.0 * half.unit_roundoff() as f32,
        }
    }

    /// Runs something on the device with its own kernels.
    fn here<T>(&self, work: impl FnOnce(&Device) -> T) -> T {
        longwave_kernels::use_reference(self.reference);
        work(&self.device)
    }

    /// Runs something on the CPU with plain tensor operations.
    fn plainly<T>(&self, work: impl FnOnce(&Device) -> T) -> T {
        longwave_kernels::use_reference(true);
        let result = work(&Device::flex());
        longwave_kernels::use_reference(self.reference);
        result
    }

    /// What something gives on the device, and what it gives as [`plainly`](Self::plainly) computed.
    fn both<T>(&self, work: impl Fn(&Device) -> T) -> [T; 2] {
        [self.here(&work), self.plainly(&work)]
    }

    /// Holds the device's values against the expected ones; says the largest difference.
    fn compare(&self, what: &str, actual: &[f32], expected: &[f32]) -> std::result::Result<f32, String> {
        self.compare_in(Precision::F32, what, actual, expected)
    }

    /// The same for what was computed in a precision.
    fn compare_in(
        &self,
        precision: Precision,
        what: &str,
        actual: &[f32],
        expected: &[f32],
    ) -> std::result::Result<f32, String> {
        let off = difference(largest(expected).max(1.0), actual, expected);
        within(self.tolerance_in(precision), what, off)
    }
}

/// The largest difference of values to the expected ones, over `scale`; infinite where one is not finite.
fn difference(scale: f32, actual: &[f32], expected: &[f32]) -> std::result::Result<f32, String> {
    if actual.len() != expected.len() {
        return Err(format!("{} values instead of {}", actual.len(), expected.len()));
    }
    let off = |(a, e): (&f32, &f32)| match (a - e).abs() {
        same if same <= 0.0 => 0.0,
        other if other.is_finite() => other / scale,
        _ => f32::INFINITY,
    };
    Ok(actual.iter().zip(expected).map(off).fold(0.0_f32, f32::max))
}

/// The [`difference`] of each gradient, over its own largest number or a fiftieth of the largest of all. One that is smaller
/// may have none but rounding errors: a softmax does not see what is added to all logits of a row.
fn gradient_differences(
    actual: &[Vec<f32>],
    expected: &[Vec<f32>],
) -> impl Iterator<Item = std::result::Result<f32, String>> {
    let own: Vec<f32> = expected.iter().map(|gradient| largest(gradient)).collect();
    let silent = 0.02 * largest(&own);
    let pairs = actual.iter().zip(expected).zip(own);
    pairs.map(move |((actual, expected), own)| difference(own.max(silent), actual, expected))
}

/// What something is off by, if that is allowed.
fn within(
    tolerance: f32,
    what: &str,
    off: std::result::Result<f32, String>,
) -> std::result::Result<f32, String> {
    match off {
        Ok(off) if off <= tolerance => Ok(off),
        Ok(off) => Err(format!("{what}: off by {off:.1e}, allowed {tolerance:.1e}")),
        Err(error) => Err(format!("{what}: {error}")),
    }
}

/// Runs every check and shows each as it ends; the number that failed.
pub fn run(checked: &Checked, show: &mut dyn FnMut(&Outcome) -> Result<()>) -> Result<usize> {
    let mut failed = 0;
    let mut each = |name: String, check: &mut dyn FnMut() -> Finding| {
        // A backend says with a panic that it cannot do something; here that is a finding.
        let finding = catch_unwind(AssertUnwindSafe(check))
            .unwrap_or_else(|_| Err("it panicked; the message is above".to_owned()));
        longwave_kernels::use_reference(checked.reference);
        failed += usize::from(finding.is_err());
        show(&Outcome { name, finding })
    };
    device::all(checked, &mut each)?;
    kernels::all(checked, &mut each)?;
    encodings::all(checked, &mut each)?;
    laws::of_registered(&mut |name, law| each(name, &mut || law().map(|()| String::new())))?;
    Ok(failed)
}

/// Runs one check by its name.
type Each<'a> = dyn FnMut(String, &mut dyn FnMut() -> Finding) -> Result<()> + 'a;

/// The largest magnitude.
fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0_f32, |most, x| most.max(x.abs()))
}

fn list<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// The error of a run with failed checks.
pub fn failure(failed: usize) -> Error {
    let checks = if failed == 1 { "check" } else { "checks" };
    Error::failed(format!("{failed} {checks} failed")).hint(
        "`--device cpu` checks the CPU, and `--kernels reference` the plain operations: what fails there too \
         is not the kernels' fault",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::alone;

    #[test]
    fn differences_and_panics_are_findings() {
        let _alone = alone();
        let checked = Checked { device: Device::flex(), reference: false };
        assert!(checked.compare("x", &[1.0, 2.0], &[1.0, 2.000_01]).is_ok());
        assert!(checked.compare("x", &[1.0, 2.0], &[1.0, 2.001]).unwrap_err().contains("off by"));
        for (actual, expected) in [(f32::NAN, 0.0), (0.0, f32::NAN), (f32::INFINITY, f32::INFINITY)] {
            assert!(checked.compare("x", &[actual], &[expected]).is_err(), "{actual} {expected}");
        }
        assert_eq!(difference(0.0, &[0.0], &[0.0]), Ok(0.0));
        assert_eq!(checked.compare("x", &[], &[0.0]).unwrap_err(), "x: 0 values instead of 1");
        assert_eq!(failure(2).exit_code(), 1);
        assert_eq!(checked.both(|_| longwave_kernels::reference_in_use()), [false, true]);
        assert!(!longwave_kernels::reference_in_use(), "the kernels that were asked for run again");
    }
}
