//! The form of an operation that computes: on the CPU, on the GPU, or the reference.

use super::{Any, Op, PlainGradient};
use crate::machine::autodiff::{Kernels, kernels_of};
use crate::reference_in_use;
use burn::tensor::DType;

pub(super) enum Form {
    Cpu,
    #[cfg(feature = "gpu")]
    Gpu,
    Reference,
    /// In f32, the outputs rounded to this type.
    RoundedReference(DType),
    /// The same by the form on the CPU, with this gradient.
    RoundedCpu(PlainGradient),
    #[cfg(feature = "gpu")]
    RoundedGpu(PlainGradient),
}

pub(super) fn form<O: Op<N, M>, const N: usize, const M: usize>(op: &O, inputs: &[Any; N]) -> Form {
    let constants = op.constants();
    let types: Vec<DType> = inputs.iter().chain(&constants).map(Any::dtype).collect();
    let taken = |dtype: &DType| *dtype == DType::F32 || (O::TAKES_BF16 && *dtype == DType::BF16);
    let kernels = kernels_of_all(inputs.iter().chain(&constants));
    let suits = |kernels: Kernels| match kernels {
        Kernels::Cpu => O::ON_CPU && op.suits_cpu(inputs),
        #[cfg(feature = "gpu")]
        Kernels::Gpu => O::ON_GPU && op.suits_gpu(inputs),
    };
    let suits = |kernels| (O::TAKES_EMPTY || !inputs.iter().any(Any::is_empty)) && suits(kernels);
    match kernels {
        Some(Kernels::Cpu) if types.iter().all(taken) && suits(Kernels::Cpu) => Form::Cpu,
        #[cfg(feature = "gpu")]
        Some(Kernels::Gpu) if types.iter().all(|dtype| *dtype == DType::F32) && suits(Kernels::Gpu) => {
            Form::Gpu
        }
        kernels => {
            let (DType::F16 | DType::BF16, Some(gradient)) = (types[0], O::ROUNDED) else {
                return Form::Reference;
            };
            match kernels.filter(|kernels| suits(*kernels)) {
                Some(Kernels::Cpu) => Form::RoundedCpu(gradient),
                #[cfg(feature = "gpu")]
                Some(Kernels::Gpu) => Form::RoundedGpu(gradient),
                None => Form::RoundedReference(types[0]),
            }
        }
    }
}

/// The kernels of the device that all tensors are on, if they run at all.
fn kernels_of_all<'a>(mut tensors: impl Iterator<Item = &'a Any>) -> Option<Kernels> {
    if reference_in_use() {
        return None;
    }
    let first = kernels_of(&tensors.next()?.device())?;
    tensors.all(|tensor| kernels_of(&tensor.device()) == Some(first)).then_some(first)
}
