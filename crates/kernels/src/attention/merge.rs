//! Attention to all keys from attention to parts of them.
//!
//! With `o_a` and `o_b` the outputs of two parts and `l_a` and `l_b` the logs of their sums of exp(logits), the softmax
//! over both is `w_a o_a + w_b o_b`, where `w_a = exp(l_a - l)`, `w_b = exp(l_b - l)` and
//! `l = log(exp(l_a) + exp(l_b))` is the log sum of the whole (Dao et al. 2022, section 3.1). The
//! result has the form of a part again: more parts are merged one after the other, whatever the keys were split by.
//!
//! These are plain tensor operations. The GPU merges the ranges of distances with them; the kernel of the CPU reads all
//! ranges at once ([`attention_by_distance`](super::attention_by_distance())).

use super::spec::PartialAttention;

/// The attention to the keys of two parts, each of which reads other keys for the same queries.
///
/// # Panics
/// The shapes differ.
pub fn merge(a: PartialAttention, b: PartialAttention) -> PartialAttention {
    assert_eq!(a.output.dims(), b.output.dims(), "merge: outputs of different shapes");
    let largest = a.log_sums.clone().max_pair(b.log_sums.clone()).detach(); // [batch, heads, queries]
    let weigh = |part: PartialAttention| {
        let weight = (part.log_sums - largest.clone()).exp();
        (part.output * weight.clone().unsqueeze_dim(3), weight)
    };
    let ((a, a_weight), (b, b_weight)) = (weigh(a), weigh(b));
    let sums = a_weight + b_weight;
    PartialAttention { output: (a + b) / sums.clone().unsqueeze_dim(3), log_sums: sums.log() + largest }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::spec::NOTHING_SEEN;
    use crate::testing::{list, tensor};
    use burn::tensor::{Device, Tensor};

    #[test]
    fn a_part_that_sees_nothing_changes_no_bit() {
        let device = Device::flex();
        let part = |log_sums: f32| PartialAttention {
            output: tensor::<4>(1, [1, 2, 40, 3], &device),
            log_sums: Tensor::full([1, 2, 40], log_sums, &device),
        };
        let nothing = || PartialAttention { output: part(0.0).output.zeros_like(), ..part(NOTHING_SEEN) };
        for merged in [merge(part(1.5), nothing()), merge(nothing(), part(1.5))] {
            assert_eq!(list(merged.output), list(part(1.5).output));
            assert_eq!(list(merged.log_sums), [1.5; 80]);
        }
        let merged = merge(nothing(), nothing());
        assert_eq!(list(merged.output), [0.0; 240]);
        assert_eq!(list(merged.log_sums), [NOTHING_SEEN; 80]);
    }
}
