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

mod buckets;
mod keys;
mod queries;
mod values;
mod vectors;

pub use values::add_to_first_channels;

use super::{ScoreTerm, Terms};
use crate::attention::spec::{Shape, Sight};
use burn::tensor::{Int, Tensor};
use std::sync::Arc;

/// Vectors that a distance chooses.
#[derive(Clone, Debug)]
pub struct VectorTable {
    /// `[1 or heads, buckets, width]`.
    pub vectors: Tensor<3>,
    /// The vector of each distance from 0 on.
    pub buckets: Arc<[u32]>,
}

impl VectorTable {
    fn check(&self, width: usize, sight: &Sight, shape: &Shape) {
        let (dims, heads, needed) = (self.vectors.dims(), shape.heads, sight.offset + shape.queries);
        assert!(
            (dims[0] == 1 || dims[0] == heads) && dims[2] == width,
            "attention: vectors {dims:?} for {heads} heads of {width} channels"
        );
        assert!(
            self.buckets.len() >= needed && self.buckets.iter().all(|bucket| (*bucket as usize) < dims[1]),
            "attention: {} distances choose among {} vectors, for {needed} distances",
            self.buckets.len(),
            dims[1]
        );
    }

    /// The bucket of each query and key, of the shape `like`; any for keys ahead of the query.
    fn chosen(&self, sight: &Sight, like: [usize; 4], x: &Tensor<4>) -> Tensor<4, Int> {
        let of = |distance: isize| i64::from(self.buckets[distance.max(0).cast_unsigned()]);
        Tensor::<4, Int>::from_data(sight.distances_of(like[2], like[3], of), &x.device()).expand(like)
    }

    /// The products of all vectors with queries or keys `[batch, heads, rows, width]`: `[batch, heads, rows, buckets]`.
    fn products(&self, x: &Tensor<4>) -> Tensor<4> {
        x.clone().matmul(self.vectors.clone().unsqueeze::<4>().swap_dims(2, 3))
    }
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

impl From<RelativeVectors> for Terms {
    fn from(RelativeVectors { keys, key_bias, queries, values }: RelativeVectors) -> Self {
        assert!(keys.is_some() || key_bias.is_none(), "attention: a bias of vectors that are not there");
        let keys = keys.map(|table| Arc::new(keys::Keys { table, bias: key_bias }) as Arc<dyn ScoreTerm>);
        let queries = queries.map(|table| Arc::new(queries::Queries(table)) as Arc<dyn ScoreTerm>);
        let values = values.map(|table| Arc::new(values::Values(table)) as Arc<dyn ScoreTerm>);
        Self([keys, queries, values].into_iter().flatten().collect())
    }
}
