//! The GPUs that the runtimes of this build reach: CUDA, `ROCm`, and wgpu, which is Vulkan, Metal or DirectX 12.

#[cfg(feature = "wgpu")]
use super::wgpu;
use super::{Device, DeviceChoice, Error, Listed, OpenDevice, Properties, Result, SOFTWARE, Words};
use burn::backend::{CubeDevice, DispatchDevice};
use burn_cubecl::cubecl::ir::features::TypeUsage;
use burn_cubecl::cubecl::ir::{ElemType, FloatKind};

/// The adapters of all runtimes, best first; none of them is opened. A GPU that two runtimes reach is there twice, its maker's
/// runtime first.
fn adapters() -> Vec<CubeDevice> {
    let mut adapters: Vec<CubeDevice> =
        CubeDevice::enumerate_all().into_iter().filter(|adapter| rank(adapter).is_some()).collect();
    adapters.sort_by_key(rank);
    adapters
}

/// The best is 0; `None` of what is no GPU.
fn rank(adapter: &CubeDevice) -> Option<u8> {
    match adapter {
        CubeDevice::Cuda(_) | CubeDevice::Hip(_) => Some(0),
        #[cfg(feature = "wgpu")]
        CubeDevice::Wgpu(adapter) => Some(wgpu::rank(&adapter.kind)),
        _ => None,
    }
}

fn is_real(adapter: &CubeDevice) -> bool {
    rank(adapter).is_some_and(|rank| rank < SOFTWARE)
}

/// Opens an adapter, and gives its words for itself; or says why it cannot be opened.
fn opened(adapter: &CubeDevice) -> std::result::Result<Words, String> {
    let runtime = match adapter {
        #[cfg(feature = "wgpu")]
        CubeDevice::Wgpu(adapter) => return wgpu::opened(adapter),
        CubeDevice::Cuda(_) => "CUDA",
        _ => "ROCm",
    };
    let client = adapter.client();
    let identity = &client.properties().identity;
    let name = format!("GPU: {} ({runtime})", identity.name);
    Ok(Words { name, driver: identity.fingerprint.clone() })
}

fn device(choice: DeviceChoice, adapter: CubeDevice) -> Result<OpenDevice> {
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
    let best = adapters().into_iter().find(is_real);
    best.map(|adapter| device(DeviceChoice::Auto, adapter)).transpose()
}

pub(super) fn open(number: Option<usize>) -> Result<OpenDevice> {
    let choice = DeviceChoice::Gpu(number);
    let adapters = adapters();
    match (adapters.get(number.unwrap_or(0)), number) {
        (Some(adapter), _) => device(choice, adapter.clone()),
        (None, Some(number)) if !adapters.is_empty() => {
            Err(Error::failed(format!("`--device {choice}`: there is no graphics adapter {number}"))
                .hint(format!("use {}, or `--device cpu`", in_words())))
        }
        (None, _) => Err(Error::failed(format!("`--device {choice}`: there is no graphics adapter"))
            .hint("install the GPU's driver (on Linux its Vulkan part), or use `--device cpu`")),
    }
}

/// Every adapter by its number and name, for the user to choose from.
fn in_words() -> String {
    let entry = |Listed { choice, name, .. }: Listed| match name {
        Ok(name) => format!("`{choice}` ({name})"),
        Err(error) => format!("`{choice}` (cannot be opened: {error})"),
    };
    listed().into_iter().map(entry).collect::<Vec<_>>().join(", ")
}

pub(super) fn listed() -> Vec<Listed> {
    let entry = |(number, adapter): (usize, CubeDevice)| {
        let name = opened(&adapter).map(|words| words.name);
        let properties = name.is_ok().then(|| of(&adapter));
        Listed { choice: DeviceChoice::Gpu(Some(number)), name, properties }
    };
    adapters().into_iter().enumerate().map(entry).collect()
}

pub(super) fn properties(device: &Device) -> Option<Properties> {
    match device.as_dispatch() {
        DispatchDevice::Cube(adapter) => Some(of(adapter)),
        _ => None,
    }
}

fn of(adapter: &CubeDevice) -> Properties {
    let client = adapter.client();
    let has = client.properties();
    let types = [("f16", FloatKind::F16), ("bf16", FloatKind::BF16)];
    // NVIDIA's Vulkan driver converts bf16 and multiplies it in matrix units, but adds none: training needs more.
    let is_computed = |(_, kind): &(&str, FloatKind)| {
        has.features.type_usage(ElemType::Float(*kind)).contains(TypeUsage::Arithmetic)
    };
    let product = |config: &burn_cubecl::cubecl::ir::features::MmaConfig| {
        let [a, b, sum] = [config.a_type, config.b_type, config.cd_type].map(|of| of.to_string());
        format!("{a} x {b} + {sum}, {}x{}x{}", config.m, config.n, config.k)
    };
    Properties {
        memory: has.memory.max_memory(),
        largest: has.memory.max_page_size,
        shared: has.hardware.max_shared_memory_size,
        in_step: (has.hardware.plane_size_min, has.hardware.plane_size_max),
        types: types.into_iter().filter(is_computed).map(|(name, _)| name.to_owned()).collect(),
        matrices: has.features.matmul.cmma.iter().map(product).collect(),
    }
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
            (Err(error), false) => assert!(error.message().contains("cannot be opened"), "{error}"),
            (Err(error), true) => assert!(error.message().contains("no graphics adapter"), "{error}"),
            (other, empty) => panic!("{other:?} where adapters are empty: {empty}"),
        }
    }

    #[test]
    fn auto_takes_no_software_adapter() {
        let hardware = adapters().iter().any(is_real);
        let OpenDevice { device, name, .. } = super::super::open(DeviceChoice::Auto).unwrap();
        assert_eq!(device == Device::flex(), !hardware, "{name}");
        assert!(!name.starts_with("software adapter"), "{name}");
    }

    #[test]
    fn every_adapter_is_listed_with_what_it_has() {
        let listed = listed();
        assert_eq!(listed.len(), adapters().len());
        for (number, one) in listed.into_iter().enumerate() {
            assert_eq!(one.choice, DeviceChoice::Gpu(Some(number)));
            let opened = open(Some(number));
            assert_eq!(one.name.is_ok(), opened.is_ok());
            let (Ok(opened), Some(has)) = (opened, one.properties) else { continue };
            assert_eq!(has, properties(&opened.device).unwrap());
            assert!(has.largest >= 1 << 27 && has.shared >= 1 << 14, "{has:?}");
            assert!(has.in_step.0 <= has.in_step.1, "{has:?}");
        }
        assert_eq!(properties(&Device::flex()), None);
    }
}
