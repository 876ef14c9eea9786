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

/// A device that was opened.
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
///
/// # Errors
/// A GPU is asked for and this build has no GPU support (usage), no such GPU is found, or it cannot be
/// opened.
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

#[cfg(not(feature = "gpu"))]
mod gpu {
    use super::{DeviceChoice, Error, OpenDevice, Result};

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
}

#[cfg(feature = "gpu")]
mod gpu {
    use super::{Device, DeviceChoice, Error, OpenDevice, Result};
    use burn::backend::wgpu::graphics::AutoGraphicsApi;
    use burn::backend::wgpu::{RuntimeOptions, WgpuInitError, try_init_setup};
    use burn::backend::{CubeDevice, DispatchDevice, WgpuDevice, WgpuDeviceKind};
    use burn::tensor::DeviceType;
    use std::sync::{Mutex, PoisonError};

    /// An adapter's own words for itself, and its driver's.
    #[derive(Clone)]
    struct Words {
        name: String,
        driver: String,
    }

    /// The adapters opened so far, with their words: the runtime opens each only once.
    static OPENED: Mutex<Vec<(WgpuDevice, Words)>> = Mutex::new(Vec::new());

    /// The adapters that the graphics API lists, best first; none of them is opened.
    fn adapters() -> Vec<WgpuDevice> {
        let mut adapters: Vec<WgpuDevice> = Device::enumerate(DeviceType::Wgpu)
            .iter()
            .filter_map(|device| match device.as_dispatch() {
                DispatchDevice::Cube(CubeDevice::Wgpu(adapter)) => Some(adapter.clone()),
                _ => None,
            })
            .collect();
        adapters.sort_by_key(|adapter| rank(&adapter.kind));
        adapters
    }

    /// The rank of an adapter that computes on the CPU (llvmpipe and the like).
    const SOFTWARE: u8 = 4;

    fn rank(kind: &WgpuDeviceKind) -> u8 {
        match kind {
            WgpuDeviceKind::DiscreteGpu(_) => 0,
            WgpuDeviceKind::IntegratedGpu(_) => 1,
            WgpuDeviceKind::VirtualGpu(_) => 2,
            WgpuDeviceKind::Cpu => SOFTWARE,
            _ => 3,
        }
    }

    /// Opens an adapter, and gives its words for itself.
    ///
    /// Left to its first tensor, the runtime would open it too, but panic where that fails.
    fn opened(adapter: &WgpuDevice) -> Result<Words, WgpuInitError> {
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, words)) = opened.iter().find(|(known, _)| known == adapter) {
            return Ok(words.clone());
        }
        let setup = try_init_setup::<AutoGraphicsApi>(adapter, RuntimeOptions::try_default()?)?;
        let kind = if rank(&adapter.kind) == SOFTWARE { "software adapter" } else { "GPU" };
        let info = setup.adapter.get_info();
        let words = Words {
            name: format!("{kind}: {} ({:?})", info.name, setup.backend),
            driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
        };
        opened.push((adapter.clone(), words.clone()));
        Ok(words)
    }

    fn device(choice: DeviceChoice, adapter: WgpuDevice) -> Result<OpenDevice> {
        match opened(&adapter) {
            Ok(Words { name, driver }) => {
                Ok(OpenDevice { device: Device::new(adapter), name, driver: Some(driver) })
            }
            Err(error) => {
                Err(Error::failed(format!("`--device {choice}`: the adapter cannot be opened: {error}"))
                    .hint("update its driver, or use `--device cpu`"))
            }
        }
    }

    pub(super) fn real() -> Result<Option<OpenDevice>> {
        let best = adapters().into_iter().find(|adapter| rank(&adapter.kind) < SOFTWARE);
        best.map(|adapter| device(DeviceChoice::Auto, adapter)).transpose()
    }

    pub(super) fn open(number: Option<usize>) -> Result<OpenDevice> {
        let choice = DeviceChoice::Gpu(number);
        let adapters = adapters();
        match (adapters.get(number.unwrap_or(0)), number) {
            (Some(adapter), _) => device(choice, adapter.clone()),
            (None, Some(number)) if !adapters.is_empty() => {
                Err(Error::failed(format!("`--device {choice}`: there is no graphics adapter {number}"))
                    .hint(format!("use {}, or `--device cpu`", listed(&adapters))))
            }
            (None, _) => Err(Error::failed(format!("`--device {choice}`: there is no graphics adapter"))
                .hint("install the GPU's driver (on Linux its Vulkan part), or use `--device cpu`")),
        }
    }

    /// Every adapter by its number and name, for the user to choose from.
    fn listed(adapters: &[WgpuDevice]) -> String {
        let entry = |(number, adapter): (usize, &WgpuDevice)| match opened(adapter) {
            Ok(Words { name, .. }) => format!("`gpu:{number}` ({name})"),
            Err(error) => format!("`gpu:{number}` (cannot be opened: {error})"),
        };
        adapters.iter().enumerate().map(entry).collect::<Vec<_>>().join(", ")
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn an_adapter_that_is_not_there_is_an_error_with_a_hint() {
            let error = open(Some(usize::MAX)).unwrap_err();
            assert_eq!(error.exit_code(), 1);
            assert!(error.message().contains(&format!("--device gpu:{}", usize::MAX)), "{error}");
            let hint = error.hint_text().unwrap();
            assert!(hint.contains("`--device cpu`"), "{hint}");
            assert_eq!(hint.contains("`gpu:0` ("), !adapters().is_empty(), "{hint}");
        }

        #[test]
        fn an_adapter_opens_twice_and_names_itself() {
            match (open(None), adapters().is_empty()) {
                (Ok(opened), false) => {
                    assert_eq!(open(Some(0)).unwrap(), opened);
                    let OpenDevice { device, name, driver } = opened;
                    assert_ne!(device, Device::flex());
                    assert!(name.starts_with("GPU: ") || name.starts_with("software adapter: "), "{name}");
                    assert!(driver.is_some_and(|driver| !driver.is_empty()));
                }
                (Err(error), true) => assert!(error.message().contains("no graphics adapter"), "{error}"),
                (other, empty) => panic!("{other:?} where adapters are empty: {empty}"),
            }
        }

        #[test]
        fn auto_takes_no_software_adapter() {
            let hardware = adapters().iter().any(|adapter| rank(&adapter.kind) < SOFTWARE);
            let OpenDevice { device, name, .. } = super::super::open(DeviceChoice::Auto).unwrap();
            assert_eq!(device == Device::flex(), !hardware, "{name}");
            assert!(!name.starts_with("software adapter"), "{name}");
        }
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
