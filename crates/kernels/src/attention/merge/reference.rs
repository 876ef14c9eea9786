//! What the merge computes, in plain tensor operations.

use crate::attention::PartialAttention;

pub(super) fn merge(a: PartialAttention, b: PartialAttention) -> PartialAttention {
    let largest = a.log_sums.clone().max_pair(b.log_sums.clone()).detach(); // [batch, heads, queries]
    let weigh = |part: PartialAttention| {
        let weight = (part.log_sums - largest.clone()).exp();
        (part.output * weight.clone().unsqueeze_dim(3), weight)
    };
    let ((a, a_weight), (b, b_weight)) = (weigh(a), weigh(b));
    let sums = a_weight + b_weight;
    PartialAttention { output: (a + b) / sums.clone().unsqueeze_dim(3), log_sums: sums.log() + largest }
}
