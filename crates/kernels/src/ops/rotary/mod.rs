//! Rotation of query and key channels by position, and the split of packed projections into heads.
//!
//! **Fused:** the split of packed rows `[batch, length, (query + 2 key_value) * head_dim]` into heads, the
//! exchange of heads and rows, and the rotation of q and k. Backward: the turning back, and the joining of
//! the three gradients into packed rows.
//!
//! **Kept for the backward pass:** the tables, and nothing of q, k and v.
//!
//! **Bytes:** of n numbers (all of q, k and v, or what [`rotate`] takes) each is read once and written once
//! in f32, forward and backward: `8 n`. The tables add `4 * length * rotated` for each of q and k and each
//! batch row that has its own; heads share them.
//!
//! **Tried on the CPU, and slower:** one head after the other (each takes its columns from lines that the
//! memory gives whole: 2.4 times as long at 2^24 numbers, and 1.9 times in blocks of 8 rows); adding the
//! gradients of q, k and v to the packed one as they come (3 n numbers move in place of 2 n); asking for the
//! rows of several gradients ahead of their use (a third slower: the processor follows the streams by itself).
//!
//! `cpu.rs` says how it is done on the CPU, `gpu/` on the GPU.

pub(crate) mod cpu;
#[cfg(feature = "gpu")]
pub(crate) mod gpu;
pub(crate) mod reference;
#[cfg(test)]
mod tests;

use crate::machine::autodiff::{CpuTensor, View, tensor_of};
use crate::op::prelude::*;
use crate::ops::precision::widened;
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which two channels turn together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Channel i with channel i + r/2, of the first r channels.
    #[default]
    Half,
    /// Channel 2i with channel 2i + 1, of the first r channels.
    Interleaved,
}

/// The cosine and sine of each pair's angle, for a set of positions.
///
/// A pair (a, b) becomes `(a cos - b sin, a sin + b cos)`; channels past the rotated ones pass
/// unchanged. Factors on the rotated channels (`YaRN`'s, or xPos' scale) are part of the table, which
/// is a constant: it receives no gradient.
#[derive(Clone, Debug)]
pub struct RotationTable {
    /// `[rows, length, rotated / 2]`; rows is 1 (shared by the batch) or the batch.
    pub cos: Tensor<3>,
    /// The shape of `cos`.
    pub sin: Tensor<3>,
    /// Which two channels turn together.
    pub layout: Layout,
}

impl RotationTable {
    /// The number of channels that are rotated.
    pub fn rotated(&self) -> usize {
        2 * self.cos.dims()[2]
    }

    /// What is read of it.
    pub(crate) fn constants(&self) -> [Any; 2] {
        [self.cos.clone().into(), self.sin.clone().into()]
    }

    /// The tensors of the table, for the fused form.
    pub(crate) fn to_cpu(&self) -> cpu::Table {
        let data = |tensor: &Tensor<3>| CpuTensor::new(tensor.clone()).into_data();
        cpu::Table { cos: data(&self.cos), sin: data(&self.sin), layout: self.layout }
    }

    pub(crate) fn check(&self, batch: usize, length: usize, head_dim: usize) {
        let [rows, positions, half] = self.cos.dims();
        assert_eq!(self.cos.dims(), self.sin.dims(), "rotation table: cos and sin differ in shape");
        assert!(rows == 1 || rows == batch, "rotation table: {rows} rows for a batch of {batch}");
        assert_eq!(positions, length, "rotation table: {positions} positions for a length of {length}");
        assert!(2 * half <= head_dim, "rotation table: {} channels of {head_dim} rotated", 2 * half);
    }
}

/// The heads of one attention layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// The number of query heads.
    pub query: usize,
    /// The number of key heads, and of value heads; divides the number of query heads.
    pub key_value: usize,
    /// Channels per head.
    pub head_dim: usize,
}

impl Heads {
    /// The width of a packed row: `(query + 2 key_value) * head_dim`.
    pub fn packed(&self) -> usize {
        (self.query + 2 * self.key_value) * self.head_dim
    }
}

/// Splits packed projections into heads and rotates queries and keys, in one pass.
///
/// packed `[batch, length, (query + 2 key_value) * head_dim]` = `[q heads | k heads | v heads]` ->
/// q `[batch, query, length, head_dim]`, k and v `[batch, key_value, length, head_dim]`. Without a
/// table, q or k is split only. q and k may have different tables (xPos). Packed rows of half precision are made f32
/// first.
///
/// # Panics
/// The shapes of packed, heads and tables do not agree.
pub fn split_rotate(
    packed: Tensor<3>,
    heads: Heads,
    q_table: Option<&RotationTable>,
    k_table: Option<&RotationTable>,
) -> (Tensor<4>, Tensor<4>, Tensor<4>) {
    let [batch, length, width] = packed.dims();
    assert_eq!(width, heads.packed(), "split_rotate: packed has another width than {heads:?}");
    for table in [q_table, k_table].into_iter().flatten() {
        table.check(batch, length, heads.head_dim);
    }
    let op = Split { heads, tables: [q_table.cloned(), k_table.cloned()] };
    run(op, [widened(packed).into()]).map(Any::tensor).into()
}

#[derive(Clone)]
struct Split {
    heads: Heads,
    /// Those of q and k.
    tables: [Option<RotationTable>; 2],
}

impl Op<1, 3> for Split {
    const NAME: &'static str = "split and rotate";
    const TAKES_EMPTY: bool = true;
    const ON_GPU: bool = true;

    fn constants(&self) -> Vec<Any> {
        self.tables.iter().flatten().flat_map(RotationTable::constants).collect()
    }

    fn reference(self, [packed]: [Any; 1]) -> [Any; 3] {
        let [q_table, k_table] = self.tables.each_ref().map(Option::as_ref);
        let (q, k, v) = reference::split_rotate(&packed.tensor(), self.heads, q_table, k_table);
        [q, k, v].map(Any::from)
    }

    fn cpu(self, [packed]: [FlexTensor; 1], _: [bool; 1]) -> ([FlexTensor; 3], impl Gradient<Flex, 1, 3>) {
        let [batch, length, width] = packed.layout().shape().dims();
        let Heads { query, key_value, head_dim } = self.heads;
        let tables = self.tables.map(|table| table.as_ref().map(RotationTable::to_cpu));
        let of = tables.each_ref().map(Option::as_ref);
        let [q, k, v] = cpu::split(&View::new(&packed), batch, length, self.heads, of);
        let tensor = |values, count| tensor_of(values, [batch, count, length, head_dim]);
        let outputs = [tensor(q, query), tensor(k, key_value), tensor(v, key_value)];
        // One pass makes the gradient of the packed rows from those of q, k and v.
        (outputs, move |gradients, _| {
            let gradients = gradients.map(|gradient| gradient.map(|gradient| View::new(&gradient)));
            let of = tables.each_ref().map(Option::as_ref);
            [Some(tensor_of(cpu::merge(batch, length, self.heads, &gradients, of), [batch, length, width]))]
        })
    }

    #[cfg(feature = "gpu")]
    fn gpu(self, [packed]: [Primitive; 1], _: [bool; 1]) -> ([Primitive; 3], impl Gradient<Cube, 1, 3>) {
        let split = gpu::Split::new(&packed, self.heads, self.tables.each_ref().map(Option::as_ref));
        (split.forward(packed), move |gradients, _| [Some(split.backward(gradients))])
    }
}

/// Rotates x `[batch, heads, length, head_dim]` by a table -> the same shape.
///
/// # Panics
/// The shapes of x and the table do not agree.
pub fn rotate(x: Tensor<4>, table: &RotationTable) -> Tensor<4> {
    let [batch, _, length, head_dim] = x.dims();
    table.check(batch, length, head_dim);
    let [y] = run(Rotate { table: table.clone() }, [x.into()]);
    y.tensor()
}

#[derive(Clone)]
struct Rotate {
    table: RotationTable,
}

impl Op<1> for Rotate {
    const NAME: &'static str = "rotate";
    const TAKES_EMPTY: bool = true;
    const ON_GPU: bool = true;

    fn constants(&self) -> Vec<Any> {
        self.table.constants().into()
    }

    fn reference(self, [x]: [Any; 1]) -> [Any; 1] {
        [reference::rotate(x.tensor(), &self.table).into()]
    }

    fn cpu(self, [x]: [FlexTensor; 1], _: [bool; 1]) -> ([FlexTensor; 1], impl Gradient<Flex, 1>) {
        let shape: [usize; 4] = x.layout().shape().dims();
        let table = self.table.to_cpu();
        let turned =
            move |x: &FlexTensor, sign| tensor_of(cpu::rotate(&View::new(x), shape, &table, sign), shape);
        ([turned(&x, 1.0)], move |output, _| [Some(turned(&only(output), -1.0))])
    }

    #[cfg(feature = "gpu")]
    fn suits_gpu(&self, _: &[Any; 1]) -> bool {
        self.table.rotated() > 0
    }

    #[cfg(feature = "gpu")]
    fn gpu(self, [x]: [Primitive; 1], _: [bool; 1]) -> ([Primitive; 1], impl Gradient<Cube, 1>) {
        let table = gpu::Table::new(&self.table);
        ([gpu::rotate(x, &table, false)], move |output, _| [Some(gpu::rotate(only(output), &table, true))])
    }
}
