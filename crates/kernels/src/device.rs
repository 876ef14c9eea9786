//! The device that tensors live on, as the user names it.

use burn::tensor::Device;
use longwave_core::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// What `--device` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// A GPU if there is a real one, the CPU otherwise.
    #[default]
    Auto,
    /// The CPU.
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

/// Opens the chosen device; the text says which one it is, for the user.
///
/// # Errors
/// A GPU is asked for and this build has no GPU support (usage), or no such GPU is found.
pub fn open(choice: DeviceChoice) -> Result<(Device, String)> {
    match choice {
        DeviceChoice::Cpu => Ok(cpu()),
        DeviceChoice::Auto => Ok(gpu::real().unwrap_or_else(cpu)),
        DeviceChoice::Gpu(number) => gpu::open(number),
    }
}

fn cpu() -> (Device, String) {
    (Device::flex(), "CPU".to_owned())
}

#[cfg(not(feature = "gpu"))]
mod gpu {
    use super::{Device, DeviceChoice, Error, Result};

    pub(super) fn real() -> Option<(Device, String)> {
        None
    }

    pub(super) fn open(number: Option<usize>) -> Result<(Device, String)> {
        let choice = DeviceChoice::Gpu(number);
        Err(Error::usage(format!("`--device {choice}`: this build has no GPU support")).hint(format!(
            "build it in: `cargo run --features gpu -- train --device {choice} ...`, or use `--device cpu`"
        )))
    }
}

#[cfg(feature = "gpu")]
mod gpu {
    use super::{Device, DeviceChoice, Error, Result};
    use burn::backend::{CubeDevice, DispatchDevice, WgpuDeviceKind};
    use burn::tensor::DeviceType;

    /// The adapters that wgpu lists, best first, each with its rank.
    fn adapters() -> Vec<(u8, Device)> {
        let mut adapters: Vec<(u8, Device)> =
            Device::enumerate(DeviceType::Wgpu).iter().map(|device| (rank(device), device.clone())).collect();
        adapters.sort_by_key(|(rank, _)| *rank);
        adapters
    }

    /// The rank of an adapter that computes on the CPU (llvmpipe and the like).
    const SOFTWARE: u8 = 4;

    fn rank(device: &Device) -> u8 {
        let DispatchDevice::Cube(CubeDevice::Wgpu(device)) = device.as_dispatch() else { return SOFTWARE };
        match device.kind {
            WgpuDeviceKind::DiscreteGpu(_) => 0,
            WgpuDeviceKind::IntegratedGpu(_) => 1,
            WgpuDeviceKind::VirtualGpu(_) => 2,
            WgpuDeviceKind::Cpu => SOFTWARE,
            _ => 3,
        }
    }

    /// What the adapter calls itself.
    fn described(device: Device, rank: u8) -> (Device, String) {
        let name = device.identity().map_or_else(|| format!("{device:?}"), |identity| identity.name);
        let kind = if rank == SOFTWARE { "software adapter" } else { "GPU" };
        (device, format!("{kind}: {name}"))
    }

    pub(super) fn real() -> Option<(Device, String)> {
        let (rank, device) = adapters().into_iter().find(|(rank, _)| *rank < SOFTWARE)?;
        Some(described(device, rank))
    }

    pub(super) fn open(number: Option<usize>) -> Result<(Device, String)> {
        let adapters = adapters();
        let count = adapters.len();
        match adapters.into_iter().nth(number.unwrap_or(0)) {
            Some((rank, device)) => Ok(described(device, rank)),
            None => {
                let choice = DeviceChoice::Gpu(number);
                let error =
                    Error::failed(format!("`--device {choice}`: there are {count} graphics adapters"));
                Err(if count == 0 {
                    error.hint("install a Vulkan driver, or use `--device cpu`")
                } else {
                    error.hint(format!("use `gpu:0` to `gpu:{}`, or `--device cpu`", count - 1))
                })
            }
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
        let (device, description) = open(DeviceChoice::Cpu).unwrap();
        assert_eq!(device, Device::flex());
        assert_eq!(description, "CPU");
    }

    #[cfg(not(feature = "gpu"))]
    #[test]
    fn without_gpu_support_the_error_names_the_command() {
        let error = open(DeviceChoice::Gpu(Some(1))).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.hint_text().unwrap().contains("cargo run --features gpu -- train --device gpu:1"));
        assert_eq!(open(DeviceChoice::Auto).unwrap().0, Device::flex());
    }
}
