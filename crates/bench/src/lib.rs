//! Measures the program on the machine at hand: how fast it is, and whether it computes right.
//!
//! - [`train`], [`eval`]: one benchmark each, as [`Record`]s. Those of single operations are in `xtask`.
//! - [`laws`]: what must hold of the encodings, extensions, protocols and metrics that a program registers.
//! - [`record`]: one measurement, as a line of JSON or of a table.
//! - [`clock`]: times of several subjects, taken in turn.
//! - [`peak_memory`]: the most memory that a piece of work holds.
//! - [`export`]: what another program needs to train the same model on the same batches.
//! - [`selfcheck`]: kernels against references, the device against the CPU, encodings against their laws.

// A test fails by a panic, and holds numbers that are exact.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests may panic and be exact"))]

pub mod clock;
pub mod eval;
pub mod export;
pub mod laws;
pub mod numbers;
pub mod peak_memory;
pub mod record;
pub mod selfcheck;
pub mod train;

pub use clock::Clock;
pub use record::{Direction, Record, table};

use burn::tensor::Device;

/// Where benchmarks run.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The plain device.
    pub device: Device,
    /// The device in words.
    pub device_name: String,
    /// How long each measurement may take.
    pub clock: Clock,
    /// The model's operations are plain tensor operations, as `--kernels reference` asks.
    pub reference: bool,
    /// No peer and no reference is timed.
    pub alone: bool,
}

impl Bench {
    /// Lets the kernels run that were asked for, after a reference was timed.
    pub fn asked_kernels(&self) {
        longwave_kernels::use_reference(self.reference);
    }
}

#[cfg(test)]
mod testing {
    use super::{Bench, Clock};
    use burn::tensor::Device;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// The choice of kernels and the count of memory belong to the whole process: one test at a time. Every
    /// test here takes it, since whatever another thread allocates is counted too.
    pub(crate) fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn the_kernels_that_were_asked_for_run_again() {
        let _alone = alone();
        let (device, device_name) = (Device::flex(), "CPU".to_owned());
        longwave_kernels::use_reference(true);
        Bench { device, device_name, clock: Clock::default(), reference: false, alone: false }
            .asked_kernels();
        assert!(!longwave_kernels::reference_in_use());
    }
}
