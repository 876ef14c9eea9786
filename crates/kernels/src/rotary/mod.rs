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
//! memory gives whole: 2.4 times as long at 2^24 numbers, and 1.9 times in blocks of 8 rows); making a chunk
//! in a small buffer and moving it past the caches from there (the chunk is cleared, written and read in the
//! second cache besides); adding the gradients of q, k and v to the packed one as they come (3 n numbers move
//! in place of 2 n); asking for the rows of several gradients ahead of their use (a third slower: the
//! processor follows the streams by itself).
//!
//! `flex.rs` says how it is done on the CPU, `cube/` on the GPU.

#[cfg(feature = "gpu")]
pub(crate) mod cube;
pub(crate) mod flex;
mod gradient;
pub(crate) mod reference;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use reference::rotate as plain_rotate;

use crate::autodiff::{self, CpuTensor, View};
use crate::op::Any;
use crate::precision::widened;
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

    pub(crate) fn on_cpu(&self) -> bool {
        autodiff::cpu_kernel_applies(&self.cos) && autodiff::cpu_kernel_applies(&self.sin)
    }

    #[cfg(feature = "gpu")]
    pub(crate) fn on_gpu(&self) -> bool {
        autodiff::gpu_kernel_applies(&self.cos) && autodiff::gpu_kernel_applies(&self.sin)
    }

    /// The tensors of the table, for the fused form.
    pub(crate) fn to_flex(&self) -> flex::Table {
        let data = |tensor: &Tensor<3>| CpuTensor::new(tensor.clone()).into_data();
        flex::Table { cos: data(&self.cos), sin: data(&self.sin), layout: self.layout }
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
    let packed = widened(packed);
    let tables = || [q_table, k_table].into_iter().flatten();
    if autodiff::cpu_kernel_applies(&packed) && tables().all(RotationTable::on_cpu) {
        return fused_split(packed, heads, q_table, k_table);
    }
    #[cfg(feature = "gpu")]
    if autodiff::gpu_kernel_applies(&packed) && tables().all(RotationTable::on_gpu) {
        return cube::split_rotate(packed, heads, q_table, k_table);
    }
    reference::split_rotate(&packed, heads, q_table, k_table)
}

fn fused_split(
    packed: Tensor<3>,
    heads: Heads,
    q_table: Option<&RotationTable>,
    k_table: Option<&RotationTable>,
) -> (Tensor<4>, Tensor<4>, Tensor<4>) {
    let [batch, length, _] = packed.dims();
    let tables = [q_table, k_table].map(|table| table.map(RotationTable::to_flex));
    let input = [CpuTensor::new(packed)];
    let view = View::new(input[0].data());
    let [q, k, v] = flex::split(&view, batch, length, heads, tables.each_ref().map(Option::as_ref));
    let tensor = |values, count| autodiff::tensor_of(values, [batch, count, length, heads.head_dim]);
    let outputs = [tensor(q, heads.query), tensor(k, heads.key_value), tensor(v, heads.key_value)];
    let state = || gradient::Split { batch, length, heads, tables };
    autodiff::record_joint(&input, outputs, state).map(CpuTensor::into_tensor).into()
}

/// Rotates x `[batch, heads, length, head_dim]` by a table -> the same shape.
///
/// # Panics
/// The shapes of x and the table do not agree.
pub fn rotate(x: Tensor<4>, table: &RotationTable) -> Tensor<4> {
    let [batch, _, length, head_dim] = x.dims();
    table.check(batch, length, head_dim);
    #[cfg(feature = "gpu")]
    if autodiff::gpu_kernel_applies(&x) && table.on_gpu() {
        return cube::rotate(x, table);
    }
    if !(autodiff::cpu_kernel_applies(&x) && table.on_cpu()) {
        return reference::rotate(x, table);
    }
    let shape = x.dims();
    let input = CpuTensor::new(x);
    let table = table.to_flex();
    let output = flex::rotate(&View::new(input.data()), shape, &table, 1.0);
    let output = autodiff::tensor_of(output, shape);
    autodiff::record(&[input], output, || gradient::Rotated { shape, table })
}
