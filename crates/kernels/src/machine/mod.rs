//! What operations stand on: vector instructions, buffers, products, the bridge to burn's tensors, devices, and the launches of
//! kernels on GPUs.

pub(crate) mod autodiff;
pub(crate) mod bf16;
pub(crate) mod buffers;
pub mod device;
#[cfg(feature = "gpu")]
pub(crate) mod gpu;
pub(crate) mod matmul;
pub(crate) mod simd;
