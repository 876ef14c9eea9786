//! Causal linear attention: features of queries and keys in place of a softmax of their scores.
//!
//! `out_m = sum_n (R_m phi(q_m)) . (R_n phi(k_n)) v_n / sum_n phi(q_m) . phi(k_n)` over n up to m, with
//! `phi(x) = elu(x) + 1` (Katharopoulos et al. 2020, arXiv:2006.16236, sections 3.2 and 3.3) and the rotation R in the
//! numerator alone, since turned features are no longer positive and their sum could vanish (Su et al. 2021,
//! arXiv:2104.09864, equation 19).
//!
//! The sums run over chunks of 64 rows: what is before a chunk is one matrix `sum_n phi(k_n) v_n^T`, what is in it are products of
//! pairs. The denominator is the product of a query with the running sum of the keys. Backward, the sums of later queries run
//! from the end. Time and memory grow with the length.
//!
//! **Fused:** the features, their rotation, and all sums. Plain operations write the pairs of a chunk several times over.
//!
//! **Kept for the backward pass:** q, k, v, the output, and one number for each query row of a head: its denominator. The
//! features are computed again.
//!
//! **Bytes:** with n numbers in each of q, k and v at least `16 n` forward (these in, the output out), and `32 n` backward.
//! Features and turned features are written and read besides. Time goes into the products: for each row and head
//! `128 (head_dim + value_dim) + 2 head_dim value_dim` multiply-adds forward, and about twice as many backward.

mod backward;
mod cpu;
mod reference;

use crate::op::prelude::*;
use crate::ops::rotary::RotationTable;
use burn::tensor::Tensor;

#[derive(Clone, Copy, Debug)]
struct Shape {
    batch: usize,
    heads: usize,
    queries: usize,
    keys: usize,
    head_dim: usize,
    value_dim: usize,
    /// The row of the first query among the keys.
    first: usize,
}

/// q `[batch, heads, queries, head_dim]` of the rows from `first` of the keys on, k `[batch, heads, keys, head_dim]` and v
/// `[batch, heads, keys, value_dim]` -> `[batch, heads, queries, value_dim]`. The tables turn the features of q and of k.
///
/// # Panics
/// The shapes do not agree, or there are queries past the last key.
pub fn linear_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    tables: Option<&[RotationTable; 2]>,
    first: usize,
) -> Tensor<4> {
    let ([batch, heads, queries, head_dim], [_, _, keys, value_dim]) = (q.dims(), v.dims());
    assert!(
        k.dims() == [batch, heads, keys, head_dim] && v.dims()[..2] == [batch, heads],
        "linear attention: q {:?}, k {:?} and v {:?}",
        q.dims(),
        k.dims(),
        v.dims()
    );
    assert!(first + queries <= keys, "linear attention: {queries} queries from {first} on, for {keys} keys");
    let shape = Shape { batch, heads, queries, keys, head_dim, value_dim, first };
    let op = Fused { shape, tables: tables.cloned() };
    let [output] = run(op, [q.into(), k.into(), v.into()]);
    output.tensor()
}

#[derive(Clone)]
struct Fused {
    shape: Shape,
    tables: Option<[RotationTable; 2]>,
}

impl Op<3> for Fused {
    const NAME: &'static str = "linear attention";

    fn constants(&self) -> Vec<Any> {
        self.tables.iter().flatten().flat_map(RotationTable::constants).collect()
    }

    fn reference(self, [q, k, v]: [Any; 3]) -> [Any; 1] {
        let (tables, first) = (self.tables.as_ref(), self.shape.first);
        let (q, k, v) = (q.tensor(), k.tensor(), v.tensor());
        [reference::linear_attention(q, k, &v, tables, first).into()]
    }

    fn cpu(self, inputs: [FlexTensor; 3], _: [bool; 3]) -> ([FlexTensor; 1], impl Gradient<Flex, 3>) {
        let Shape { batch, queries, keys, head_dim, .. } = self.shape;
        if let Some([q_table, k_table]) = &self.tables {
            q_table.check(batch, queries, head_dim);
            k_table.check(batch, keys, head_dim);
        }
        let tables = self.tables.map(|tables| tables.each_ref().map(RotationTable::to_cpu));
        let call = cpu::Call { inputs, tables, shape: self.shape };
        let (output, denominators) = cpu::forward(&call);
        let kept = backward::Saved { call, output: output.clone(), denominators };
        ([output], move |output, _| kept.gradients(&only(output)).map(Some))
    }
}

#[cfg(test)]
mod tests;
