//! The values of vectors by distance, laid out for products with blocks of rows, and tables of a block's rows and buckets.

use super::VectorTable;
use super::buckets::{BucketMap, collect, spread};
use crate::attention::block::Tile;
use crate::attention::terms::{Room, at_least, summed};
use crate::machine::autodiff::{tensor_of, values};
use crate::machine::matmul::Matrix;
use crate::machine::simd::LANES;
use burn_flex::FlexTensor;

/// The order in which buckets are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    FirstFirst,
    LastFirst,
}

/// `[.., buckets, width]` in an order of the buckets; the same again undoes it.
pub(super) fn in_order(values: &[f32], buckets: usize, width: usize, order: Order) -> Vec<f32> {
    if order == Order::FirstFirst || values.is_empty() {
        return values.to_vec();
    }
    values.chunks(buckets * width).flat_map(|head| head.chunks(width).rev().flatten().copied()).collect()
}

/// The vectors of one [`VectorTable`].
pub(super) struct Vectors {
    pub(super) map: BucketMap,
    /// `[1 or heads, buckets, width]`.
    rows: Vec<f32>,
    /// `[1 or heads, width, stride]`: the transpose of each head.
    columns: Vec<f32>,
    pub(super) order: Order,
    pub(super) buckets: usize,
    pub(super) width: usize,
    stride: usize,
    /// Whether the heads share the vectors.
    pub(super) shared: bool,
}

impl Vectors {
    pub(super) fn new(tensor: &FlexTensor, table: &VectorTable, order: Order) -> Self {
        let shape = tensor.layout().shape();
        let [heads, buckets, width] = [shape[0], shape[1], shape[2]];
        let stride = buckets.next_multiple_of(LANES);
        let rows = in_order(&values(tensor), buckets, width, order);
        let mut columns = vec![0.0; heads * width * stride];
        for head in 0..heads {
            let columns = &mut columns[head * width * stride..];
            Matrix::new(&rows[head * buckets * width..], buckets, width, width)
                .transpose_into(columns, stride);
        }
        let map = BucketMap::new(table.buckets.clone());
        Self { map, rows, columns, order, buckets, width, stride, shared: heads == 1 }
    }

    /// The numbers of a head.
    pub(super) fn size(&self) -> usize {
        self.buckets * self.width
    }

    /// A table of any numbers for a block, `[rows, used]`.
    pub(super) fn table<'r>(&self, tile: Tile<'_>, room: &'r mut Room) -> &'r mut [f32] {
        at_least(&mut room.buffers[0], tile.block.rows * self.map.used(reach(tile)))
    }

    /// The gradient of the tensor, from those of each batch row and head: summed over the batch, and over the heads where
    /// they share vectors, in their order.
    pub(super) fn gradient(&self, parts: &[f32], heads: usize) -> FlexTensor {
        let Self { buckets, width, order, .. } = *self;
        let heads = if self.shared { 1 } else { heads };
        let total = summed(parts, heads * self.size());
        tensor_of(in_order(&total, buckets, width, order), [heads, buckets, width])
    }

    /// Where the first `used` buckets begin.
    pub(super) fn first(&self, used: usize) -> usize {
        match self.order {
            Order::FirstFirst => 0,
            Order::LastFirst => self.buckets - used,
        }
    }

    fn head(&self, head: usize) -> usize {
        if self.shared { 0 } else { head }
    }

    /// The vectors of the first `used` buckets, `[used, width]`.
    pub(super) fn rows(&self, head: usize, used: usize) -> Matrix<'_> {
        let from = (self.head(head) * self.buckets + self.first(used)) * self.width;
        Matrix::new(&self.rows[from..], used, self.width, self.width)
    }

    /// Their transpose, `[width, used]`.
    pub(super) fn columns(&self, head: usize, used: usize) -> Matrix<'_> {
        let from = self.head(head) * self.width * self.stride + self.first(used);
        Matrix::new(&self.columns[from..], self.width, used, self.stride)
    }
}

/// The distances below this are those of a block's rows and keys.
pub(super) fn reach(tile: Tile<'_>) -> usize {
    tile.position() + tile.block.rows - tile.block.all_seen().start
}

/// Adds to each logit, or gradient of a probability, the entry of its row and bucket.
pub(super) fn spread_rows(tile: Tile<'_>, map: &BucketMap, table: &[f32], x: &mut [f32]) {
    let used = table.len() / tile.block.rows;
    for run in tile.runs() {
        spread(map, &table[run.row * used..][..used], run.farthest, &mut x[run.columns]);
    }
}

/// Sums probabilities, or gradients of logits, by row and bucket.
pub(super) fn collect_rows<'r>(
    tile: Tile<'_>,
    vectors: &Vectors,
    x: &[f32],
    room: &'r mut Room,
) -> &'r [f32] {
    let table = vectors.table(tile, room);
    table.fill(0.0);
    let used = table.len() / tile.block.rows;
    for run in tile.runs() {
        collect(&vectors.map, &x[run.columns], run.farthest, &mut table[run.row * used..][..used]);
    }
    table
}
