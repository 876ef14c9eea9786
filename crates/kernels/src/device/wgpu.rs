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

/// Opens an adapter, and gives its words for itself; or says why it cannot be opened.
///
/// With the feature `vulkan` none in software is opened: the compiler of Mesa's llvmpipe (22.3) ends the process on the first shader
/// of Vulkan's own.
pub(super) fn opened(adapter: &WgpuDevice) -> Result<Words, String> {
    if cfg!(feature = "vulkan") && rank(&adapter.kind) == SOFTWARE {
        return Err(
            "it computes in software, where shaders of Vulkan's own can end the process; a build with \
                    `--features wgpu` opens it"
                .to_owned(),
        );
    }
    words(adapter).map_err(|error| error.to_string())
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
