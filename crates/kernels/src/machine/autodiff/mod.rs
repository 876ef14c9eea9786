//! The bridge between tensors and the kernels.
//!
//! A fused operation turns its inputs into [`OpTensor`]s, computes on their primitives ([`FlexTensor`](burn_flex::FlexTensor)s
//! on the CPU, whose numbers `slices.rs` reads), and `op/record.rs` hands its result on
//! together with its gradient.

mod slices;

pub(crate) use slices::{
    Stored, View, bf16_values, compact, indices, permuted_tensor_of, rounded_tensor, stored, tensor_of,
    values, with_type,
};

use crate::reference_in_use;
use burn::backend::autodiff::ops::NodeGuard;
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Autodiff, Backend, DispatchDevice, DispatchKindConversion, DispatchTensor, Flex,
    GradientCheckpointingStrategy,
};
use burn::tensor::{DType, Tensor};

/// Whether kernels run at all, and not the references.
pub(crate) fn kernels_enabled() -> bool {
    !reference_in_use()
}

/// Whether a CPU kernel computes with this tensor: kernels are enabled, and it is f32 on the CPU.
pub(crate) fn cpu_kernel_applies<const D: usize>(tensor: &Tensor<D>) -> bool {
    kernels_enabled() && is_f32_on_cpu(tensor)
}

/// Whether a CPU kernel computes with this tensor of bf16.
pub(crate) fn bf16_kernel_applies<const D: usize>(tensor: &Tensor<D>) -> bool {
    kernels_enabled() && tensor.dtype() == DType::BF16 && is_on_cpu(tensor)
}

/// Whether a GPU kernel computes with this tensor.
#[cfg(feature = "gpu")]
pub(crate) fn gpu_kernel_applies<const D: usize>(tensor: &Tensor<D>) -> bool {
    kernels_enabled() && tensor.dtype() == DType::F32 && is_beside(tensor, Kernels::Gpu)
}

/// Whether a tensor is f32 on the CPU, without gradient checkpointing.
pub(crate) fn is_f32_on_cpu<const D: usize>(tensor: &Tensor<D>) -> bool {
    tensor.dtype() == DType::F32 && is_on_cpu(tensor)
}

/// Whether a tensor of any type is on the CPU, without gradient checkpointing.
pub(crate) fn is_on_cpu<const D: usize>(tensor: &Tensor<D>) -> bool {
    is_beside(tensor, Kernels::Cpu)
}

fn is_beside<const D: usize>(tensor: &Tensor<D>, kernels: Kernels) -> bool {
    kernels_of(tensor.device().as_dispatch()) == Some(kernels)
}

/// What has kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernels {
    Cpu,
    #[cfg(feature = "gpu")]
    Gpu,
}

/// The kernels of a device without gradient checkpointing.
pub(crate) fn kernels_of(device: &DispatchDevice) -> Option<Kernels> {
    match device {
        DispatchDevice::Autodiff(inner) => {
            let plain = inner.gradient_checkpointing_strategy() == GradientCheckpointingStrategy::Disabled;
            if plain { kernels_of(inner) } else { None }
        }
        DispatchDevice::Flex(_) => Some(Kernels::Cpu),
        #[cfg(feature = "gpu")]
        DispatchDevice::Cube(_) => Some(Kernels::Gpu),
        #[allow(unreachable_patterns, reason = "burn may have other backends beside these")]
        _ => None,
    }
}

/// A backend that has fused operations, with or without autodiff around it.
pub(crate) trait FusedBackend: Backend {
    /// The primitive of a tensor with autodiff.
    fn tracked<const D: usize>(tensor: Tensor<D>) -> FloatTensor<Autodiff<Self>>;

    /// The primitive of a tensor without autodiff.
    fn plain<const D: usize>(tensor: Tensor<D>) -> FloatTensor<Self>;

    fn from_tracked<const D: usize>(primitive: FloatTensor<Autodiff<Self>>) -> Tensor<D>;

    /// A tensor without autodiff.
    fn from_plain<const D: usize>(primitive: FloatTensor<Self>) -> Tensor<D>;
}

impl<B: Backend> FusedBackend for B
where
    DispatchTensor: DispatchKindConversion<B> + DispatchKindConversion<Autodiff<B>>,
{
    fn tracked<const D: usize>(tensor: Tensor<D>) -> FloatTensor<Autodiff<Self>> {
        tensor.try_into_primitive::<Autodiff<Self>>().expect(CHECKED)
    }

    fn plain<const D: usize>(tensor: Tensor<D>) -> FloatTensor<Self> {
        tensor.try_into_primitive::<Self>().expect(CHECKED)
    }

    fn from_tracked<const D: usize>(primitive: FloatTensor<Autodiff<Self>>) -> Tensor<D> {
        Tensor::from_primitive::<Autodiff<Self>>(primitive)
    }

    fn from_plain<const D: usize>(primitive: FloatTensor<Self>) -> Tensor<D> {
        Tensor::from_primitive::<Self>(primitive)
    }
}

const CHECKED: &str = "the caller checked the device and the type";

/// An input or output of a fused operation: a tensor's primitive, and its node in the autodiff graph.
#[derive(Clone)]
pub(crate) struct OpTensor<B: FusedBackend> {
    tensor: FloatTensor<Autodiff<B>>,
    autodiff: bool,
}

/// An input or output of a fused operation on the CPU.
pub(crate) type CpuTensor = OpTensor<Flex>;

/// The numbers of a tensor on the GPU.
#[cfg(feature = "gpu")]
pub(crate) type Primitive = FloatTensor<burn::backend::Cube>;

impl<B: FusedBackend> OpTensor<B> {
    /// A tensor on a device of the backend.
    pub(crate) fn new<const D: usize>(tensor: Tensor<D>) -> Self {
        let autodiff = tensor.is_autodiff();
        let tensor =
            if autodiff { B::tracked(tensor) } else { FloatTensor::<Autodiff<B>>::new(B::plain(tensor)) };
        Self { tensor, autodiff }
    }

    /// A tensor without autodiff.
    pub(crate) fn plain(tensor: FloatTensor<B>) -> Self {
        Self::untracked(tensor, false)
    }

    /// A tensor that receives no gradient, with or without autodiff.
    pub(crate) fn untracked(tensor: FloatTensor<B>, autodiff: bool) -> Self {
        Self { tensor: FloatTensor::<Autodiff<B>>::new(tensor), autodiff }
    }

    /// A tensor with a node in the graph.
    pub(crate) fn tracked(tensor: FloatTensor<Autodiff<B>>) -> Self {
        Self { tensor, autodiff: true }
    }

    pub(crate) fn node(&self) -> NodeGuard {
        self.tensor.node()
    }

    pub(crate) fn is_autodiff(&self) -> bool {
        self.autodiff
    }

    pub(crate) fn data(&self) -> &FloatTensor<B> {
        self.tensor.primitive()
    }

    /// The values, when nothing else of the input is needed.
    pub(crate) fn into_data(self) -> FloatTensor<B> {
        self.tensor.into_primitive()
    }

    /// Whether a gradient is wanted for this input, or for something before it.
    pub(crate) fn is_tracked(&self) -> bool {
        self.tensor.is_tracked()
    }

    /// The tensor, which has D axes.
    pub(crate) fn into_tensor<const D: usize>(self) -> Tensor<D> {
        if self.autodiff { B::from_tracked(self.tensor) } else { B::from_plain(self.into_data()) }
    }
}

/// Whether any input is tracked: then the operation must keep what its gradient needs.
pub(crate) fn any_tracked<'a, B: FusedBackend>(inputs: impl IntoIterator<Item = &'a OpTensor<B>>) -> bool {
    inputs.into_iter().any(OpTensor::is_tracked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tensor;
    use burn::tensor::Device;

    #[test]
    fn other_types_and_checkpointing_go_to_the_reference() {
        let device = Device::flex();
        let x = tensor::<2>(1, [2, 2], &device);
        assert!(is_f32_on_cpu(&x));
        assert!(is_f32_on_cpu(&Tensor::<2>::from_inner(x.clone())));
        assert!(!is_f32_on_cpu(&x.clone().cast(DType::F64)));
        let checkpointing = device.autodiff().gradient_checkpointing();
        assert!(!is_f32_on_cpu(&tensor::<2>(1, [2, 2], &checkpointing)));
    }
}
