//! Linear attention: features of queries and keys in place of a softmax of their scores.
//!
//! The formula and its sources stand in [`linear_attention`]. Queries and keys are not scaled first, as published. Time and
//! memory grow with the length.

use super::rotations::Rotations;
use burn::tensor::Tensor;
use longwave_kernels::{linear_attention, repeat_heads};
use longwave_position::Reading;
use longwave_position::encoding::{PositionMap, QueryBlock};

/// Attention of the queries at hand; shapes as in [`super::attend`].
pub(super) fn attention(
    [q, k, v]: [Tensor<4>; 3],
    block: QueryBlock<'_>,
    reading: &Reading,
    rotations: &mut Rotations,
) -> Tensor<4> {
    let groups = q.dims()[1] / k.dims()[1];
    let positions = block.rows.positions;
    let tables = reading.rotation(block.rows.layer).map(|rotation| {
        let plain = (PositionMap::Identity, PositionMap::Identity);
        rotations.tables(rotation, plain, &positions.columns(block.queries.clone()), positions, &q.device())
    });
    let [k, v] = [k, v].map(|x| repeat_heads(x, groups));
    linear_attention(q, k, v, tables.as_ref(), block.queries.start)
}

#[cfg(test)]
mod tests;
