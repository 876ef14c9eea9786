//! The weights of stick-breaking attention.
//!
//! `beta_j = sigmoid(z_j)` of the logit of a query and key j is the share of a stick that the key breaks off, the newest key
//! (the last one) first: `p_j = beta_j prod_{t>j} (1 - beta_t)`, and `rest = prod_t (1 - beta_t)` is left (Tan et al.
//! 2024, arXiv:2410.17980, section 3). A product of shares leaves f32 soon, so its logarithm is summed:
//! `ln p_j = ln sigmoid(z_j) + sum_{t>j} ln sigmoid(-z_t)`. A hidden logit is minus infinity: its share is 0, and it leaves
//! all.
//!
//! With dp and dr the gradients of p and the rest, `dz_j = p_j dp_j (1 - beta_j) - beta_j (r dr + sum_{t<j} p_t dp_t)`.
//!
//! **Fused:** all of it. Plain operations write some ten tensors of all scores, and again in the backward pass.
//!
//! **Kept for the backward pass:** the logits and both outputs.
//!
//! **Bytes:** for n scores at least `8 n` forward (logits in, weights out) and `16 n` backward (logits, weights and gradient
//! in, gradient out).
//!
//! **On the CPU** sums along a row are taken in groups of [`LANES`]: those inside a group by doubling, so that one addition a
//! group waits for the one before.

use crate::machine::autodiff::{compact, tensor_of, values};
use crate::machine::buffers::{GRAIN, computed, zeros};
use crate::machine::simd::{LANES, exp, ln_1p_exp, vectorised};
use crate::op::prelude::*;
use burn::tensor::{Tensor, activation::log_sigmoid};
use rayon::prelude::*;

/// The least logit: its share is 0 in f32, and what it leaves 1.
const LEAST: f32 = -1e4;

/// The weights of the keys, and what they leave.
#[derive(Clone, Debug)]
pub struct Shares {
    /// `[batch, heads, queries, keys]`.
    pub weights: Tensor<4>,
    /// `[batch, heads, queries, 1]`.
    pub rest: Tensor<4>,
}

/// The shares of logits `[batch, heads, queries, keys]`, minus infinity where a key is hidden; the last key is the newest.
pub fn stick_breaking(logits: Tensor<4>) -> Shares {
    let [weights, rest] = run(StickBreaking, [logits.into()]);
    Shares { weights: weights.tensor(), rest: rest.tensor() }
}

fn plain(logits: Tensor<4>) -> Shares {
    let [batch, heads, queries, keys] = logits.dims();
    let z = logits.clamp_min(LEAST);
    let left = log_sigmoid(z.clone().neg());
    let mut newer = Tensor::zeros([batch, heads, queries, 1], &left.device());
    if keys > 1 {
        // Newest first, and without the key itself.
        let sums = left.clone().flip([3]).cumsum(3).slice_dim(3, 0..keys - 1);
        newer = Tensor::cat(vec![newer, sums], 3).flip([3]);
    }
    Shares { weights: (log_sigmoid(z) + newer).exp(), rest: left.sum_dim(3).exp() }
}

#[derive(Clone)]
struct StickBreaking;

impl Op<1, 2> for StickBreaking {
    const NAME: &'static str = "stick-breaking";

    fn reference(self, [logits]: [Any; 1]) -> [Any; 2] {
        let Shares { weights, rest } = plain(logits.tensor());
        [weights.into(), rest.into()]
    }

    fn cpu(self, [logits]: [FlexTensor; 1], _: [bool; 1]) -> ([FlexTensor; 2], impl Gradient<Flex, 1, 2>) {
        let logits = compact(logits);
        let shape @ [batch, heads, queries, keys] = logits.layout().shape().dims();
        let (weights, rest) = forward(&values(&logits), keys);
        let outputs = [tensor_of(weights, shape), tensor_of(rest, [batch, heads, queries, 1])];
        let [kept_weights, kept_rest] = outputs.clone();
        let gradient = move |gradients: [Option<FlexTensor>; 2], _| {
            let kept = [&logits, &kept_weights, &kept_rest].map(values);
            let [weights, rest] = gradients.each_ref().map(|gradient| gradient.as_ref().map(values));
            let kept = kept.each_ref().map(|x| &**x);
            [Some(tensor_of(backward(kept, weights.as_deref(), rest.as_deref(), keys), shape))]
        };
        (outputs, gradient)
    }
}

/// Logits in rows of `width` -> weights of the same shape, and the rest of each row.
fn forward(logits: &[f32], width: usize) -> (Vec<f32>, Vec<f32>) {
    let rows = GRAIN.div_ceil(width);
    let mut weights = zeros(logits.len());
    let mut rest = zeros(logits.len() / width);
    let tasks = weights.par_chunks_mut(rows * width).zip(rest.par_chunks_mut(rows));
    tasks.zip(logits.par_chunks(rows * width)).for_each_init(
        || vec![0.0; width],
        |scratch, ((weights, rest), logits)| shares(logits, width, scratch, weights, rest),
    );
    (weights, rest)
}

/// The gradient of the logits, from the logits, the weights and the rests, and the gradients of both.
fn backward(
    [logits, weights, rest]: [&[f32]; 3],
    of_weights: Option<&[f32]>,
    of_rest: Option<&[f32]>,
    width: usize,
) -> Vec<f32> {
    let rows = GRAIN.div_ceil(width);
    let none = vec![0.0; if of_weights.is_none() { width } else { 0 }];
    computed(logits.len(), rows * width, |task, out| {
        for (row, out) in out.chunks_exact_mut(width).enumerate() {
            let row = task * rows + row;
            let of_row = row * width..(row + 1) * width;
            let of_rest = of_rest.map_or(0.0, |of_rest| of_rest[row] * rest[row]);
            let of_weights = of_weights.map_or(&none[..], |of_weights| &of_weights[of_row.clone()]);
            shares_backward(&logits[of_row.clone()], &weights[of_row], of_weights, of_rest, out);
        }
    })
}

/// The part of a row after which all keys are hidden.
fn seen(logits: &[f32]) -> usize {
    logits.iter().rposition(|z| *z != f32::NEG_INFINITY).map_or(0, |last| last + 1)
}

/// The logit that is computed with: NaN stays NaN.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn bounded(z: f32) -> f32 {
    if z < LEAST { LEAST } else { z }
}

/// `ln sigmoid(-z)`, what the key leaves, from the [`ln_1p_exp`] of z.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn left(z: f32, tail: f32) -> f32 {
    -(if z < 0.0 { tail } else { z + tail })
}

/// `ln sigmoid(z)`, what the key takes, from the [`ln_1p_exp`] of z.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn taken(z: f32, tail: f32) -> f32 {
    if z < 0.0 { z - tail } else { -tail }
}

/// Each number plus all that follow it.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn with_following(mut x: [f32; LANES]) -> [f32; LANES] {
    let mut step = 1;
    while step < LANES {
        let before = x;
        for at in 0..LANES - step {
            x[at] += before[at + step];
        }
        step *= 2;
    }
    x
}

/// Each number plus all before it.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn with_previous(mut x: [f32; LANES]) -> [f32; LANES] {
    let mut step = 1;
    while step < LANES {
        let before = x;
        for at in step..LANES {
            x[at] += before[at - step];
        }
        step *= 2;
    }
    x
}

vectorised! {
    /// `weights` hold zeros; `scratch` is a row.
    fn shares(logits: &[f32], width: usize, scratch: &mut [f32], weights: &mut [f32], rest: &mut [f32]) {
        let rows = logits.chunks_exact(width).zip(weights.chunks_exact_mut(width));
        for ((logits, weights), rest) in rows.zip(rest) {
            let end = seen(logits);
            let (logits, weights, tails) = (&logits[..end], &mut weights[..end], &mut scratch[..end]);
            for (out, z) in tails.iter_mut().zip(logits) {
                *out = ln_1p_exp(bounded(*z));
            }
            // The log of what newer keys leave, the newest key first.
            let mut newer = 0.0;
            let (tail_groups, tail_rest) = tails.as_chunks::<LANES>();
            let (z_groups, z_rest) = logits.as_chunks::<LANES>();
            let (groups, others) = weights.as_chunks_mut::<LANES>();
            for ((weight, z), tail) in others.iter_mut().zip(z_rest).zip(tail_rest).rev() {
                *weight = newer;
                newer += left(bounded(*z), *tail);
            }
            for ((weights, z), tails) in groups.iter_mut().zip(z_groups).zip(tail_groups).rev() {
                let mut sums = [0.0_f32; LANES];
                for ((sum, z), tail) in sums.iter_mut().zip(z).zip(tails) {
                    *sum = left(bounded(*z), *tail);
                }
                let sums = with_following(sums);
                for at in 0..LANES - 1 {
                    weights[at] = newer + sums[at + 1];
                }
                weights[LANES - 1] = newer;
                newer += sums[0];
            }
            *rest = exp(newer);
            for ((weight, z), tail) in weights.iter_mut().zip(logits).zip(tails.iter()) {
                *weight = exp(taken(bounded(*z), *tail) + *weight);
            }
        }
    }

    /// One row; `of_rest` is the rest times its gradient.
    fn shares_backward(logits: &[f32], weights: &[f32], of_weights: &[f32], of_rest: f32, out: &mut [f32]) {
        let (groups, others) = out.as_chunks_mut::<LANES>();
        let (z_groups, z_others) = logits.as_chunks::<LANES>();
        let (weight_groups, weight_others) = weights.as_chunks::<LANES>();
        let (gradient_groups, gradient_others) = of_weights.as_chunks::<LANES>();
        // What comes to older keys, the oldest first.
        let mut older = of_rest;
        let inputs = z_groups.iter().zip(weight_groups).zip(gradient_groups);
        for (out, ((z, weights), gradients)) in groups.iter_mut().zip(inputs) {
            let mut own = [0.0_f32; LANES];
            for ((own, weight), gradient) in own.iter_mut().zip(weights).zip(gradients) {
                *own = weight * gradient;
            }
            let sums = with_previous(own);
            for at in 0..LANES {
                let before = if at == 0 { older } else { older + sums[at - 1] };
                out[at] = through_share(z[at], own[at], before);
            }
            older += sums[LANES - 1];
        }
        let inputs = z_others.iter().zip(weight_others).zip(gradient_others);
        for (out, ((z, weight), gradient)) in others.iter_mut().zip(inputs) {
            let own = weight * gradient;
            *out = through_share(*z, own, older);
            older += own;
        }
    }
}

/// `own (1 - sigmoid(z)) - sigmoid(z) older`.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be part of the loop around it to be vectorised")]
fn through_share(z: f32, own: f32, older: f32) -> f32 {
    let e = exp(-z.abs());
    let d = 1.0 / (1.0 + e);
    let (taken, left) = if z < 0.0 { (e * d, d) } else { (d, e * d) };
    own * left - taken * older
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_matches, list, numbers, tensor};
    use burn::tensor::Device;

    const SHAPES: [[usize; 4]; 5] =
        [[1, 1, 1, 1], [2, 3, 37, 5], [1, 2, 50, 16], [2, 2, 41, 130], [1, 1, 3, 1000]];

    type Kernel = fn(Tensor<4>) -> Shares;

    /// Keys and queries swapped, so that the logits do not lie contiguously; the rest stands beside the weights.
    fn call(inputs: &[Tensor<1>], [batch, heads, queries, keys]: [usize; 4], kernel: Kernel) -> Tensor<4> {
        let logits = inputs[0].clone().mul_scalar(4.0).reshape([batch, heads, keys, queries]).swap_dims(2, 3);
        let Shares { weights, rest } = kernel(logits);
        Tensor::cat(vec![weights, rest], 3)
    }

    /// Hides the last keys of each query, one fewer from query to query, and one key among the others.
    fn hidden(seed: u64, [batch, heads, queries, keys]: [usize; 4]) -> Vec<f32> {
        let mut x = numbers(seed, batch * heads * queries * keys);
        for (index, x) in x.iter_mut().enumerate() {
            let (key, query) = (index / queries % keys, index % queries);
            if key > query % (keys + 1) || key == 3 && query % 4 == 1 {
                *x = f32::NEG_INFINITY;
            }
        }
        x
    }

    #[test]
    fn agrees_with_the_reference() {
        for shape in SHAPES {
            for inputs in [numbers(1, shape.iter().product()), hidden(1, shape)] {
                assert_matches(
                    &format!("stick-breaking {shape:?}"),
                    &[inputs],
                    |inputs| call(inputs, shape, stick_breaking),
                    |inputs| call(inputs, shape, plain),
                );
            }
        }
    }

    #[test]
    fn either_output_alone_has_its_gradient() {
        let shape = [1, 2, 7, 40];
        let picks: [fn(Shares) -> Tensor<4>; 2] = [|shares| shares.weights, |shares| shares.rest];
        for pick in picks {
            let read = |kernel: Kernel| {
                let z = tensor::<4>(3, shape, &Device::flex().autodiff()).require_grad();
                let gradients = (pick(kernel(z.clone())) * 3.0).powi_scalar(2).sum().backward();
                list(z.grad(&gradients).unwrap())
            };
            crate::testing::assert_close("gradient", &read(stick_breaking), &read(plain), 1e-6);
        }
    }

    /// The definition, product by product, in f64.
    #[test]
    fn long_rows_of_large_logits_stay_exact() {
        let keys = 300;
        let z: Vec<f32> = numbers(5, keys).iter().map(|x| 90.0 * x - 60.0).collect();
        let shape = [1, 1, 1, keys];
        let logits = Tensor::<1>::from_floats(&z[..], &Device::flex()).reshape(shape);
        let Shares { weights, rest } = stick_breaking(logits);
        let mut left = 1.0_f64;
        for (z, weight) in z.iter().zip(list(weights)).rev() {
            let beta = 1.0 / (1.0 + (-f64::from(*z)).exp());
            let expected = beta * left;
            assert!((f64::from(weight) - expected).abs() <= 1e-4 * expected + 1e-37, "{weight} {expected}");
            left *= 1.0 / (1.0 + f64::from(*z).exp());
        }
        assert!((f64::from(list(rest)[0]) - left).abs() <= 1e-4 * left + 1e-37);
    }

    #[test]
    fn a_query_that_sees_nothing_leaves_all() {
        let device = Device::flex().autodiff();
        for kernel in [stick_breaking as Kernel, plain] {
            let z = Tensor::<4>::full([1, 1, 1, 20], f32::NEG_INFINITY, &device).require_grad();
            let Shares { weights, rest } = kernel(z.clone());
            assert_eq!((list(weights.clone()), list(rest.clone())), (vec![0.0; 20], vec![1.0]));
            let gradients = (weights.sum() + rest.sum()).backward();
            assert_eq!(list(z.grad(&gradients).unwrap()), [0.0; 20]);
        }
    }

    #[test]
    fn a_nan_is_not_hidden() {
        let z = Tensor::<1>::from_floats([0.0, f32::NAN, 1.0, f32::NEG_INFINITY], &Device::flex());
        for kernel in [stick_breaking as Kernel, plain] {
            let Shares { weights, rest } = kernel(z.clone().reshape([1, 1, 1, 4]));
            assert!(list(weights)[1].is_nan() && list(rest)[0].is_nan());
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let Shares { weights, rest } =
                    stick_breaking(tensor::<4>(4, [2, 3, 50, 900], &Device::flex()));
                (list(weights), list(rest))
            })
        };
        assert_eq!(run(1), run(3));
    }
}
