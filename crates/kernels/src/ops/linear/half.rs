//! Linear maps in half precision.
//!
//! **On the CPU in bf16**, factors and results are rounded by the product itself. Kept for the backward pass are x in bf16, and
//! the weights as they are (f32), which are rounded again. Elsewhere casts stand around a product.

use super::{Weights, linear};
use crate::Precision;
use crate::machine::autodiff::{
    bf16_values, compact, is_on_cpu, permuted_tensor_of, rounded_tensor, tensor_of, values,
};
use crate::machine::bf16::{Bf16Matrix, rounded_product, stream_product};
use crate::op::prelude::*;
use burn::tensor::{DType, Tensor};

/// `x W`: both factors rounded to half precision, sums in f32, the result rounded again.
///
/// x `[batch, length, in]` of f32 or half, weight `[in, out]` of f32 -> `[batch, length, out]` in half.
pub(crate) fn half_linear(precision: Precision, x: Tensor<3>, weight: Tensor<2>) -> Tensor<3> {
    check(&x, &weight);
    let op = HalfLinear { precision, into_stream: false, added: false };
    let [y] = run(op, [x.into(), weight.into(), None::<Tensor<3>>.into()]);
    y.tensor()
}

/// The same for what joins the residual stream: made f32, and added to `onto` if it is given.
pub(crate) fn half_into_stream(
    precision: Precision,
    x: Tensor<3>,
    weight: Tensor<2>,
    onto: Option<Tensor<3>>,
) -> Tensor<3> {
    check(&x, &weight);
    let op = HalfLinear { precision, into_stream: true, added: onto.is_some() };
    let [y] = run(op, [x.into(), weight.into(), onto.into()]);
    y.tensor()
}

fn check(x: &Tensor<3>, weight: &Tensor<2>) {
    let (width, inputs) = (x.dims()[2], weight.dims()[0]);
    assert_eq!(width, inputs, "linear: {width} channels for {inputs} rows of weights");
}

#[derive(Clone)]
struct HalfLinear {
    precision: Precision,
    into_stream: bool,
    added: bool,
}

impl Op<3> for HalfLinear {
    const NAME: &'static str = "linear in half precision";
    const TAKES_BF16: bool = true;

    fn reference(self, [x, weight, onto]: [Any; 3]) -> [Any; 1] {
        let (x, weight) = (x.tensor::<3>(), weight.tensor::<2>());
        if self.into_stream {
            let product = half_linear(self.precision, x, weight).cast(DType::F32);
            return [if self.added { onto.tensor() + product } else { product }.into()];
        }
        let half = self.precision.dtype();
        let (x, weight) = (x.cast(half), weight.cast(half));
        if is_on_cpu(&x) {
            return [linear(x.cast(DType::F32), weight.cast(DType::F32), None).cast(half).into()];
        }
        [linear(x, weight, None).into()]
    }

    fn suits_cpu(&self, [_, weight, onto]: &[Any; 3]) -> bool {
        let wide = |tensor: &Any| tensor.dtype() == DType::F32;
        self.precision == Precision::Bf16 && wide(weight) && (!self.added || wide(onto))
    }

    fn cpu(
        self,
        [x, weight, onto]: [FlexTensor; 3],
        _: [bool; 3],
    ) -> ([FlexTensor; 1], impl Gradient<Flex, 3>) {
        let widened_x = x.dtype() == DType::F32;
        let kept = Kept { x: rounded_tensor(x), widened_x, weights: Weights::new(&weight) };
        let output = if self.into_stream {
            let onto = self.added.then(|| values(&onto));
            let output = kept.with_factors(|x, weights| stream_product(x, weights, onto.as_deref()));
            tensor_of(output, kept.output_shape())
        } else {
            tensor_of(kept.with_factors(rounded_product), kept.output_shape())
        };
        ([output], move |output, wanted| kept.gradients(&only(output), wanted))
    }
}

#[derive(Clone)]
struct Kept {
    /// `[batch, length, in]` in bf16.
    x: FlexTensor,
    /// Whether x came in f32, as its gradient must.
    widened_x: bool,
    weights: Weights,
}

impl Kept {
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
            tensor_of(rounded_product(gradient, weights), shape)
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

    /// Rounded to bf16 where values were; what the product was added to receives the output's as it is.
    fn gradients(&self, output: &FlexTensor, wanted: [bool; 3]) -> [Option<FlexTensor>; 3] {
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
