//! The adapters of wgpu: Vulkan, Metal or DirectX 12.

use super::{SOFTWARE, Words};
use burn::backend::wgpu::graphics::AutoGraphicsApi;
use burn::backend::wgpu::{RuntimeOptions, WgpuInitError, try_init_setup};
use burn::backend::{WgpuDevice, WgpuDeviceKind};
use std::sync::{Mutex, PoisonError};

/// The adapters opened so far, with their words: the runtime opens each only once.
static OPENED: Mutex<Vec<(WgpuDevice, Words)>> = Mutex::new(Vec::new());

pub(super) fn rank(kind: &WgpuDeviceKind) -> u8 {
    match kind {
        WgpuDeviceKind::DiscreteGpu(_) => 1,
        WgpuDeviceKind::IntegratedGpu(_) => 2,
        WgpuDeviceKind::VirtualGpu(_) => 3,
        WgpuDeviceKind::Cpu => SOFTWARE,
        _ => 4,
    }
}

/// The first major version of Mesa whose software adapter takes shaders of Vulkan's own. The compilers of 22.3 and 25.0 end the
/// process on the first one.
const MESA: u32 = 26;

/// Opens an adapter, and gives its words for itself; or says why it cannot be opened.
///
/// With the feature `vulkan` one in software is opened only where its driver is known to hold: Mesa's llvmpipe from 26 on.
pub(super) fn opened(adapter: &WgpuDevice) -> Result<Words, String> {
    let words = words(adapter).map_err(|error| error.to_string())?;
    if cfg!(feature = "vulkan") && rank(&adapter.kind) == SOFTWARE && !holds(&words.driver) {
        return Err(format!(
            "it computes in software, where shaders of Vulkan's own can end the process with the driver {}; Mesa {MESA} \
             or later holds, and a build with `--features wgpu` opens any",
            words.driver
        ));
    }
    Ok(words)
}

/// Whether a driver of an adapter in software, as `llvmpipe Mesa 26.1.6 (LLVM 19.1.7)`, takes shaders of Vulkan's own.
fn holds(driver: &str) -> bool {
    let version = driver.split_once("Mesa ").and_then(|(_, version)| version.split('.').next());
    version.and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major >= MESA)
}

/// Left to its first tensor, the runtime would open it too, but panic where that fails.
fn words(adapter: &WgpuDevice) -> Result<Words, WgpuInitError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_in_software_hold_by_their_version() {
        for (driver, expected) in [
            ("llvmpipe Mesa 26.1.6-1~bpo13+1 (LLVM 19.1.7)", true),
            ("llvmpipe Mesa 27.0.0 (LLVM 22.1.0)", true),
            ("llvmpipe Mesa 25.0.7-2~bpo12+1 (LLVM 15.0.6)", false),
            ("llvmpipe Mesa 22.3.6 (LLVM 15.0.6)", false),
            ("SwiftShader driver 5.0.0", false),
            ("", false),
        ] {
            assert_eq!(holds(driver), expected, "{driver}");
        }
    }
}
