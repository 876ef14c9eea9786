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
//! In bf16 (`half.rs`) the products are those of [`crate::machine::bf16`], and the roundings to bf16 part of them.
//!
//! **Tried, and slower:** the parallel products of the `gemm` crate, which divide the gradient of narrow
//! weights unevenly (a sixth slower at width 128 on two threads); tiles below 64 rows; a buffer that is
//! cleared or copied before the product fills it, as a tensor library hands it out (a tenth of a step). **As
//! fast, for more memory:** sums over parts of the rows, added afterwards.

mod cpu;
mod half;

pub(crate) use cpu::Weights;
pub(crate) use half::{half_into_stream, half_linear};

use crate::machine::autodiff::{compact, tensor_of, values};
use crate::op::prelude::*;
use burn::tensor::Tensor;

/// `x W`, or `onto + x W`.
///
/// x `[batch, length, in]`, weight `[in, out]`, onto `[batch, length, out]` -> `[batch, length, out]`.
///
/// # Panics
/// The sizes do not fit each other.
pub fn linear(x: Tensor<3>, weight: Tensor<2>, onto: Option<Tensor<3>>) -> Tensor<3> {
    let ([batch, length, width], [inputs, outputs]) = (x.dims(), weight.dims());
    assert_eq!(width, inputs, "linear: {width} channels for {inputs} rows of weights");
    if let Some(onto) = &onto {
        assert_eq!(onto.dims(), [batch, length, outputs], "linear: the shape that is added to");
    }
    let op = Linear { added: onto.is_some() };
    let [y] = run(op, [x.into(), weight.into(), onto.into()]);
    y.tensor()
}

#[derive(Clone)]
struct Linear {
    added: bool,
}

impl Op<3> for Linear {
    const NAME: &'static str = "linear";
    const TAKES_EMPTY: bool = true;

    fn reference(self, [x, weight, onto]: [Any; 3]) -> [Any; 1] {
        [plain(x.tensor(), weight.tensor(), self.added.then(|| onto.tensor())).into()]
    }

    /// x receives `g Wᵀ`, the weights `xᵀ g`, and what the product was added to, if there is any, `g` itself.
    fn cpu(
        self,
        [x, weight, onto]: [FlexTensor; 3],
        _: [bool; 3],
    ) -> ([FlexTensor; 1], impl Gradient<Flex, 3>) {
        let [batch, length, width] = x.layout().shape().dims();
        let rows = batch * length;
        let (x, weights) = (compact(x), Weights::new(&weight));
        let onto = self.added.then(|| values(&onto));
        let y = cpu::forward(&values(&x), [rows, width], &weights, onto.as_deref());
        drop(onto);
        ([tensor_of(y, [batch, length, weights.outputs()])], move |output, wanted| {
            let output = compact(only(output));
            let gradient = values(&output);
            std::array::from_fn(|input| {
                wanted[input].then(|| match input {
                    0 => tensor_of(cpu::input_gradient(&gradient, rows, &weights), [batch, length, width]),
                    1 => cpu::weight_gradient(&values(&x), [rows, width], &gradient, &weights),
                    _ => output.clone(),
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
