//! Linear maps: the products of activations and weights, in which a training step spends most of its time.
//!
//! **Fused:** the product with the addition of what it is added to (a residual stream). The gradient of the
//! weights comes in the order in which they lie, also where they are read as a transpose (a tied head).
//!
//! **Kept for the backward pass:** x and the weights, as they are; copied only where they do not lie
//! contiguously (weights: neither they nor their transpose).
//!
//! **Bytes:** for r rows of i inputs and o outputs at least `4 (r i + i o + r o)` in each of three products
//! (one forward, two backward), and `4 r o` more where the product is added to something. Each product is
//! `2 r i o` floating-point operations, which is what takes the time.
//!
//! **How:** in tiles of whole rows (activations) or of narrow columns (the gradient of weights), each a
//! product on one thread that lays its operands out for itself; weights for all tiles at once where registers have 512 bits
//! ([`crate::machine::matmul`]).
//!
//! **In half precision** factors and results are rounded. On the CPU in bf16 the products of [`crate::machine::bf16`] do so
//! themselves, and kept are x in bf16 and the weights as they are (f32), which are rounded again. Elsewhere casts stand around a
//! product.
//!
//! **Tried, and slower:** the parallel products of the `gemm` crate, which divide the gradient of narrow
//! weights unevenly (a sixth slower at width 128 on two threads); tiles below 64 rows; a buffer that is
//! cleared or copied before the product fills it, as a tensor library hands it out (a tenth of a step). **As
//! fast, for more memory:** sums over parts of the rows, added afterwards.

mod cpu;

pub(crate) use cpu::Weights;

use crate::Precision;
use crate::machine::autodiff::{compact, is_on_cpu, rounded_tensor, values};
use crate::op::prelude::*;
use burn::tensor::{DType, Tensor};
use cpu::Factor;

/// `x W`, or `onto + x W`.
///
/// x `[batch, length, in]`, weight `[in, out]`, onto `[batch, length, out]` -> `[batch, length, out]`.
///
/// # Panics
/// The sizes do not fit each other.
pub fn linear(x: Tensor<3>, weight: Tensor<2>, onto: Option<Tensor<3>>) -> Tensor<3> {
    into_stream(Precision::F32, x, weight, onto)
}

/// `x W` in a precision: both factors rounded to it, sums in f32, the result rounded again.
///
/// x `[batch, length, in]` of f32 or of the precision, weight `[in, out]` of f32 -> `[batch, length, out]` of the precision.
pub(crate) fn linear_in(precision: Precision, x: Tensor<3>, weight: Tensor<2>) -> Tensor<3> {
    Linear { precision, into_stream: false, added: false }.run(x, weight, None)
}

/// The same for what joins the residual stream: made f32, and added to `onto` if it is given.
pub(crate) fn into_stream(
    precision: Precision,
    x: Tensor<3>,
    weight: Tensor<2>,
    onto: Option<Tensor<3>>,
) -> Tensor<3> {
    Linear { precision, into_stream: true, added: onto.is_some() }.run(x, weight, onto)
}

#[derive(Clone)]
struct Linear {
    precision: Precision,
    into_stream: bool,
    added: bool,
}

impl Linear {
    fn run(self, x: Tensor<3>, weight: Tensor<2>, onto: Option<Tensor<3>>) -> Tensor<3> {
        let ([batch, length, width], [inputs, outputs]) = (x.dims(), weight.dims());
        assert_eq!(width, inputs, "linear: {width} channels for {inputs} rows of weights");
        if let Some(onto) = &onto {
            assert_eq!(onto.dims(), [batch, length, outputs], "linear: the shape that is added to");
        }
        let [y] = run(self, [x.into(), weight.into(), onto.into()]);
        y.tensor()
    }
}

impl Op<3> for Linear {
    const NAME: &'static str = "linear";
    const TAKES_EMPTY: bool = true;
    const TAKES_BF16: bool = true;

    fn reference(self, [x, weight, onto]: [Any; 3]) -> [Any; 1] {
        let (x, weight) = (x.tensor(), weight.tensor());
        if self.precision == Precision::F32 {
            return [plain(x, weight, self.added.then(|| onto.tensor())).into()];
        }
        if self.into_stream {
            let product = linear_in(self.precision, x, weight).cast(DType::F32);
            return [if self.added { onto.tensor() + product } else { product }.into()];
        }
        let half = self.precision.dtype();
        let (x, weight) = (x.cast(half), weight.cast(half));
        if is_on_cpu(&x) {
            return [linear(x.cast(DType::F32), weight.cast(DType::F32), None).cast(half).into()];
        }
        [linear(x, weight, None).into()]
    }

    fn suits_cpu(&self, inputs: &[Any; 3]) -> bool {
        let [x, weight, onto] = inputs.each_ref().map(|input| input.dtype() == DType::F32);
        let suits = match self.precision {
            Precision::F32 => x,
            Precision::F16 => false,
            Precision::Bf16 => !inputs.iter().any(Any::is_empty),
        };
        suits && weight && (!self.added || onto)
    }

    /// x receives `g Wᵀ`, the weights `xᵀ g`, and what the product was added to, if there is any, `g` itself. Gradients are rounded
    /// where values were.
    fn cpu(
        self,
        [x, weight, onto]: [FlexTensor; 3],
        _: [bool; 3],
    ) -> ([FlexTensor; 1], impl Gradient<Flex, 3>) {
        let [batch, length, inputs] = x.layout().shape().dims();
        let is_wide = self.precision == Precision::F32;
        let factor = move |x: FlexTensor| if is_wide { compact(x) } else { rounded_tensor(x) };
        let rounds_x = x.dtype() == DType::BF16;
        let (x, weights) = (factor(x), Weights::new(&weight));
        let (rows, outputs) = (batch * length, weights.outputs());
        let onto = self.added.then(|| values(&onto));
        let laid_out = factor(weights.rows());
        let y = Factor::new(&x, [rows, inputs]).times(
            weights.factor(&laid_out),
            onto.as_deref(),
            !self.into_stream,
            [batch, length, outputs],
        );
        ([y], move |output, wanted| {
            let output = only(output);
            let given = factor(output.clone());
            let gradient = Factor::new(&given, [rows, outputs]);
            std::array::from_fn(|input| {
                wanted[input].then(|| match input {
                    0 => {
                        let laid_out = factor(weights.rows());
                        let weights = weights.factor(&laid_out).transposed();
                        gradient.times(weights, None, rounds_x, [batch, length, inputs])
                    }
                    // In the order in which they lie.
                    1 if weights.is_turned() => {
                        let x = Factor::new(&x, [rows, inputs]);
                        gradient.transposed().times(x, None, false, [outputs, inputs]).permute(&[1, 0])
                    }
                    1 => {
                        let x = Factor::new(&x, [rows, inputs]).transposed();
                        x.times(gradient, None, false, [inputs, outputs])
                    }
                    _ if is_wide => given.clone(),
                    _ => compact(output.clone()),
                })
            })
        })
    }
}

fn plain(x: Tensor<3>, weight: Tensor<2>, onto: Option<Tensor<3>>) -> Tensor<3> {
    let [batch, length, inputs] = x.dims();
    let outputs = weight.dims()[1];
    let product = x.reshape([batch * length, inputs]).matmul(weight).reshape([batch, length, outputs]);
    match onto {
        Some(onto) => onto + product,
        None => product,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_fused_on, list, numbers, tensor};
    use burn::tensor::Device;

    const SHAPES: [[usize; 4]; 4] = [[1, 1, 1, 1], [2, 37, 5, 3], [3, 50, 16, 130], [2, 65, 9, 64]];

    /// x arrives with its first two dimensions swapped, so that it does not lie contiguously; the weights as they
    /// lie or as the transpose of how they lie.
    fn inputs(
        inputs: &[Tensor<1>],
        [batch, length, width, outputs]: [usize; 4],
        turned: bool,
    ) -> (Tensor<3>, Tensor<2>) {
        let x = inputs[0].clone().reshape([length, batch, width]).swap_dims(0, 1);
        let weight = inputs[1].clone();
        let weight = if turned {
            weight.reshape([outputs, width]).transpose()
        } else {
            weight.reshape([width, outputs])
        };
        (x, weight)
    }

    #[test]
    fn agrees_with_the_reference() {
        for shape in SHAPES {
            let [batch, length, width, outputs] = shape;
            let count = batch * length;
            let given = [numbers(1, count * width), numbers(2, width * outputs), numbers(3, count * outputs)];
            for turned in [false, true] {
                for added in [false, true] {
                    let onto = |given: &[Tensor<1>]| {
                        added.then(|| given[2].clone().reshape([batch, length, outputs]))
                    };
                    let what = format!("{shape:?} {turned} {added}");
                    assert_fused_on(&Device::flex(), &what, &given[..2 + usize::from(added)], |given| {
                        let (x, weight) = inputs(given, shape, turned);
                        linear(x, weight, onto(given))
                    });
                }
            }
        }
    }

    #[test]
    fn weights_that_lie_anyhow_are_read() {
        let device = Device::flex();
        let x = tensor::<3>(1, [2, 3, 4], &device);
        // Every second column of a wider matrix.
        let weight = tensor::<2>(2, [4, 10], &device).reshape([4, 5, 2]).slice_dim(2, 1..2).reshape([4, 5]);
        let expected = list(plain(x.clone(), weight.clone(), None));
        crate::testing::assert_close("strided", &list(linear(x, weight, None)), &expected, 1e-6);
    }

    #[test]
    fn frozen_weights_receive_nothing() {
        let device = Device::flex().autodiff();
        let x = tensor::<3>(1, [2, 3, 4], &device).require_grad();
        let weight = tensor::<2>(2, [4, 5], &device);
        let gradients = linear(x.clone(), weight.clone(), None).sum().backward();
        assert!(x.grad(&gradients).is_some());
        assert!(weight.grad(&gradients).is_none());
    }
}
