//! The device that tensors live on, as the user names it.

mod count;
#[cfg(feature = "gpu")]
mod gpu;
mod upload;
#[cfg(feature = "wgpu")]
mod wgpu;

pub use count::{Counts, counted};
pub use upload::{constant, upload};

use burn::tensor::Device;
use longwave_core::{Error, Result};
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// A GPU if there is a real one, the CPU otherwise.
    #[default]
    Auto,
    Cpu,
    /// The best GPU, or the one with this number.
    Gpu(Option<usize>),
}

impl FromStr for DeviceChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "gpu" => Ok(Self::Gpu(None)),
            _ => match text.strip_prefix("gpu:").map(str::parse) {
                Some(Ok(number)) => Ok(Self::Gpu(Some(number))),
                _ => Err(Error::value("--device", text, "it must be `auto`, `cpu`, `gpu` or `gpu:N`")
                    .hint("`gpu:0` is the first GPU; `auto` takes one if there is one")),
            },
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => write!(f, "auto"),
            Self::Cpu => write!(f, "cpu"),
            Self::Gpu(None) => write!(f, "gpu"),
            Self::Gpu(Some(number)) => write!(f, "gpu:{number}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct OpenDevice {
    /// Where tensors live.
    pub device: Device,
    /// Which one it is, in words for the user.
    pub name: String,
    /// The driver of a GPU with its version, in the driver's own words; `None` for the CPU.
    pub driver: Option<String>,
}

/// Opens the chosen device.
pub fn open(choice: DeviceChoice) -> Result<OpenDevice> {
    match choice {
        DeviceChoice::Cpu => Ok(cpu()),
        DeviceChoice::Auto => Ok(gpu::real()?.unwrap_or_else(cpu)),
        DeviceChoice::Gpu(number) => gpu::open(number),
    }
}

fn cpu() -> OpenDevice {
    OpenDevice { device: Device::flex(), name: "CPU".to_owned(), driver: None }
}

/// An adapter's own words for itself, and its driver's.
#[cfg(feature = "gpu")]
#[derive(Clone)]
struct Words {
    name: String,
    driver: String,
}

/// The rank of an adapter that computes on the CPU (llvmpipe and the like).
#[cfg(feature = "gpu")]
const SOFTWARE: u8 = 5;

/// Whether this build has a runtime that reaches GPUs.
pub const HAS_RUNTIME: bool = cfg!(any(feature = "wgpu", feature = "cuda", feature = "rocm"));

/// A GPU of this machine, as [`gpus`] lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// What `--device` calls it.
    pub choice: DeviceChoice,
    /// Its name with that of its runtime, or why it cannot be opened.
    pub name: std::result::Result<String, String>,
    /// What it has; `None` where it cannot be opened.
    pub properties: Option<Properties>,
}

/// What a GPU has, as its runtime says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties {
    /// Its memory in bytes; `None` where the runtime does not say (WebGPU does not).
    pub memory: Option<u64>,
    /// The largest tensor that it holds, in bytes.
    pub largest: u64,
    /// Memory that the threads of a group share, in bytes.
    pub shared: usize,
    /// The fewest and the most threads that compute in step.
    pub in_step: (u32, u32),
    /// The types of numbers besides f32 that it computes with: `f16`, `bf16`.
    pub types: Vec<String>,
    /// The products that its matrix units compute, as `f16 x f16 + f32, 16x16x16`.
    pub matrices: Vec<String>,
}

/// Every GPU of this machine that a runtime of this build reaches, the best first: what `--device gpu:N` counts.
pub fn gpus() -> Vec<Listed> {
    gpu::listed()
}

/// What a device has; `None` of the CPU.
pub fn properties(device: &Device) -> Option<Properties> {
    gpu::properties(device)
}

#[cfg(not(feature = "gpu"))]
mod gpu {
    use super::{Device, DeviceChoice, Error, Listed, OpenDevice, Properties, Result};

    #[allow(clippy::unnecessary_wraps, reason = "with GPU support, opening one can fail")]
    pub(super) fn real() -> Result<Option<OpenDevice>> {
        Ok(None)
    }

    pub(super) fn open(number: Option<usize>) -> Result<OpenDevice> {
        let choice = DeviceChoice::Gpu(number);
        Err(Error::usage(format!("`--device {choice}`: this build has no GPU support")).hint(format!(
            "build it in: `cargo run --features gpu -- train --device {choice} ...`, or use `--device cpu`"
        )))
    }

    pub(super) fn listed() -> Vec<Listed> {
        Vec::new()
    }

    pub(super) fn properties(_device: &Device) -> Option<Properties> {
        None
    }
}

/// For tests: the best adapter, one in software too; `None`, having said so, where there is none and none is
/// required.
#[cfg(all(test, feature = "gpu"))]
pub(crate) fn adapter(left_out: &str) -> Option<Device> {
    use std::io::Write;
    match open(DeviceChoice::Gpu(None)) {
        Ok(opened) => Some(opened.device),
        Err(error) => {
            let required = std::env::var_os("LONGWAVE_REQUIRE_GPU").is_some_and(|value| value == "1");
            assert!(!required, "LONGWAVE_REQUIRE_GPU=1: {error}");
            // Written past the capture of the test's output: a test that passes shows nothing of it.
            let line = format!("left out: {left_out} ({})\n", error.message());
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_and_print_alike() {
        for text in ["auto", "cpu", "gpu", "gpu:3"] {
            assert_eq!(text.parse::<DeviceChoice>().unwrap().to_string(), text);
        }
        for text in ["", "GPU", "gpu:", "gpu:x", "gpu:-1", "cuda"] {
            let error = text.parse::<DeviceChoice>().unwrap_err();
            assert!(error.message().contains("`gpu:N`"), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn the_cpu_opens() {
        let OpenDevice { device, name, driver } = open(DeviceChoice::Cpu).unwrap();
        assert_eq!(device, Device::flex());
        assert_eq!((name.as_str(), driver), ("CPU", None));
    }

    #[cfg(not(feature = "gpu"))]
    #[test]
    fn without_gpu_support_the_error_names_the_command() {
        let error = open(DeviceChoice::Gpu(Some(1))).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.hint_text().unwrap().contains("cargo run --features gpu -- train --device gpu:1"));
        assert_eq!(open(DeviceChoice::Auto).unwrap().device, Device::flex());
    }
}
