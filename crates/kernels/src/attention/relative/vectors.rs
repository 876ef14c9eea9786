//! The values of vectors by distance, laid out for products with blocks of rows.

use super::buckets::BucketMap;
use super::{RelativeTensors, TableTensor};
use crate::machine::autodiff::values;
use crate::machine::matmul::Matrix;
use crate::machine::simd::LANES;

/// The values of [`RelativeTensors`].
pub(in crate::attention) struct Tables {
    /// The last bucket first, so that entries of a block's table run with the keys of a row.
    pub(super) keys: Option<Vectors>,
    /// `[heads, buckets]`, the last bucket first.
    pub(super) key_bias: Option<Vec<f32>>,
    /// The first bucket first, so that entries of a key's table run with the queries of a block.
    pub(super) queries: Option<Vectors>,
    /// The last bucket first.
    pub(super) values: Option<Vectors>,
}

impl Tables {
    pub(in crate::attention) fn new(tensors: &RelativeTensors) -> Self {
        let vectors =
            |table: &Option<TableTensor>, order| table.as_ref().map(|table| Vectors::new(table, order));
        let key_bias = tensors.key_bias.as_ref().map(|bias| {
            let buckets = bias.layout().shape()[1];
            in_order(&values(bias), buckets, 1, Order::LastFirst)
        });
        Self {
            keys: vectors(&tensors.keys, Order::LastFirst),
            key_bias,
            queries: vectors(&tensors.queries, Order::FirstFirst),
            values: vectors(&tensors.values, Order::LastFirst),
        }
    }
}

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

/// The vectors of one [`VectorTable`](super::VectorTable).
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
    fn new(table: &TableTensor, order: Order) -> Self {
        let shape = table.vectors.layout().shape();
        let [heads, buckets, width] = [shape[0], shape[1], shape[2]];
        let stride = buckets.next_multiple_of(LANES);
        let rows = in_order(&values(&table.vectors), buckets, width, order);
        let mut columns = vec![0.0; heads * width * stride];
        for head in 0..heads {
            let columns = &mut columns[head * width * stride..];
            Matrix::new(&rows[head * buckets * width..], buckets, width, width)
                .transpose_into(columns, stride);
        }
        let map = BucketMap::new(table.buckets.clone());
        Self { map, rows, columns, order, buckets, width, stride, shared: heads == 1 }
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
