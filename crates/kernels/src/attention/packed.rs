//! Attention to packed projections.

use super::{Attention, attention};
#[cfg(feature = "gpu")]
use super::{Shape, cube};
#[cfg(feature = "gpu")]
use crate::autodiff;
use crate::rotary::{Heads, RotationTable, split_rotate};
use burn::tensor::Tensor;

/// [`split_rotate`] of packed projections, and [`attention`](attention()) of the q, k and v that it gives.
///
/// packed `[batch, length, (query + 2 key_value) * head_dim]`, the tables those of q and of k -> `[batch, query, length,
/// head_dim]`. On the GPU one kernel computes the gradient of the packed rows. Elsewhere the two operations run one after
/// the other.
///
/// # Panics
/// As those.
pub fn packed_attention(
    packed: Tensor<3>,
    heads: Heads,
    tables: [Option<&RotationTable>; 2],
    options: &Attention,
) -> Tensor<4> {
    #[cfg(feature = "gpu")]
    {
        let packed = crate::precision::widened(packed.clone());
        if let Some((shape, tiles)) = on_gpu(&packed, heads, tables, options) {
            return cube::packed_attention(packed, heads, tables, options, shape, tiles);
        }
    }
    let [q_table, k_table] = tables;
    let (q, k, v) = split_rotate(packed, heads, q_table, k_table);
    attention(q, k, v, options)
}

/// The shape of q, k and v, and its tiles, if the GPU has a kernel for them.
#[cfg(feature = "gpu")]
fn on_gpu(
    packed: &Tensor<3>,
    heads: Heads,
    tables: [Option<&RotationTable>; 2],
    options: &Attention,
) -> Option<(Shape, cube::Tiles)> {
    let [batch, length, width] = packed.dims();
    assert_eq!(width, heads.packed(), "packed_attention: packed has another width than {heads:?}");
    let Heads { query, key_value, head_dim } = heads;
    let shape = Shape {
        batch,
        heads: query,
        key_heads: key_value,
        queries: length,
        keys: length,
        head_dim,
        value_dim: head_dim,
    };
    options.check(&shape);
    let mut tables = tables.into_iter().flatten();
    tables.clone().for_each(|table| table.check(batch, length, head_dim));
    let fits =
        autodiff::gpu_kernel_applies(packed) && tables.all(RotationTable::on_gpu) && options.suits_gpu();
    let tiles = if fits { cube::supports_packed(packed, &shape, options.precision) } else { None };
    tiles.map(|tiles| (shape, tiles))
}
