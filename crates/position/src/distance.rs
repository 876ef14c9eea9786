//! Biases that are a function of the distance n = i - j of a query and a key.
//!
//! Where positions are consecutive the distances are 0, 1, 2, .. and the bias is a table by distance,
//! whatever the length. Fractional or drawn positions give one block for the queries at hand. Distances
//! are formed in f64; positions near 70,000 with a fraction would lose it in f32.

use crate::encoding::{Capabilities, Position, QueryBlock};
use crate::parameter::ParameterSpec;
use crate::positions::Positions;
use crate::summary::Summary;
use crate::table::indices;
use burn::tensor::{Device, Int, Tensor};
use longwave_kernels::{Bias, VectorTable};
use std::ops::Range;
use std::sync::Arc;

/// An encoding that adds a bias by distance and does nothing else: its [`Position`] follows from this.
pub trait DistanceBias {
    /// As [`Position::parameters`].
    fn parameters(&self) -> Vec<ParameterSpec> {
        Vec::new()
    }

    /// The bias of a layer at distances of at least 0, `[heads, distances]`.
    fn at(&self, layer: usize, distances: &[f64], device: &Device) -> Tensor<2>;

    /// Where the bias is `-slope n`, the slope of each head `[heads]`: kernels need no table then.
    fn slopes(&self, layer: usize, device: &Device) -> Option<Tensor<1>> {
        let _ = (layer, device);
        None
    }

    /// As [`Position::capabilities`]; by default those of a bias of every head that reads distances.
    fn capabilities(&self) -> Capabilities {
        Capabilities::BY_DISTANCE
    }

    /// As [`Position::summaries`].
    fn summaries(&self, positions: &Positions) -> Vec<Summary> {
        let _ = positions;
        Vec::new()
    }
}

impl<E: DistanceBias> Position for E {
    fn parameters(&self) -> Vec<ParameterSpec> {
        DistanceBias::parameters(self)
    }

    fn capabilities(&self) -> Capabilities {
        DistanceBias::capabilities(self)
    }

    fn bias(&self, block: QueryBlock<'_>) -> Bias {
        let (layer, device) = (block.rows.layer, block.input.device());
        if block.rows.positions.consecutive()
            && let Some(slopes) = self.slopes(layer, &device)
        {
            return Bias::Slopes(slopes.div_scalar(block.rows.positions.scale()));
        }
        bias_by_distance(block, |distances| self.at(layer, distances, &device))
    }

    fn needs_scores(&self, positions: &Positions) -> bool {
        !positions.consecutive()
    }

    fn interpolates(&self) -> bool {
        true
    }

    fn summaries(&self, positions: &Positions) -> Vec<Summary> {
        DistanceBias::summaries(self, positions)
    }
}

/// The bias whose values at some distances are `of(distances)`, `[heads, distances]`.
pub fn bias_by_distance(block: QueryBlock<'_>, of: impl Fn(&[f64]) -> Tensor<2>) -> Bias {
    if block.rows.positions.consecutive() {
        return Bias::ByDistance(of(&consecutive(block)));
    }
    Bias::Block(as_block(of(&of_block(block)), block))
}

/// The distances of consecutive positions up to the last query of a block: 0, 1, .., over the scale.
pub fn consecutive(block: QueryBlock<'_>) -> Vec<f64> {
    let scale = block.rows.positions.scale();
    (0..block.queries.end).map(|n| n as f64 / scale).collect()
}

/// The distances of a block, `[rows, queries, keys]` row-major; 0 where the key lies ahead of the query.
pub fn of_block(block: QueryBlock<'_>) -> Vec<f64> {
    signed(block).map(|n| n.max(0.0)).collect()
}

/// The distances i - j of a block, negative where the key lies ahead, `[rows, queries, keys]` row-major.
pub fn signed(block: QueryBlock<'_>) -> impl Iterator<Item = f64> {
    let (positions, scale) = (block.rows.positions, block.rows.positions.scale());
    positions.in_text().chunks(positions.length().max(1)).flat_map(move |row| {
        row[block.queries.clone()].iter().flat_map(move |i| row.iter().map(move |j| (i - j) / scale))
    })
}

/// `[heads, rows * queries * keys]` -> `[rows, heads, queries, keys]`.
pub fn as_block(values: Tensor<2>, block: QueryBlock<'_>) -> Tensor<4> {
    let positions = block.rows.positions;
    let heads = values.dims()[0];
    values.reshape([heads, positions.rows(), block.queries.len(), positions.length()]).swap_dims(0, 1)
}

/// The rows of a table of vectors that the distances of a block choose, for consecutive positions.
pub struct ChosenRows {
    /// The rows that are chosen at all.
    rows: Range<usize>,
    /// Whether farther distances choose earlier rows.
    falling: bool,
    buckets: Arc<[u32]>,
}

impl ChosenRows {
    /// `of(n)` chooses by the distance n; the row rises with the distance, or falls.
    pub fn new(block: QueryBlock<'_>, of: impl Fn(f64) -> usize) -> Self {
        let chosen: Vec<usize> = consecutive(block).into_iter().map(of).collect();
        let (near, far) = (chosen.first().map_or(0, |row| *row), chosen.last().map_or(0, |row| *row));
        Self {
            rows: near.min(far)..near.max(far) + 1,
            falling: far < near,
            buckets: chosen.iter().map(|row| row.abs_diff(near) as u32).collect(),
        }
    }

    /// The chosen rows of a table `[rows, any]`, nearest first.
    pub fn of(&self, table: Tensor<2>) -> Tensor<2> {
        let rows = table.slice_dim(0, self.rows.clone());
        if self.falling { rows.flip([0]) } else { rows }
    }

    /// Vectors `[1 or heads, chosen rows, width]` by the distances.
    pub fn vectors(self, vectors: Tensor<3>) -> VectorTable {
        VectorTable { vectors, buckets: self.buckets }
    }
}

/// A choice for every pair of a block, for `gather`: `[batch, heads, queries, keys]`, where `of(n)` chooses
/// by the signed distance n = i - j.
pub fn chosen_by_distance(
    block: QueryBlock<'_>,
    [batch, heads]: [usize; 2],
    of: impl Fn(f64) -> usize,
    device: &Device,
) -> Tensor<4, Int> {
    let positions = block.rows.positions;
    let (queries, keys) = (block.queries.len(), positions.length());
    indices(signed(block).map(of), device)
        .reshape([positions.rows(), 1, queries, keys])
        .expand([batch, heads, queries, keys])
}
