//! The launches of the kernels, as operations of a backend, and their gradients.

use super::{gelu_gradient_kernel, gelu_kernel, swiglu_gradient_kernel, swiglu_kernel};
use crate::autodiff::{self, Gradient, OpTensor};
use crate::gpu::{empty, empty_like, grid, launch, linear, width};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Cube, backend_extension};
use burn::tensor::{Shape, Tensor};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;

/// The activations on the GPU, all f32. packed is `[batch, length, 2 hidden]`.
#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
trait Activate: Backend {
    /// x of any shape -> the same shape.
    #[fusion(id = "longwave_gelu", dtype = x, shape = x)]
    fn gelu(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// The gradient of x.
    #[fusion(id = "longwave_gelu_backward", dtype = x, shape = x)]
    fn gelu_backward(x: FloatTensor<Self>, gradient: FloatTensor<Self>) -> FloatTensor<Self>;

    /// packed -> `[batch, length, hidden]`.
    #[fusion(id = "longwave_swiglu", dtype = packed, shape = half_of(packed))]
    fn swiglu(packed: FloatTensor<Self>) -> FloatTensor<Self>;

    /// The gradient of packed.
    #[fusion(id = "longwave_swiglu_backward", dtype = packed, shape = packed)]
    fn swiglu_backward(packed: FloatTensor<Self>, gradient: FloatTensor<Self>) -> FloatTensor<Self>;
}

fn half_of(packed: &Shape) -> Shape {
    let [batch, length, width] = packed.dims();
    [batch, length, width / 2].into()
}

impl Activate for CubeBackend {
    fn gelu(x: CubeTensor) -> CubeTensor {
        let x = into_contiguous(x);
        let y = empty_like(&x);
        let numbers = x.meta.num_elements();
        let width = width(&x.client, std::iter::once(numbers));
        let (cubes, dim, address) = grid(numbers / width, &[&x]);
        // SAFETY: the kernel leaves units past the count idle.
        unsafe {
            launch!(
                gelu_kernel,
                &x.client,
                cubes,
                dim,
                address,
                width,
                linear(&x),
                linear(&y),
                numbers / width
            );
        }
        y
    }

    fn gelu_backward(x: CubeTensor, gradient: CubeTensor) -> CubeTensor {
        let [x, gradient] = [x, gradient].map(into_contiguous);
        let slope = empty_like(&x);
        let numbers = x.meta.num_elements();
        let width = width(&x.client, std::iter::once(numbers));
        let (cubes, dim, address) = grid(numbers / width, &[&x]);
        // SAFETY: the kernel leaves units past the count idle.
        unsafe {
            launch!(
                gelu_gradient_kernel,
                &x.client,
                cubes,
                dim,
                address,
                width,
                linear(&x),
                linear(&gradient),
                linear(&slope),
                numbers / width,
            );
        }
        slope
    }

    fn swiglu(packed: CubeTensor) -> CubeTensor {
        let packed = into_contiguous(packed);
        let y = empty(&packed, half_of(packed.meta.shape()).dims::<3>());
        let hidden = y.meta.shape()[2];
        let width = width(&packed.client, std::iter::once(hidden));
        let count = y.meta.num_elements() / width;
        let (cubes, dim, address) = grid(count, &[&packed]);
        // SAFETY: the kernel leaves units past the count idle; each of the others stays in its row.
        unsafe {
            launch!(
                swiglu_kernel,
                &packed.client,
                cubes,
                dim,
                address,
                width,
                linear(&packed),
                linear(&y),
                hidden / width,
                count,
            );
        }
        y
    }

    fn swiglu_backward(packed: CubeTensor, gradient: CubeTensor) -> CubeTensor {
        let [packed, gradient] = [packed, gradient].map(into_contiguous);
        let slope = empty_like(&packed);
        let hidden = gradient.meta.shape()[2];
        let width = width(&packed.client, std::iter::once(hidden));
        let count = gradient.meta.num_elements() / width;
        let (cubes, dim, address) = grid(count, &[&packed]);
        // SAFETY: the kernel leaves units past the count idle; each of the others stays in its row.
        unsafe {
            launch!(
                swiglu_gradient_kernel,
                &packed.client,
                cubes,
                dim,
                address,
                width,
                linear(&packed),
                linear(&gradient),
                linear(&slope),
                hidden / width,
                count,
            );
        }
        slope
    }
}

/// What the gradient of `gelu` needs: its input.
#[derive(Clone, Debug)]
struct Gelu(FloatTensor<Cube>);

impl Gradient<1, Cube> for Gelu {
    fn gradients(self, output: FloatTensor<Cube>, _: [bool; 1]) -> [Option<FloatTensor<Cube>>; 1] {
        [Some(Cube::gelu_backward(self.0, output))]
    }
}

/// What the gradient of `swiglu` needs: its input.
#[derive(Clone, Debug)]
struct Swiglu(FloatTensor<Cube>);

impl Gradient<1, Cube> for Swiglu {
    fn gradients(self, output: FloatTensor<Cube>, _: [bool; 1]) -> [Option<FloatTensor<Cube>>; 1] {
        [Some(Cube::swiglu_backward(self.0, output))]
    }
}

/// [`gelu`](crate::gelu) of numbers on the GPU; there are some.
pub(in crate::activation) fn gelu(x: Tensor<3>) -> Tensor<3> {
    let input = [OpTensor::<Cube>::new(x)];
    let x = input[0].data().clone();
    autodiff::record(&input, Cube::gelu(x.clone()), || Gelu(x))
}

/// [`swiglu`](crate::swiglu) of numbers on the GPU; there are some.
pub(in crate::activation) fn swiglu(packed: Tensor<3>) -> Tensor<3> {
    let input = [OpTensor::<Cube>::new(packed)];
    let packed = input[0].data().clone();
    autodiff::record(&input, Cube::swiglu(packed.clone()), || Swiglu(packed))
}
