//! Attention to all keys from attention to parts of them.
//!
//! With `o_a` and `o_b` the outputs of two parts and `l_a` and `l_b` the logs of their sums of exp(logits), the softmax
//! over both is `w_a o_a + w_b o_b`, where `w_a = exp(l_a - l)`, `w_b = exp(l_b - l)` and
//! `l = log(exp(l_a) + exp(l_b))` is the log sum of the whole (Dao et al. 2022, section 3.1). The
//! result has the form of a part again: more parts are merged one after the other, whatever the keys were split by.
//! Two rotations that are chosen by distance are read so ([`attention_by_distance`]).
//!
//! **Fused on the CPU:** the weights and the sum, in one pass. The GPU has plain tensor operations for it.
//!
//! **Kept for the backward pass:** the outputs and log sums of both parts.
//!
//! **Bytes:** for n numbers of output, `12 n` forward (two outputs in, one out) and `28 n` backward (both outputs and
//! three times the gradient in, two gradients out).

mod flex;
mod gradient;
mod reference;

use super::{Attention, PartialAttention, partial_attention};
use crate::autodiff::{self, CpuTensor};
use burn::tensor::Tensor;

/// The attention to the keys of two parts, each of which reads other keys for the same queries.
///
/// # Panics
/// The shapes differ.
pub fn merge(a: PartialAttention, b: PartialAttention) -> PartialAttention {
    assert_eq!(a.output.dims(), b.output.dims(), "merge: outputs of different shapes");
    let applies = |part: &PartialAttention| {
        autodiff::cpu_kernel_applies(&part.output) && autodiff::cpu_kernel_applies(&part.log_sums)
    };
    if !(applies(&a) && applies(&b)) {
        return reference::merge(a, b);
    }
    let inputs = [
        CpuTensor::new(a.output),
        CpuTensor::new(b.output),
        CpuTensor::new(a.log_sums),
        CpuTensor::new(b.log_sums),
    ];
    let [a, b, a_sums, b_sums] = inputs.each_ref().map(CpuTensor::data);
    let (outputs, log_sums) = ([a, b], [a_sums, b_sums]);
    let merged = flex::forward(&flex::Parts::new(outputs, log_sums));
    let saved =
        || gradient::Saved { outputs: outputs.map(Clone::clone), log_sums: log_sums.map(Clone::clone) };
    let [output, log_sums] = autodiff::record_joint(&inputs, merged, saved);
    PartialAttention { output: output.into_tensor(), log_sums: log_sums.into_tensor() }
}

/// Attention whose scores come from one pair of q and k where tokens are near, and from another where they are far:
/// `ReRoPE`, Leaky `ReRoPE`, Self-Extend.
///
/// `near` and `far` are q `[batch, heads, queries, head_dim]` and k `[batch, key_heads, keys, head_dim]`; `border` is
/// the first far distance, in tokens. Each pair reads its own range of distances. Both together do the work of one,
/// but for the blocks of queries on the border and the pass that merges.
///
/// # Panics
/// As [`attention`](super::attention()).
pub fn attention_by_distance(
    near: [Tensor<4>; 2],
    far: [Tensor<4>; 2],
    v: Tensor<4>,
    border: usize,
    options: &Attention,
) -> Tensor<4> {
    // The distances below this one occur.
    let end = options.query_offset + near[0].dims()[2];
    let part = |[q, k]: [Tensor<4>; 2], distances| {
        partial_attention(q, k, v.clone(), &Attention { distances, ..options.clone() })
    };
    let all = 0..usize::MAX;
    let merged = match border {
        0 => part(far, all),
        _ if border >= end => part(near, all),
        _ => merge(part(near, 0..border), part(far, border..usize::MAX)),
    };
    merged.output
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::tests::flat_part;
    use crate::attention::{NOTHING_SEEN, attention};
    use crate::testing::{assert_close, assert_matches, list, numbers, tensor};
    use burn::tensor::Device;

    /// Outputs with heads and rows exchanged, as attention lays them out, and log sums, which differ by up to 16.
    fn parts(inputs: &[Tensor<1>], [batch, heads, queries, width]: [usize; 4]) -> [PartialAttention; 2] {
        [0, 1].map(|part| {
            let input = |index: usize| inputs[index + part].clone();
            PartialAttention {
                output: input(0).reshape([batch, queries, heads, width]).swap_dims(1, 2),
                log_sums: input(2).reshape([batch, heads, queries]).mul_scalar(8.0),
            }
        })
    }

    #[test]
    fn agrees_with_the_reference() {
        for shape in [[1, 1, 1, 1], [2, 3, 37, 5], [1, 2, 300, 64]] {
            let (rows, count) = (shape[..3].iter().product(), shape.iter().product());
            let inputs = [numbers(1, count), numbers(2, count), numbers(3, rows), numbers(4, rows)];
            for part in [
                flat_part,
                |part: PartialAttention| part.output.flatten(0, 3),
                |part: PartialAttention| part.log_sums.flatten(0, 2),
            ] {
                assert_matches(
                    &format!("merge {shape:?}"),
                    &inputs,
                    |inputs| part(parts(inputs, shape).into_iter().reduce(merge).unwrap()),
                    |inputs| part(parts(inputs, shape).into_iter().reduce(reference::merge).unwrap()),
                );
            }
        }
    }

    #[test]
    fn a_part_that_sees_nothing_changes_no_bit() {
        let device = Device::flex();
        let part = |log_sums: f32| PartialAttention {
            output: tensor::<4>(1, [1, 2, 40, 3], &device),
            log_sums: Tensor::full([1, 2, 40], log_sums, &device),
        };
        let nothing = || PartialAttention { output: part(0.0).output.zeros_like(), ..part(NOTHING_SEEN) };
        for merge in [merge, reference::merge] {
            for merged in [merge(part(1.5), nothing()), merge(nothing(), part(1.5))] {
                assert_eq!(list(merged.output), list(part(1.5).output));
                assert_eq!(list(merged.log_sums), [1.5; 80]);
            }
            let merged = merge(nothing(), nothing());
            assert_eq!(list(merged.output), [0.0; 240]);
            assert_eq!(list(merged.log_sums), [NOTHING_SEEN; 80]);
        }
    }

    /// Keys in three ranges of distances, merged in either order, are all keys.
    #[test]
    fn parts_of_the_keys_make_the_whole() {
        let device = Device::flex();
        let [q, k, v] = [1, 2, 3].map(|seed| tensor::<4>(seed, [2, 2, 70, 4], &device));
        let part = |distances| {
            let options = Attention { distances, ..Attention::causal(4) };
            partial_attention(q.clone(), k.clone(), v.clone(), &options)
        };
        let expected = part(0..usize::MAX);
        let ranges = [part(0..11), part(11..40), part(40..usize::MAX)];
        let [a, b, c] = ranges.clone();
        for merged in [merge(merge(a.clone(), b.clone()), c.clone()), merge(a, merge(b, c))] {
            assert_close("output", &list(merged.output), &list(expected.output.clone()), 1e-6);
            assert_close("log sums", &list(merged.log_sums), &list(expected.log_sums.clone()), 1e-6);
        }
        assert_eq!(
            list(expected.output),
            list(attention(q.clone(), k.clone(), v.clone(), &Attention::causal(4)))
        );
    }
}
