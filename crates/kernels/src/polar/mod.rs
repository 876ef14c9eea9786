//! Channels as vectors in the plane, whose lengths the content sets and whose angles are given (`PoPE`).
//!
//! With `l = softplus(x) = ln(1 + exp(x))` of each channel, the result is `[l cos | l sin]` (Gopalakrishnan et al. 2025,
//! arXiv:2509.10534, section 3). Heads may have angles of their own, and so may batch rows.
//!
//! With g and h the gradients of both halves, `dx = sigmoid(x) (g cos + h sin)`, `dcos = l g` and `dsin = l h`, the latter
//! summed over the rows that share an angle.
//!
//! **Fused:** all of it. Plain operations write the lengths and each product before they are joined, and some ten tensors of the
//! size of x in the backward pass.
//!
//! **Kept for the backward pass:** x, and the tables of cos and sin.
//!
//! **Bytes:** for n channels at least `12 n` forward (x in, twice as many numbers out) and `16 n` backward. The tables add theirs
//! once for each batch row that has its own.

mod flex;
mod gradient;
mod reference;

use crate::autodiff::{self, CpuTensor};
use burn::tensor::Tensor;

/// x `[batch, heads, length, channels]`, cos and sin `[1 or batch, 1 or heads, length, channels]` ->
/// `[batch, heads, length, 2 channels]`.
///
/// # Panics
/// The shapes do not agree.
pub fn polar(x: Tensor<4>, cos: Tensor<4>, sin: Tensor<4>) -> Tensor<4> {
    let shape @ [batch, heads, length, channels] = x.dims();
    let table @ [table_batch, table_heads, ..] = cos.dims();
    assert!(
        sin.dims() == table
            && (table_batch == 1 || table_batch == batch)
            && (table_heads == 1 || table_heads == heads)
            && table[2..] == [length, channels],
        "polar: cos {table:?} and sin {:?} for {shape:?}",
        sin.dims()
    );
    let applies = [&x, &cos, &sin].into_iter().all(autodiff::cpu_kernel_applies);
    if !applies || shape.contains(&0) {
        return reference::polar(x, cos, sin);
    }
    let inputs = [CpuTensor::new(x), CpuTensor::new(cos), CpuTensor::new(sin)];
    let saved = gradient::Saved { inputs: inputs.each_ref().map(|input| input.data().clone()), shape, table };
    let output = saved.with_numbers(|numbers| flex::forward(&numbers));
    let output = autodiff::tensor_of(output, [batch, heads, length, 2 * channels]);
    autodiff::record(&inputs, output, || saved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_matches, differentiate, list, numbers};
    use burn::tensor::Device;

    /// x, and the batch rows and heads of the tables.
    type Case = ([usize; 4], [usize; 2]);

    const CASES: [Case; 6] = [
        ([1, 1, 1, 1], [1, 1]),
        ([3, 4, 21, 10], [1, 1]),
        ([3, 4, 21, 10], [1, 4]),
        ([3, 2, 9, 32], [3, 1]),
        ([2, 3, 50, 17], [2, 3]),
        ([1, 5, 7, 40], [1, 5]),
    ];

    fn inputs(([batch, heads, length, channels], [table_batch, table_heads]): Case) -> Vec<Vec<f32>> {
        let table = table_batch * table_heads * length * channels;
        let sizes = [batch * heads * length * channels, table, table];
        sizes.into_iter().zip(1..).map(|(size, seed)| numbers(seed, size)).collect()
    }

    type Polar = fn(Tensor<4>, Tensor<4>, Tensor<4>) -> Tensor<4>;

    /// Heads and rows of x swapped, so that they do not lie contiguously.
    fn call(case: Case, inputs: &[Tensor<1>], polar: Polar) -> Tensor<4> {
        let ([batch, heads, length, channels], [table_batch, table_heads]) = case;
        let x = inputs[0].clone().mul_scalar(4.0).reshape([batch, length, heads, channels]).swap_dims(1, 2);
        let table =
            |index: usize| inputs[index].clone().reshape([table_batch, table_heads, length, channels]);
        polar(x, table(1), table(2))
    }

    #[test]
    fn agrees_with_the_reference() {
        for case in CASES {
            assert_matches(
                &format!("polar {case:?}"),
                &inputs(case),
                |inputs| call(case, inputs, polar),
                |inputs| call(case, inputs, reference::polar),
            );
        }
    }

    /// The definition, in f64.
    #[test]
    fn lengths_of_large_and_small_channels_are_right() {
        let x = [-200.0_f32, -87.0, -20.0, -1e-6, 0.0, 0.5, 20.0, 3e4];
        let of = |values: &[f32]| {
            Tensor::<1>::from_floats(values, &Device::flex()).reshape([1, 1, 1, values.len()])
        };
        let out = list(polar(of(&x), of(&[1.0; 8]), of(&[0.5; 8])));
        for (n, x) in x.iter().enumerate() {
            let x = f64::from(*x);
            let expected = x.max(0.0) + (-x.abs()).exp().ln_1p();
            for (found, expected) in [(out[n], expected), (out[8 + n], 0.5 * expected)] {
                assert!(
                    (f64::from(found) - expected).abs() <= 3e-7 * expected + 1e-37,
                    "{x}: {found} for {expected}"
                );
            }
        }
    }

    #[test]
    fn threads_change_no_bit() {
        for case in CASES {
            let run = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    differentiate(&Device::flex(), &inputs(case), |inputs| call(case, inputs, polar))
                })
            };
            assert_eq!(run(1), run(3));
        }
    }

    #[test]
    #[should_panic(expected = "polar: cos")]
    fn tables_of_other_heads_are_rejected() {
        let of = |heads| Tensor::<4>::zeros([1, heads, 3, 4], &Device::flex());
        let _ = polar(of(4), of(2), of(2));
    }
}
