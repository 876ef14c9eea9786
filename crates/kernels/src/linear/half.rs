//! Linear maps whose factors and results are bf16, on the CPU.
//!
//! **Kept for the backward pass:** x in bf16, and the weights as they are (f32), which are rounded again.

use super::flex::Weights;
use crate::autodiff::{
    self, CpuTensor, Gradient, bf16_tensor_of, bf16_values, compact, permuted_tensor_of, rounded_tensor,
    tensor_of, values,
};
use crate::bf16::{Bf16Matrix, rounded_product, stream_product};
use burn::tensor::{DType, Tensor};
use burn_flex::FlexTensor;

/// `x W`: both factors rounded to bf16, sums in f32, the result rounded to bf16.
///
/// x `[batch, length, in]` of f32 or bf16, weight `[in, out]` of f32 -> `[batch, length, out]` of bf16.
pub(crate) fn bf16_linear(x: Tensor<3>, weight: Tensor<2>) -> Tensor<3> {
    let Call { x, weight, saved } = Call::new(x, weight);
    let output = saved.with_factors(rounded_product);
    let output = bf16_tensor_of(output, saved.output_shape());
    autodiff::record(&[x, weight], output, || saved)
}

/// The same for what joins the residual stream: made f32, and added to `onto` if it is given.
pub(crate) fn bf16_into_stream(x: Tensor<3>, weight: Tensor<2>, onto: Option<Tensor<3>>) -> Tensor<3> {
    let Call { x, weight, saved } = Call::new(x, weight);
    let onto = onto.map(CpuTensor::new);
    let added = onto.as_ref().map(|onto| values(onto.data()));
    let output = saved.with_factors(|x, weights| stream_product(x, weights, added.as_deref()));
    drop(added);
    let output = tensor_of(output, saved.output_shape());
    match onto {
        Some(onto) => autodiff::record(&[x, weight, onto], output, || saved),
        None => autodiff::record(&[x, weight], output, || saved),
    }
}

/// The inputs of a product, and their values.
struct Call {
    x: CpuTensor,
    weight: CpuTensor,
    saved: Saved,
}

impl Call {
    fn new(x: Tensor<3>, weight: Tensor<2>) -> Self {
        let (width, inputs) = (x.dims()[2], weight.dims()[0]);
        assert_eq!(width, inputs, "linear: {width} channels for {inputs} rows of weights");
        let widened_x = x.dtype() == DType::F32;
        let (x, weight) = (CpuTensor::new(x), CpuTensor::new(weight));
        let weights = Weights::new(weight.data());
        let saved = Saved { x: rounded_tensor(x.data().clone()), widened_x, weights };
        Self { x, weight, saved }
    }
}

/// What the gradient needs.
#[derive(Clone, Debug)]
struct Saved {
    /// `[batch, length, in]` in bf16.
    x: FlexTensor,
    /// Whether x came in f32, as its gradient must.
    widened_x: bool,
    weights: Weights,
}

impl Saved {
    /// Calls with x `[rows, in]` and the weights `[in, out]`.
    fn with_factors<T>(&self, call: impl FnOnce(Bf16Matrix<'_>, Bf16Matrix<'_>) -> T) -> T {
        let [batch, length, inputs] = self.x.layout().shape().dims();
        let halves = self.weights.halves();
        let x = Bf16Matrix::new(bf16_values(&self.x), batch * length, inputs);
        call(x, self.weights.of_halves(bf16_values(&halves)))
    }

    /// `[batch, length, out]`.
    fn output_shape(&self) -> [usize; 3] {
        let [batch, length, _] = self.x.layout().shape().dims();
        [batch, length, self.weights.outputs()]
    }

    /// The gradient of x, `[batch, length, in]`: `g Wᵀ`.
    fn input_gradient(&self, gradient: Bf16Matrix<'_>) -> FlexTensor {
        let shape = self.x.layout().shape().dims::<3>();
        let halves = self.weights.halves();
        let weights = self.weights.of_halves(bf16_values(&halves)).transposed();
        if self.widened_x {
            tensor_of(stream_product(gradient, weights, None), shape)
        } else {
            bf16_tensor_of(rounded_product(gradient, weights), shape)
        }
    }

    /// The gradient of the weights in f32, in the order in which they lie: `xᵀ g`.
    fn weight_gradient(&self, gradient: Bf16Matrix<'_>, rows: usize) -> FlexTensor {
        let [.., inputs] = self.x.layout().shape().dims::<3>();
        let x = Bf16Matrix::new(bf16_values(&self.x), rows, inputs);
        let outputs = self.weights.outputs();
        if self.weights.is_turned() {
            let values = stream_product(gradient.transposed(), x, None);
            return permuted_tensor_of(values, [outputs, inputs], [1, 0]);
        }
        tensor_of(stream_product(x.transposed(), gradient, None), [inputs, outputs])
    }
}

/// Gradients are rounded to bf16 where values were; what the product was added to receives the output's as it is.
impl<const N: usize> Gradient<N> for Saved {
    fn gradients(self, output: FlexTensor, wanted: [bool; N]) -> [Option<FlexTensor>; N] {
        let [batch, length, _] = self.x.layout().shape().dims();
        let rows = batch * length;
        let halves = rounded_tensor(output.clone());
        let gradient = Bf16Matrix::new(bf16_values(&halves), rows, self.weights.outputs());
        std::array::from_fn(|input| {
            wanted[input].then(|| match input {
                0 => self.input_gradient(gradient),
                1 => self.weight_gradient(gradient, rows),
                _ => compact(output.clone()),
            })
        })
    }
}
