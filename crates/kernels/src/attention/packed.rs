//! Attention to packed projections.

use super::{Attention, attention};
#[cfg(feature = "gpu")]
use super::{Shape, gpu};
use crate::op::prelude::*;
use crate::ops::precision::widened;
use crate::ops::rotary::{Heads, RotationTable, split_rotate};
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
    let [first_bias, second_bias] = options.bias.inputs();
    let op = PackedAttention {
        heads,
        tables: tables.map(Option::<&RotationTable>::cloned),
        options: options.clone(),
    };
    let [output] = run(op, [widened(packed).into(), first_bias, second_bias]);
    output.tensor()
}

#[derive(Clone)]
struct PackedAttention {
    heads: Heads,
    /// Those of q and of k.
    tables: [Option<RotationTable>; 2],
    options: Attention,
}

impl Op<3> for PackedAttention {
    const NAME: &'static str = "packed attention";
    const ON_CPU: bool = false;
    const ON_GPU: bool = true;

    fn constants(&self) -> Vec<Any> {
        let tables = self.tables.iter().flatten().flat_map(RotationTable::constants);
        tables.chain(self.options.query_scale.iter().cloned().map(Any::from)).collect()
    }

    fn reference(self, [packed, ..]: [Any; 3]) -> [Any; 1] {
        let [q_table, k_table] = self.tables.each_ref().map(Option::as_ref);
        let (q, k, v) = split_rotate(packed.tensor(), self.heads, q_table, k_table);
        [attention(q, k, v, &self.options).into()]
    }

    #[cfg(feature = "gpu")]
    fn suits_gpu(&self, [packed, ..]: &[Any; 3]) -> bool {
        let [batch, length, width] = packed.shape().dims();
        assert_eq!(
            width,
            self.heads.packed(),
            "packed_attention: packed has another width than {:?}",
            self.heads
        );
        self.options.check(&self.shape(batch, length));
        self.tables.iter().flatten().for_each(|table| table.check(batch, length, self.heads.head_dim));
        self.options.suits_gpu() && self.tiles(packed).is_some()
    }

    #[cfg(feature = "gpu")]
    fn gpu(
        self,
        [packed, first_bias, second_bias]: [Primitive; 3],
        _: [bool; 3],
    ) -> ([Primitive; 1], impl Gradient<Cube, 3>) {
        let [batch, length, _] = packed.shape().dims();
        let shape = self.shape(batch, length);
        let tiles = self.tiles(&Any::of_gpu(packed.clone())).expect("the device has tiles for it");
        let tables = self.tables.each_ref().map(Option::as_ref);
        let bias = [first_bias, second_bias];
        let (output, kept) =
            gpu::packed_forward(packed, bias, self.heads, tables, &self.options, shape, tiles);
        ([output], move |output, wanted| kept.gradients(only(output), wanted[1] || wanted[2]).map(Some))
    }
}

#[cfg(feature = "gpu")]
impl PackedAttention {
    /// Of q, k and v.
    fn shape(&self, batch: usize, length: usize) -> Shape {
        let Heads { query: heads, key_value: key_heads, head_dim } = self.heads;
        Shape { batch, heads, key_heads, queries: length, keys: length, head_dim, value_dim: head_dim }
    }

    /// If the GPU has a kernel for it.
    fn tiles(&self, packed: &Any) -> Option<gpu::Tiles> {
        let [batch, length, _] = packed.shape().dims();
        gpu::supports_packed(packed, &self.shape(batch, length), self.options.precision)
    }
}
