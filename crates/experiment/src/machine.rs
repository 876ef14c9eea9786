//! The device and the threads that an experiment computes with.

use burn::tensor::Device;
use longwave_core::{Error, Result};
use longwave_kernels::DeviceChoice;
use longwave_kernels::device::OpenDevice;

/// The device that tensors are computed on, and the threads of the CPU.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The device.
    pub device: Device,
    /// The device in words, as rows record it.
    pub device_name: String,
    /// The driver of a GPU with its version; `None` for the CPU.
    pub driver: Option<String>,
    /// Whether the device gives the same bits again; `None` until somebody has tried. The CPU does.
    pub repeatable: Option<bool>,
    /// Threads of the CPU.
    pub threads: usize,
}

impl Machine {
    /// Opens a device. `threads` sets the number of threads of this process; as many as there are cores unless given.
    ///
    /// ```
    /// use longwave_experiment::{DeviceChoice, Machine};
    ///
    /// let machine = Machine::open(DeviceChoice::Cpu, None)?;
    /// assert_eq!(machine.device_name, "CPU");
    /// # Ok::<(), longwave_experiment::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no such device, or the number of threads is 0 or was set before.
    pub fn open(choice: DeviceChoice, threads: Option<usize>) -> Result<Self> {
        if threads == Some(0) {
            return Err(Error::value("--threads", 0, "it must be at least 1"));
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0)).build_global();
        if let (Err(error), Some(_)) = (pool, threads) {
            return Err(Error::failed(format!("cannot set the number of threads: {error}")));
        }
        let OpenDevice { device, name, driver } = longwave_kernels::device::open(choice)?;
        let repeatable = driver.is_none().then_some(true);
        Ok(Self { device, device_name: name, driver, repeatable, threads: rayon::current_num_threads() })
    }
}
