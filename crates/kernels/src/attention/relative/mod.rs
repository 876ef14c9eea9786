//! Vectors by distance: added to keys, to queries and to values.
//!
//! With n = i - j the distance of a query and a key, `logit_ij` becomes
//! `scale * (q_i · (k_j + keys[n]) + queries[n] · k_j)`, and a value reads `v_j + values[n]`. Many distances may share a
//! vector: each names its bucket.
//!
//! Nothing of size queries x keys is formed. For a block of queries, a table of its products with the vectors of `keys`
//! is one small matrix product; each logit takes its bucket's entry. The gradients of logits and the probabilities are
//! summed by bucket in the same way, into tables that small products turn into the gradients of q and of the vectors, and
//! into the addition to the output. `queries` need the products of keys with vectors, one table for each head:
//! `[keys, buckets]`.

mod blocks;
mod buckets;
mod gradient;
pub(super) mod reference;
mod vectors;

pub(super) use blocks::{KeyTable, Scratch, add_keys, add_queries, add_values, through_values};
pub(super) use gradient::{KeyTables, PARTS, Part, sizes, tensors};
pub(super) use vectors::Tables;

use super::{Attention, Shape};
use crate::op::Input;
use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use std::sync::Arc;

/// Vectors that a distance chooses.
#[derive(Clone, Debug)]
pub struct VectorTable {
    /// `[1 or heads, buckets, width]`.
    pub vectors: Tensor<3>,
    /// The vector of each distance from 0 on.
    pub buckets: Arc<[u32]>,
}

/// Vectors by distance that are added to keys, queries and values: none of them by default.
#[derive(Clone, Debug, Default)]
pub struct RelativeVectors {
    /// Added to the key, for the query that reads it: `q_i · keys[n]` (Shaw et al. 2018, equation 4).
    pub keys: Option<VectorTable>,
    /// `[heads, buckets]`: added to `q_i · keys[n]`, before the scale; only beside `keys`.
    pub key_bias: Option<Tensor<2>>,
    /// Added to the query, for the key that it reads: `queries[n] · k_j` (He et al. 2021, equation 3). A query scale
    /// does not multiply it.
    pub queries: Option<VectorTable>,
    /// Added to the value (Shaw et al. 2018, equation 3).
    pub values: Option<VectorTable>,
}

impl RelativeVectors {
    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        self.keys.is_none() && self.key_bias.is_none() && self.queries.is_none() && self.values.is_none()
    }

    fn tables(&self) -> impl Iterator<Item = &VectorTable> {
        [&self.keys, &self.queries, &self.values].into_iter().flatten()
    }

    pub(super) fn is_tracked(&self) -> bool {
        self.tables().any(|table| table.vectors.is_tracked())
            || self.key_bias.as_ref().is_some_and(Tensor::is_tracked)
    }

    /// The tensors, of keys, the bias beside them, queries and values.
    pub(super) fn inputs(&self) -> [Input; 4] {
        let vectors = |table: &Option<VectorTable>| table.as_ref().map(|table| table.vectors.clone()).into();
        [vectors(&self.keys), self.key_bias.clone().into(), vectors(&self.queries), vectors(&self.values)]
    }

    pub(super) fn check(&self, options: &Attention, shape: &Shape) {
        let Shape { heads, queries, head_dim, value_dim, .. } = *shape;
        let needed = options.query_offset + queries;
        let widths = [(&self.keys, head_dim), (&self.queries, head_dim), (&self.values, value_dim)];
        for (VectorTable { vectors, buckets }, width) in
            widths.into_iter().filter_map(|(table, width)| Some((table.as_ref()?, width)))
        {
            let dims = vectors.dims();
            assert!(
                (dims[0] == 1 || dims[0] == heads) && dims[2] == width,
                "attention: vectors {dims:?} for {heads} heads of {width} channels"
            );
            assert!(
                buckets.len() >= needed && buckets.iter().all(|bucket| (*bucket as usize) < dims[1]),
                "attention: {} distances choose among {} vectors, for {needed} distances",
                buckets.len(),
                dims[1]
            );
        }
        if let Some(bias) = &self.key_bias {
            let buckets = self.keys.as_ref().map_or(0, |table| table.vectors.dims()[1]);
            assert_eq!(bias.dims(), [heads, buckets], "attention: the bias of vectors by distance");
        }
    }
}

/// The tensors of [`RelativeVectors`].
#[derive(Clone, Debug, Default)]
pub(super) struct RelativeTensors {
    keys: Option<TableTensor>,
    key_bias: Option<FlexTensor>,
    queries: Option<TableTensor>,
    values: Option<TableTensor>,
}

/// The tensors of a [`VectorTable`].
#[derive(Clone, Debug)]
struct TableTensor {
    vectors: FlexTensor,
    buckets: Arc<[u32]>,
}

impl RelativeTensors {
    /// Takes the [`inputs`](RelativeVectors::inputs) of the vectors, as far as they are there.
    pub(super) fn new(vectors: &RelativeVectors, tensors: [FlexTensor; 4]) -> Self {
        let table = |table: &Option<VectorTable>, vectors: FlexTensor| {
            table.as_ref().map(|table| TableTensor { vectors, buckets: table.buckets.clone() })
        };
        let [keys, key_bias, queries, values] = tensors;
        Self {
            keys: table(&vectors.keys, keys),
            key_bias: vectors.key_bias.as_ref().map(|_| key_bias),
            queries: table(&vectors.queries, queries),
            values: table(&vectors.values, values),
        }
    }
}
