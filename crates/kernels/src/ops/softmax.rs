//! The softmax of scores that may all be hidden.
//!
//! It serves attention that needs its scores (`blocks` in `longwave-model`). A hidden score is minus infinity; where all
//! scores of a row are, the row has no largest one, and the usual formula divides 0 by 0. Such a row gives zeros here,
//! and its scores receive the gradient 0.
//!
//! **Fused:** the largest score of a row, the exponentials, their sum and the division; backward,
//! `p (gradient - sum of p gradient)`. Plain operations write four tensors for that.
//!
//! **Kept for the backward pass:** the output.
//!
//! **Bytes:** for n scores at least `8 n` forward (scores in, probabilities out) and `12 n` backward (probabilities and
//! gradient in, gradient out).

use crate::machine::autodiff::{tensor_of, values};
use crate::machine::buffers::{computed, whole_rows};
use crate::machine::simd::{dot, exp_in_place, largest, vectorised};
use crate::op::prelude::*;
use burn::tensor::Tensor;

/// `exp(x) / sum(exp(x))` over the last dimension; zeros for a row that is minus infinity throughout.
///
/// x of any shape, such as `[batch, heads, queries, keys]` -> the shape of x.
pub fn softmax<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let [y] = run(Softmax::<D>, [x.into()]);
    y.tensor()
}

/// burn's softmax, but for the rows that are minus infinity throughout.
pub(crate) fn plain<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    // The largest score only keeps exp in range; the value does not depend on it, so neither does the gradient.
    let largest = x.clone().detach().max_dim(D - 1);
    let none = largest.clone().lower_elem(f32::MIN);
    let exp = (x - largest.mask_fill(none.clone(), 0.0)).exp();
    let sum = exp.clone().sum_dim(D - 1).mask_fill(none, 1.0);
    exp / sum
}

#[derive(Clone)]
struct Softmax<const D: usize>;

impl<const D: usize> Op<1> for Softmax<D> {
    const NAME: &'static str = "softmax";

    fn reference(self, [x]: [Any; 1]) -> [Any; 1] {
        [plain::<D>(x.tensor()).into()]
    }

    fn cpu(self, [x]: [FlexTensor; 1], _: [bool; 1]) -> ([FlexTensor; 1], impl Gradient<Flex, 1>) {
        let shape = x.layout().shape().clone();
        let width = shape[D - 1];
        let p = tensor_of(forward(&values(&x), width), shape.clone());
        let kept = p.clone();
        ([p], move |output, _| {
            [Some(tensor_of(backward(&values(&kept), &values(&only(output)), width), shape))]
        })
    }
}

/// x in rows of `width` -> the same.
fn forward(x: &[f32], width: usize) -> Vec<f32> {
    let chunk = whole_rows(width);
    computed(x.len(), chunk, |task, out| softmax_rows(&x[task * chunk..], width, out))
}

/// The gradient of x from the output p and its gradient.
fn backward(p: &[f32], gradient: &[f32], width: usize) -> Vec<f32> {
    let chunk = whole_rows(width);
    computed(p.len(), chunk, |task, out| {
        let from = task * chunk;
        softmax_rows_backward(&p[from..], &gradient[from..], width, out);
    })
}

vectorised! {
    fn softmax_rows(x: &[f32], width: usize, out: &mut [f32]) {
        for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            out.copy_from_slice(x);
            let top = largest(x);
            let sum = exp_in_place(out, if top == f32::NEG_INFINITY { 0.0 } else { top });
            let inverse = if sum == 0.0 { 0.0 } else { 1.0 / sum };
            for out in out {
                *out *= inverse;
            }
        }
    }

    fn softmax_rows_backward(p: &[f32], gradient: &[f32], width: usize, out: &mut [f32]) {
        let rows = p.chunks_exact(width).zip(gradient.chunks_exact(width));
        for ((p, gradient), out) in rows.zip(out.chunks_exact_mut(width)) {
            let mean = dot(p, gradient);
            for ((out, p), gradient) in out.iter_mut().zip(p).zip(gradient) {
                *out = p * (gradient - mean);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_matches, list, numbers, tensor};
    use burn::tensor::{Device, activation};

    const SHAPES: [[usize; 3]; 5] = [[1, 1, 1], [2, 37, 5], [3, 50, 16], [2, 41, 130], [1, 3, 1000]];

    /// Scores with their first two dimensions swapped, so that they do not lie contiguously.
    fn scores(inputs: &[Tensor<1>], [batch, rows, keys]: [usize; 3]) -> Tensor<3> {
        inputs[0].clone().mul_scalar(4.0).reshape([rows, batch, keys]).swap_dims(0, 1)
    }

    /// Hides the first scores of each row, one more from row to row: of some rows all.
    fn hidden(seed: u64, [batch, rows, keys]: [usize; 3]) -> Vec<f32> {
        let mut x = numbers(seed, batch * rows * keys);
        for (row, x) in x.chunks_mut(keys).enumerate() {
            x[..row % (keys + 1)].fill(f32::NEG_INFINITY);
        }
        x
    }

    #[test]
    fn agrees_with_the_reference() {
        for shape in SHAPES {
            for inputs in [numbers(1, shape.iter().product()), hidden(1, shape)] {
                assert_matches(
                    &format!("softmax {shape:?}"),
                    &[inputs],
                    |inputs| softmax(scores(inputs, shape)),
                    |inputs| plain(scores(inputs, shape)),
                );
            }
        }
    }

    #[test]
    fn the_reference_is_that_of_burn_where_a_score_is_seen() {
        let x = tensor::<3>(2, [3, 7, 20], &Device::flex().autodiff()).mul_scalar(9.0);
        assert_eq!(list(plain(x.clone())), list(activation::softmax(x, 2)));
    }

    #[test]
    fn rows_without_a_score_give_zeros_and_no_gradient() {
        let device = Device::flex().autodiff();
        for softmax in [softmax, plain] {
            let x =
                Tensor::<2>::from_floats([[f32::NEG_INFINITY; 3], [1.0, f32::NEG_INFINITY, 1.0]], &device);
            let x = x.require_grad();
            let p = softmax(x.clone());
            assert_eq!(list(p.clone()), [0.0, 0.0, 0.0, 0.5, 0.0, 0.5]);
            let weights = Tensor::<2>::from_floats([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], &device);
            let gradients = (p * weights).sum().backward();
            assert_eq!(list(x.grad(&gradients).unwrap()), [0.0, 0.0, 0.0, -0.5, 0.0, 0.5]);
        }
    }

    #[test]
    fn a_nan_is_not_hidden() {
        let device = Device::flex();
        for x in [[f32::NAN, f32::NAN], [f32::NAN, f32::NEG_INFINITY], [0.0, f32::NAN]] {
            let x = Tensor::<1>::from_floats(x, &device);
            for softmax in [softmax, plain] {
                assert!(list(softmax(x.clone())).iter().any(|p| p.is_nan()), "{x}");
            }
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| list(softmax(tensor::<3>(4, [3, 50, 900], &Device::flex()))))
        };
        assert_eq!(run(1), run(3));
    }
}
