//! Scores of queries and keys whose channels fade from row to row (Wall attention).
//!
//! `score_ij = sum_c q_ic k_jc exp(G_ic - G_jc)` for `j <= i`, G the running sum of the logs of gates between 0 and 1: it never rises
//! (Tilde Research 2026; flash-linear-attention, `ops/wall_attn`). Scores of later keys are 0.
//!
//! **How:** `exp(-G_j)` alone overflows, so a block of queries and a block of keys before it have a reference row r between them, the
//! last of the keys: with `exp(G_i - G_r)` in q and `exp(G_r - G_j)` in k, neither above 1, their scores are a product of matrices. A
//! region of 32 queries meets all keys before it in one such product. Inside the region, halves meet halves, down to
//! eight rows, whose pairs are computed one by one.
//!
//! **The gradient of G** needs no exponentials of its own: `dG = q dq - k dk`, channel by channel.
//!
//! **Fused:** all of it. Nothing of size queries x keys x channels exists.
//!
//! **Kept for the backward pass:** the inputs.
//!
//! **Bytes:** with R rows of queries and of keys in all heads at least `12 R head_dim` and the scores, forward; twice that backward.

mod cpu;

use crate::machine::autodiff::{View, tensor_of};
use crate::op::prelude::*;
use burn::tensor::Tensor;
use std::ops::Range;

/// Rows of a block of the reference.
const PLAIN_ROWS: usize = 16;

/// The sizes of a call.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    heads: usize,
    queries: usize,
    rows: usize,
    head_dim: usize,
}

/// q `[batch, heads, queries, head_dim]` of the rows from `first` on, k and the running sums of log gates
/// `[batch, heads, rows, head_dim]` of all rows -> `[batch, heads, queries, rows]`.
///
/// # Panics
/// The shapes do not agree, or there are queries past the last row.
pub fn fading_scores(q: Tensor<4>, k: Tensor<4>, log_gates: Tensor<4>, first: usize) -> Tensor<4> {
    let ([batch, heads, queries, head_dim], rows) = (q.dims(), k.dims()[2]);
    assert!(
        [k.dims(), log_gates.dims()].iter().all(|dims| *dims == [batch, heads, rows, head_dim]),
        "fading scores: q {:?}, k {:?} and log gates {:?}",
        q.dims(),
        k.dims(),
        log_gates.dims()
    );
    assert!(first + queries <= rows, "fading scores: {queries} queries from {first} on, of {rows} rows");
    let sizes = Sizes { batch, heads, queries, rows, head_dim };
    let [scores] = run(Fading { sizes, first }, [q.into(), k.into(), log_gates.into()]);
    scores.tensor()
}

/// In plain operations, a block of queries at a time: its own rows pair by pair, those before it by a reference row.
fn plain(q: &Tensor<4>, k: &Tensor<4>, gates: &Tensor<4>, first: usize) -> Tensor<4> {
    let ([batch, heads, queries, _], rows) = (q.dims(), k.dims()[2]);
    let device = q.device();
    let block = |start: usize| {
        let count = PLAIN_ROWS.min(queries - start);
        let (before, end) = (first + start, first + start + count);
        let part = |x: &Tensor<4>, rows: Range<usize>| x.clone().slice_dim(2, rows);
        let q = part(q, start..start + count);
        let [own_k, own] = [k, gates].map(|x| part(x, before..end));
        // Rows ahead would grow; they are not looked at.
        let faded = own.clone().unsqueeze_dim::<5>(3) - own.clone().unsqueeze_dim::<5>(2);
        let pairs = q.clone().unsqueeze_dim::<5>(3) * own_k.unsqueeze_dim::<5>(2);
        let pairs = (pairs * faded.clamp_max(0.0).exp()).sum_dim(4).squeeze_dim::<4>(4).tril(0);
        let mut columns = Vec::new();
        if before > 0 {
            let reference = part(gates, before - 1..before);
            let q = q * (own - reference.clone()).exp();
            let k = part(k, 0..before) * (reference - part(gates, 0..before)).exp();
            columns.push(q.matmul(k.swap_dims(2, 3)));
        }
        columns.push(pairs);
        if end < rows {
            columns.push(Tensor::zeros([batch, heads, count, rows - end], (&device, k.dtype())));
        }
        Tensor::cat(columns, 3)
    };
    match queries {
        0 => Tensor::zeros([batch, heads, 0, rows], (&device, q.dtype())),
        _ => Tensor::cat((0..queries).step_by(PLAIN_ROWS).map(block).collect(), 2),
    }
}

#[derive(Clone)]
struct Fading {
    sizes: Sizes,
    /// The row of the first query.
    first: usize,
}

impl Op<3> for Fading {
    const NAME: &'static str = "fading scores";

    fn reference(self, [q, k, gates]: [Any; 3]) -> [Any; 1] {
        [plain(&q.tensor(), &k.tensor(), &gates.tensor(), self.first).into()]
    }

    fn cpu(self, inputs: [FlexTensor; 3], _: [bool; 3]) -> ([FlexTensor; 1], impl Gradient<Flex, 3>) {
        let Sizes { batch, heads, queries, rows, .. } = self.sizes;
        let scores = self.forward(&inputs.each_ref().map(View::new));
        let gradient = move |output, _| {
            let views = inputs.each_ref().map(View::new);
            self.backward(&views, &View::new(&only(output))).map(Some)
        };
        ([tensor_of(scores, [batch, heads, queries, rows])], gradient)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        assert_fused_on, assert_threads_change_no_bit, by_reference, list, numbers, tensor,
    };
    use burn::tensor::Device;

    /// `[batch, heads, queries, rows, head_dim]` and the first query.
    fn call(inputs: &[Tensor<1>], (sizes, first): (Sizes, usize)) -> Tensor<4> {
        let Sizes { batch, heads, queries, rows, head_dim } = sizes;
        // Heads and rows swapped, so that they do not lie contiguously.
        let of = |index: usize, rows: usize| {
            inputs[index].clone().reshape([batch, rows, heads, head_dim]).swap_dims(1, 2)
        };
        let gates = of(2, rows).square().mul_scalar(0.3).cumsum(2).neg();
        fading_scores(of(0, queries), of(1, rows), gates, first)
    }

    #[test]
    fn agrees_with_the_reference() {
        let plain = Sizes { batch: 2, heads: 2, queries: 37, rows: 37, head_dim: 5 };
        for (sizes, first) in [
            (plain, 0),
            (Sizes { queries: 1, rows: 1, ..plain }, 0),
            // Queries at the end of a text, and rows after the last query.
            (Sizes { queries: 5, rows: 50, head_dim: 16, ..plain }, 41),
            (Sizes { batch: 1, heads: 3, queries: 70, rows: 100, head_dim: 8 }, 13),
        ] {
            let Sizes { batch, heads, queries, rows, head_dim } = sizes;
            let counts = [queries, rows, rows].map(|rows| batch * heads * rows * head_dim);
            let inputs: Vec<_> = (1..).zip(counts).map(|(seed, count)| numbers(seed, count)).collect();
            let what = format!("{sizes:?} from {first}");
            assert_fused_on(&Device::flex(), &what, &inputs, |inputs| call(inputs, (sizes, first)));
        }
    }

    /// `exp(-G)` leaves f32 within the text, and differences do not.
    #[test]
    fn strong_gates_do_not_overflow() {
        let device = Device::flex();
        let shape = [1, 1, 100, 4];
        let (q, k) = (tensor::<4>(1, shape, &device), tensor::<4>(2, shape, &device));
        let gates = Tensor::<4>::full(shape, -3.0, &device).cumsum(2);
        let read = || list(fading_scores(q.clone(), k.clone(), gates.clone(), 0));
        for scores in [read(), by_reference(read)] {
            let (q, k) = (list(q.clone()), list(k.clone()));
            for (index, score) in scores.iter().enumerate() {
                let (i, j) = (index / 100, index % 100);
                let dot: f64 = (0..4).map(|c| f64::from(q[i * 4 + c]) * f64::from(k[j * 4 + c])).sum();
                let expected = if j > i { 0.0 } else { dot * (-3.0 * (i - j) as f64).exp() };
                assert!(
                    (f64::from(*score) - expected).abs() < 1e-6 * (1.0 + expected.abs()),
                    "{i} {j}: {score}"
                );
            }
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let sizes = (Sizes { batch: 2, heads: 2, queries: 70, rows: 70, head_dim: 8 }, 0);
        let inputs: Vec<_> = (1..4).map(|seed| numbers(seed, 2 * 2 * 70 * 8)).collect();
        assert_threads_change_no_bit("fading scores", &inputs, |inputs| call(inputs, sizes));
    }
}
